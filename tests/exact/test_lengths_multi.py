"""Closed forms of E[tau] for several drafts and trees equal what the programs do."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import analyse
from theory.accepted_length import CLOSED_FORMS, expected_accepted
from theory.catalogue import VERIFIERS
from theory.models import RowTree, TableModel
from theory.random_models import random_tables

F = Fraction
CASES: list[tuple[str, int, int, int, dict[str, Any]]] = [  # rule, vocabulary, gamma, K, parameters
    ("kseq", 2, 2, 3, {}),
    ("recursive_rejection", 3, 1, 3, {}),
    ("recursive_rejection", 2, 2, 3, {}),
    ("recursive_rejection", 3, 2, 2, {}),
    ("recursive_rejection", 3, 1, 3, {"replacement": False}),
    ("recursive_rejection", 3, 2, 2, {"replacement": False}),
    ("sequential_block", 3, 2, 2, {}),
    ("sequential_block", 2, 3, 2, {}),
    ("sequential_block", 2, 2, 3, {}),
    ("sequential_greedy_block", 3, 2, 2, {}),
    ("sequential_greedy_block", 2, 3, 2, {}),
    ("sequential_greedy_block", 2, 2, 3, {}),
    ("max_ratio_block", 3, 2, 2, {}),
    ("max_ratio_block", 2, 3, 2, {}),
    ("max_ratio_block", 2, 2, 3, {}),
    ("traversal", 3, 3, 1, {}),
    ("traversal", 3, 1, 3, {}),
    ("traversal", 2, 2, 2, {}),
    ("traversal", 2, 2, 2, {"branching": (3, 1)}),
    ("traversal", 2, 2, 2, {"replacement": False}),
    ("traversal", 3, 1, 3, {"replacement": False}),
    ("point_mass", 3, 3, 1, {}),
    ("point_mass", 3, 3, 2, {}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_closed_form(case: Any, seed: int) -> None:
    name, vocab, gamma, num_drafts, params = case
    models = random_tables(Random(seed), vocab, gamma)
    a = analyse(*models, name, gamma, num_drafts, **params)
    assert a.closed_form == a.expected_accepted
    floats = [as_floats(model, gamma) for model in models]
    value = expected_accepted(name, *floats, gamma, num_drafts, **params)
    assert value == pytest.approx(float(a.expected_accepted), rel=1e-12, abs=1e-12)


def as_floats(model: TableModel, depth: int) -> RowTree:
    """The row tree in float64."""
    exact = RowTree.of(model, depth)
    return RowTree(tuple(level.astype(float) for level in exact.levels))


def test_examples() -> None:
    sun = "1/3,2/3", "2/3,1/3"
    values = {
        ("recursive_rejection", False): F(5, 3),
        ("recursive_rejection", True): F(4, 3),
        ("traversal", True): F(118, 81),
    }
    for (name, replacement), value in values.items():
        a = analyse(*sun, name, 2, 2, replacement=replacement)
        assert a.closed_form == a.expected_accepted == value
    assert analyse(*sun, "traversal", 2, branching=(2, 1)).closed_form == F(38, 27)


def test_deep_blocks_in_floats() -> None:
    """The forms reach sizes that no enumeration does; equal models keep everything."""
    models = random_tables(Random(0), 3, 6)
    p_tree, q_tree = (as_floats(model, 6) for model in models)
    for name in ("recursive_rejection", "sequential_block", "sequential_greedy_block"):
        one, three = (expected_accepted(name, p_tree, q_tree, 6, k) for k in (1, 3))
        assert one < three < 6
        assert expected_accepted(name, p_tree, p_tree, 6, 2) == pytest.approx(6, rel=1e-12)
    assert expected_accepted("max_ratio_block", p_tree, q_tree, 6, 3) < 6


def test_every_lossless_rule_has_a_form() -> None:
    assert {entry.name for entry in VERIFIERS if entry.lossless} <= set(CLOSED_FORMS)
    tree = RowTree.of(random_tables(Random(0), 2, 2)[0], 2)
    with pytest.raises(ValueError, match="has no closed form; enumerate it"):
        expected_accepted("spectr_gbv", tree, tree, 2, 2)
