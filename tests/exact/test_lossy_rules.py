"""Relaxed rules at one position: the law they make is the law they declare."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import catalogue
from theory.fields import EXACT, FLOAT, Array, minimum, to_fraction
from theory.laws import as_row, entropy, kl, overlap, total_variation
from theory.verifiers import ensemble, typical
from theory.verifiers.relaxed import load_rule

F = Fraction

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("ensemble", {"w": "1/2"}),
    ("ensemble", {"w": "1/4", "bonus": "ensemble"}),
    ("ensemble", {"w": 0}),
    ("lenience", {"lenience": "1/2", "residual": "stock"}),
    ("lenience", {"lenience": "1/2", "residual": "scaled"}),
    ("lenience", {"lenience": "1/2", "residual": "target"}),
    ("lenience", {"lenience": "2/3", "residual": "5/4"}),
    ("mentored", {"hi": "3/2"}),
    ("mentored", {"hi": 4}),
    ("cascade", {"rule": "chow", "knob": "3/10"}),
    ("cascade", {"rule": "chow_log", "knob": 1}),
    ("cascade", {"rule": "diff", "knob": "1/10"}),
    ("cascade", {"rule": "opt", "knob": "1/2"}),
    ("cascade", {"rule": "token_v1", "knob": "1/5"}),
    ("cascade", {"rule": "token_v2", "knob": "1/5"}),
    ("cascade", {"rule": "token_v3", "knob": "2/5"}),
    ("typical", {}),
    ("typical", {"eps": "1/3", "delta": 1, "correction": "target"}),
]


def _label(variant: tuple[Any, ...]) -> str:
    return f"{variant[0]}-" + "-".join(str(value) for value in variant[1].values())


def fractions(row: Array) -> list[Fraction]:
    return [to_fraction(value) for value in row]


def _law(counts: list[int]) -> Array:
    return as_row([F(count, sum(counts)) for count in counts])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two laws of 2 to 4 tokens, with zeros, ties and equal laws among them."""
    vocab = draw(st.integers(2, 4))
    rows = st.lists(st.integers(0, 5), min_size=vocab, max_size=vocab).filter(any).map(_law)
    p = draw(rows)
    return p, draw(st.one_of(rows, st.just(p)))


@pytest.mark.parametrize(("rule", "params"), VARIANTS, ids=map(_label, VARIANTS))
@settings(max_examples=40)
@given(pair=pairs())
def test_a_position_emits_what_it_declares(
    rule: str, params: dict[str, Any], pair: tuple[Array, Array]
) -> None:
    p, q = pair
    module = load_rule(rule)
    here, nu = module.position(p, q, **params), module.declared(p, q, **params)
    assert list(here.law(q)) == list(nu)
    assert nu.sum() == here.correction.sum() == 1
    assert min(nu) >= 0
    assert min(here.accept) >= 0
    assert max(here.accept) <= 1
    assert here.alpha(q) <= overlap(q, nu)


@pytest.mark.parametrize(("rule", "params"), VARIANTS, ids=map(_label, VARIANTS))
def test_relaxed_variants_are_flagged_lossy(rule: str, params: dict[str, Any]) -> None:
    assert not load_rule(rule).lossless_at(**params)


@pytest.mark.parametrize(
    ("rule", "params", "law"),
    [
        ("ensemble", {"w": "1/4"}, "17/40,21/80,5/16"),
        ("lenience", {"residual": "stock"}, "2/5,4/15,1/3"),
        ("lenience", {"residual": "scaled"}, "2/5,31/110,7/22"),
        ("lenience", {"residual": "target"}, "21/50,7/25,3/10"),
        ("mentored", {"hi": "3/2"}, "3/10,21/80,7/16"),  # lo = 7/8
        ("cascade", {"rule": "chow", "knob": "1/2"}, "1/2,1/4,1/4"),
        ("cascade", {"rule": "chow", "knob": "2/5"}, "1/5,3/10,1/2"),
        ("cascade", {"rule": "chow_log", "knob": "11/10"}, "1/2,1/4,1/4"),  # Ent(q) = 1.04
        ("cascade", {"rule": "chow_log", "knob": 1}, "1/5,3/10,1/2"),
        ("cascade", {"rule": "diff", "knob": 0}, "1/2,1/4,1/4"),  # a tie keeps the draft
        ("cascade", {"rule": "diff", "knob": "-1/100"}, "1/5,3/10,1/2"),
        ("cascade", {"rule": "token_v1", "knob": "1/5"}, "3/5,3/20,1/4"),
        ("cascade", {"rule": "token_v2", "knob": "1/5"}, "1/10,2/5,1/2"),
        ("cascade", {"rule": "token_v3", "knob": "1/2"}, "1/10,2/5,1/2"),
        ("cascade", {"rule": "token_v3", "knob": 1}, "1/2,1/4,1/4"),
        ("typical", {"eps": "1/4", "delta": 10}, "0,1/4,3/4"),
        ("typical", {"eps": "1/4", "delta": 10, "correction": "target"}, "1/10,2/5,1/2"),
    ],
)
def test_laws_by_hand(rule: str, params: dict[str, Any], law: str) -> None:
    p, q = as_row("1/5,3/10,1/2"), as_row("1/2,1/4,1/4")
    assert list(load_rule(rule).declared(p, q, **params)) == list(as_row(law))


def test_opt_weighs_the_distance() -> None:
    p, q = as_row("1/10,1/10,4/5"), as_row("1/2,1/4,1/4")  # TV 11/20: the switch is at 6/11
    cascade = load_rule("cascade")
    assert list(cascade.declared(p, q, rule="opt", knob="5/11")) == list(p)
    assert list(cascade.declared(p, q, rule="opt", knob="6/11")) == list(q)


@settings(max_examples=40)
@given(pair=pairs(), fraction=st.fractions(0, 1, max_denominator=7))
def test_ensemble_identities(pair: tuple[Array, Array], fraction: Fraction) -> None:
    (p, q), weight = pair, EXACT.number(fraction)
    here = ensemble.position(p, q, weight)
    assert here.alpha(q) == 1 - weight * total_variation(p, q)
    assert total_variation(p, here.law(q)) == (1 - weight) * total_variation(p, q)


@settings(max_examples=40)
@given(pair=pairs())
def test_lenience_promise(pair: tuple[Array, Array]) -> None:
    p, q = pair
    for residual in ("stock", "scaled"):
        nu = load_rule("lenience").declared(p, q, lenience="1/2", residual=residual)
        assert all(nu <= 2 * p)


def test_lenience_promise_is_broken_by_the_target_residual() -> None:
    p, q = as_row("1/10,9/10"), as_row("1/2,1/2")
    nu = load_rule("lenience").declared(p, q, lenience="1/2", residual="target")
    assert to_fraction(nu[0]) == F(1, 5) + F(3, 10) * F(1, 10) == F(23, 100)
    assert nu[0] > 2 * p[0]


@settings(max_examples=40)
@given(pair=pairs())
def test_relaxed_rules_that_never_leave_the_target_support(pair: tuple[Array, Array]) -> None:
    p, q = pair
    for rule in ("lenience", "mentored", "typical"):
        nu = load_rule(rule).declared(p, q)
        assert all(nu[x] == 0 for x in range(len(p)) if p[x] == 0)


def test_the_ensemble_leaves_the_target_support() -> None:
    nu = ensemble.declared(as_row("0,1"), as_row("1/2,1/2"))
    assert fractions(nu) == [F(1, 4), F(3, 4)]


def test_typical_acceptance_example() -> None:
    p, q = as_row("1/2,1/4,1/4"), as_row("1/5,2/5,2/5")
    assert float(entropy(p)) == pytest.approx(1.0397207708399179, abs=1e-12)
    assert typical.threshold(p) == pytest.approx(0.09, abs=1e-12)
    nu = typical.declared(p, q)
    assert list(nu) == list(q)
    assert to_fraction(total_variation(p, nu)) == F(3, 10)
    bits = float(entropy(p)) / math.log(2)
    assert 0.3 * math.exp(-bits) == pytest.approx(0.06693904804452894, abs=1e-12)


def test_typical_threshold_is_strict_and_in_nats() -> None:
    p = as_row("9/100,91/100")
    assert list(typical.typical_set(p, delta=1)) == [False, True]  # p = eps exactly is out
    assert list(typical.typical_set(as_row("1/12,11/12"))) == [False, True]
    flat = as_row([F(1, 8)] * 8)  # 0.3/8 < 1/8: above the entropy threshold
    assert all(typical.typical_set(flat, eps="1/2"))
    sure = as_row("7/100,93/100")  # in bits 0.3 exp(-H) would be lower still, in nats 0.233
    assert typical.threshold(sure, eps=1) == pytest.approx(0.3 * math.exp(-float(entropy(sure))))


def test_mentored_meets_its_budget() -> None:
    rng = np.random.default_rng(4)
    mentored = load_rule("mentored")
    for _ in range(20):
        p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
        nu = mentored.declared(p, q, budget=0.05)
        spent = kl(p, nu)
        assert spent <= 0.05 + 1e-12
        assert spent == pytest.approx(0.05, abs=1e-9) or np.allclose(nu, q)
        assert np.allclose(mentored.position(p, q, budget=0.05).law(q), nu, atol=1e-12)
        assert np.allclose(mentored.declared(p, q, budget=0.0), p, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "params", "message"),
    [
        ("ensemble", {"w": "3/2"}, "outside"),
        ("ensemble", {"w": -1}, "outside"),
        ("ensemble", {"w": 0.5}, "refuses floats"),
        ("lenience", {"lenience": 0}, "divides by zero"),
        ("lenience", {"residual": "other"}, "not a number"),
        ("mentored", {"hi": "1/2"}, "below 1"),
        ("mentored", {"budget": 0.2}, "irrational"),
        ("cascade", {"rule": "chaw"}, "choose one of"),
        ("typical", {"correction": "mode"}, "argmax"),
    ],
)
def test_bad_parameters_are_named(rule: str, params: dict[str, Any], message: str) -> None:
    p, q = as_row("1/3,2/3"), as_row("2/3,1/3")
    with pytest.raises(ValueError, match=message):
        load_rule(rule).position(p, q, **params)


def test_bad_bonus_and_bad_rule_names() -> None:
    with pytest.raises(ValueError, match="'ensemble'"):
        ensemble.bonus_from(bonus="draft")
    with pytest.raises(ValueError, match="is lossless, not lossy"):
        load_rule("token")


def test_catalogue_entries_carry_their_defaults() -> None:
    p, q = as_row("1/3,2/3", "float"), as_row("2/3,1/3", "float")
    entries = [entry for entry in catalogue.VERIFIERS if entry.kind == "lossy"]
    assert {"ensemble", "lenience", "mentored", "cascade", "typical"} <= {e.name for e in entries}
    for entry in entries:
        module = load_rule(entry.name)
        assert not module.lossless_at(**entry.params)
        assert not entry.lossless
        plain, given_defaults = module.declared(p, q), module.declared(p, q, **entry.params)
        assert list(plain) == list(given_defaults)


@pytest.mark.parametrize(("rule", "params"), VARIANTS, ids=map(_label, VARIANTS))
def test_floats_agree_with_rationals(rule: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        counts = rng.integers(0, 6, size=(2, 4)) + np.eye(2, 4, dtype=int)
        p, q = _law(counts[0].tolist()), _law(counts[1].tolist())
        exact = load_rule(rule).declared(p, q, **params)
        rows = (FLOAT.array([float(x) for x in row]) for row in (p, q))
        close = load_rule(rule).declared(*rows, **params)
        assert np.allclose(close, [float(x) for x in exact], atol=1e-14)


def test_symbolic_ensemble() -> None:
    p, q = as_row(sympy.sympify(["a", "1 - a"]), "symbolic"), as_row("2/3,1/3", "symbolic")
    nu = ensemble.declared(p, q, "1/2")
    assert str(nu[0]) == "a/2 + 1/3"


def test_kept_mass_is_the_minimum_for_maximal_couplings() -> None:
    p, q = as_row("1/5,3/10,1/2"), as_row("1/2,1/4,1/4")
    for rule in ("ensemble", "mentored", "cascade"):
        module = load_rule(rule)
        nu = module.declared(p, q)
        assert list(module.position(p, q).kept(q)) == list(minimum(q, nu))
