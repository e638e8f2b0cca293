"""Fields, laws, models and effects: what the exact results stand on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import laws
from theory.effects import Tape, check_interpreter, enumerate_law
from theory.fields import EXACT, FLOAT, SYMBOLIC, Array, Field, to_fraction
from theory.models import MarkovModel, RowTree, TableModel, load_model, prefixes

P = laws.as_row("1/2,3/10,1/5")
Q = laws.as_row("3/5,1/5,1/5")


def fractions(row: Array) -> list[Fraction]:
    return [to_fraction(value) for value in row]


@pytest.mark.parametrize("field", [EXACT, FLOAT, SYMBOLIC], ids=lambda field: field.name)
def test_interpreters_conform(field: Field) -> None:
    check_interpreter(lambda program: enumerate_law(program, field), field)


def test_a_faulty_interpreter_does_not_conform() -> None:
    def halved(program):  # type: ignore[no-untyped-def]
        return {key: weight / 2 for key, weight in enumerate_law(program, EXACT).items()}

    with pytest.raises(AssertionError):
        check_interpreter(halved, EXACT)


def test_exact_field_refuses_floats() -> None:
    with pytest.raises(ValueError, match="refuses floats"):
        EXACT.number(0.5)
    with pytest.raises(ValueError, match="refuses floats"):
        laws.as_row([0.5, 0.5])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1/3,1/3", "sum to 2/3"),
        ("-1/3,4/3", "token 0 has negative"),
        ("nan,1", "not a number"),
        ("inf,1", "not a number"),
        ("1/0,1", "not a number"),
        ("", "not a number"),
    ],
)
def test_bad_rows_are_named(row: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        laws.as_row(row)


def test_float_rows_reject_nan_and_wrong_sums() -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        laws.as_row([float("nan"), 1.0], "float")
    with pytest.raises(ValueError, match="sum to"):
        laws.as_row([0.3, 0.6], "float")


def test_residual_is_the_positive_part_normalised() -> None:
    assert list(laws.residual(P, Q)) == [0, 1, 0]
    assert list(laws.residual(laws.as_row("1/5,3/10,1/2"), laws.as_row("1/2,3/10,1/5"))) == [
        0,
        0,
        1,
    ]


def test_equal_laws_fall_back_to_the_target() -> None:
    one_hot = laws.point_mass(0, 3)
    assert list(laws.residual(one_hot, one_hot)) == [1, 0, 0]
    floats = laws.residual(np.array([1.0, 0, 0]), np.array([1.0, 0, 0]))
    assert list(floats) == [1, 0, 0]


def test_filters() -> None:
    target, draft = laws.as_row("1/2,3/10,1/5"), laws.as_row("3/5,1/5,1/5")
    p, q = laws.top_p(target, Fraction(4, 5)), laws.top_p(draft, Fraction(4, 5))
    assert fractions(p) == [Fraction(5, 8), Fraction(3, 8), 0]
    assert fractions(q) == [Fraction(3, 4), Fraction(1, 4), 0]
    assert to_fraction(laws.overlap(p, q)) == Fraction(7, 8)
    assert fractions(laws.top_k(laws.as_row("2/5,1/5,1/5,1/5"), 2)) == [
        Fraction(2, 3),
        Fraction(1, 3),
        0,
        0,
    ]
    assert fractions(laws.min_p(P, Fraction(1, 2))) == [Fraction(5, 8), Fraction(3, 8), 0]
    assert fractions(laws.temperature(laws.as_row("3/10,1/2,1/5"), 0)) == [0, 1, 0]
    assert fractions(laws.temperature(laws.as_row("1/3,2/3"), Fraction(1, 2))) == [
        Fraction(1, 5),
        Fraction(4, 5),
    ]


rows3 = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)


@given(rows3, rows3)
@settings(max_examples=50, deadline=None)
def test_overlap_and_distance_add_up(a: list[int], b: list[int]) -> None:
    p = EXACT.array([Fraction(x, sum(a)) for x in a])
    q = EXACT.array([Fraction(x, sum(b)) for x in b])
    assert laws.overlap(p, q) + laws.total_variation(p, q) == 1
    assert (laws.residual(p, q) >= 0).all()
    assert laws.residual(p, q).sum() == 1
    floats = laws.overlap(p.astype(float), q.astype(float))
    assert abs(floats - float(to_fraction(laws.overlap(p, q)))) < 1e-12


def test_tape_uses_half_open_buckets_and_strict_coins() -> None:
    law = np.array([0.25, 0.0, 0.75])
    assert Tape([0.0]).choose(law, 0) == 0
    assert Tape([0.25]).choose(law, 0) == 2  # the bucket of token 0 ends before 1/4
    assert Tape([np.nextafter(1, 0)]).choose(np.array([0.5, 0.4999999999999999, 0.0]), 0) == 1
    assert not Tape([0.0]).flip(0.0, 0)  # a zero probability never passes
    assert Tape([0.0]).flip(1e-300, 0)
    with pytest.raises(ValueError, match="outside"):
        Tape([1.0]).flip(0.5, 0)
    with pytest.raises(ValueError, match="no uniform"):
        Tape([0.5]).flip(0.5, 3)
    tape = Tape([0.5, 0.5])
    tape.flip(0.5, 1)
    with pytest.raises(ValueError, match="read twice"):
        tape.flip(0.5, 1)


def test_symbolic_enumeration_weights() -> None:
    a = sympy.Symbol("a", positive=True)
    law = enumerate_law(lambda fx: fx.flip(a, 0), SYMBOLIC)
    assert law == {True: a, False: 1 - a}


def test_row_tree_agrees_with_the_model() -> None:
    order2 = MarkovModel(
        {"": ["1/2", "1/2"], "0": ["1/3", "2/3"], "1": ["1/4", "3/4"]},
        [[["1/5", "4/5"], ["1/6", "5/6"]], [["1/7", "6/7"], ["1/8", "7/8"]]],
        order=2,
    )
    tree = RowTree.of(order2, 5)
    for depth in range(5):
        for prefix in prefixes(2, depth):
            assert list(tree.row(prefix)) == list(order2.row(prefix)), prefix
    below = RowTree.of(order2, 3, prefix=(1, 0))
    assert list(below.row((1, 1))) == list(order2.row((1, 0, 1, 1)))
    with pytest.raises(ValueError, match="beyond the tree"):
        tree.row((0,) * 5)


def test_a_tree_that_does_not_fit_says_how_large_it_is() -> None:
    model = MarkovModel([1 / 50] * 50, field="float")
    with pytest.raises(ValueError, match=r"GiB.*enclosure"):
        RowTree.of(model, 8)


def test_models_are_read_from_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    table = {"kind": "table", "rows": {"": ["1/3", "2/3"], "0": [0.5, 0.5]}, "default": ["1", "0"]}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(table))
    model = load_model(path)
    assert fractions(model.row(())) == [Fraction(1, 3), Fraction(2, 3)]
    assert fractions(model.row((0,))) == [Fraction(1, 2)] * 2  # JSON decimals are exact
    assert list(model.row((1, 0))) == [1, 0]
    with pytest.raises(ValueError, match="neither a file nor a row"):
        load_model("missing.json")
    path.write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        load_model(path)
    with pytest.raises(ValueError, match="kind 'x' is unknown"):
        load_model({"kind": "x"})
    with pytest.raises(ValueError, match=r"no row after prefix \[1\]"):
        TableModel({"": ["1/3", "2/3"]}).row((1,))
    with pytest.raises(ValueError, match="different lengths"):
        TableModel({"": ["1/3", "2/3"], "0": ["1"]})


def test_the_fallback_rationals_give_the_same_numbers() -> None:
    code = (
        "from theory import analyse; a = analyse('1/3,2/3', '2/3,1/3', 'greedy_block', horizon=4);"
        "print(a.expected_calls, a.distance, a.expected_accepted)"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "SPECPROOF_RATIONALS": choice},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for choice in ("fractions", "")
    }
    assert len(outputs) == 1
