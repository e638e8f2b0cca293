"""alpha*: the sorted form against its definition, linear programs, transport and known values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.fields import EXACT, SYMBOLIC, to_fraction
from theory.laws import as_row, overlap
from theory.marks import cells
from theory.transport import (
    alpha_star,
    alpha_star_histogram,
    alpha_star_lp,
    alpha_star_subsets,
    clipped_law,
    histogram_gap,
)
from theory.transport.one_position import CELLS, best_set, hit_probability
from theory.transport.oracles import multisets

F = Fraction


@st.composite
def pairs(draw: Any, largest: int = 6) -> tuple[Any, Any, int]:
    """Two exact rows with zeros, ties and equal rows among them, and a number of drafts."""
    vocab = draw(st.integers(1, largest))
    weights = st.lists(st.integers(0, 4), min_size=vocab, max_size=vocab).filter(any)
    p = draw(weights)
    q = draw(st.one_of(weights, st.just(p)))
    rows = (EXACT.array([F(w, sum(row)) for w in row]) for row in (p, q))
    return (*rows, draw(st.integers(1, 5)))


@settings(max_examples=300)
@given(pairs())
def test_sorted_form_is_the_minimum_over_all_sets(case: Any) -> None:
    p, q, num_drafts = case
    value = alpha_star(p, q, num_drafts)
    assert type(value) is Fraction
    assert value == to_fraction(alpha_star_subsets(p, q, num_drafts))
    chosen = best_set(p, q, num_drafts)
    assert value == to_fraction(p[~chosen].sum() + hit_probability(q[chosen].sum(), num_drafts))
    if num_drafts == 1:
        assert value == to_fraction(overlap(p, q))
    if (p == q).all():
        assert value == 1


@settings(max_examples=200)
@given(pairs())
def test_clipped_law_is_a_winner_law_and_attains(case: Any) -> None:
    p, q, num_drafts = case
    law, low, high = clipped_law(p, q, num_drafts)
    assert low <= high
    assert law.sum() == 1
    assert to_fraction(overlap(p, law)) == alpha_star(p, q, num_drafts)
    for chosen in np.ndindex(*(2,) * len(p)):
        inside = np.array(chosen, dtype=bool)
        assert law[inside].sum() <= hit_probability(q[inside].sum(), num_drafts)


@settings(max_examples=40)
@given(pairs(4))
def test_linear_program_and_floats(case: Any) -> None:
    p, q, num_drafts = case
    value = float(alpha_star(p, q, num_drafts))
    assert alpha_star_lp(p, q, num_drafts) == pytest.approx(value, abs=1e-12)
    floats = p.astype(float), q.astype(float)
    assert alpha_star(*floats, num_drafts) == pytest.approx(value, rel=1e-12)
    law, *_ = clipped_law(*floats, num_drafts)
    assert np.minimum(floats[0], law).sum() == pytest.approx(value, rel=1e-12)
    for count in (1, 3, 8, 64):
        below = value - alpha_star_histogram(*floats, num_drafts, count)
        assert -1e-14 <= below <= histogram_gap(num_drafts, count) + 1e-14


@pytest.mark.parametrize(
    ("p", "q", "num_drafts", "value"),
    [
        ("3/4,1/4", "1/4,3/4", 2, F(11, 16)),
        ("3/4,1/4", "1/4,3/4", 3, F(53, 64)),
        ("0,1/2,1/2", "1/2,1/6,1/3", 2, F(3, 4)),
        ("1/3,2/3", "2/3,1/3", 2, F(8, 9)),
        ("1/2,1/2,0", "1/3,1/3,1/3", 2, F(8, 9)),
        ("1/2,1/2", "1/2,1/2", 2, 1),
        ("1,0", "0,1", 9, 0),
    ],
)
def test_known_values(p: str, q: str, num_drafts: int, value: Fraction) -> None:
    assert alpha_star(p, q, num_drafts) == value
    assert alpha_star(p.split(","), q.split(","), num_drafts) == value
    floats = ([float(F(x)) for x in row.split(",")] for row in (p, q))
    assert alpha_star(*floats, num_drafts) == pytest.approx(float(value), rel=1e-14)


def test_small_values_keep_their_relative_precision() -> None:
    tiny = F(1, 10**13)
    p, q = [tiny, 1 - tiny], [1 - tiny, tiny]
    exact = alpha_star(p, q, 3)
    assert alpha_star(list(map(float, p)), list(map(float, q)), 3) == pytest.approx(
        float(exact), rel=1e-12
    )
    assert exact == 1 + tiny - (1 - tiny) ** 3


def synthetic(vocab: int, noise: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal(vocab)
    other = logits + noise * rng.standard_normal(vocab)
    other[rng.random(vocab) < 0.1] = -np.inf
    p, q = np.exp(logits), np.exp(other)
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.7, 3.0])
@pytest.mark.parametrize("num_drafts", [1, 2, 3, 7])
def test_long_rows_are_merged_without_loss(noise: float, num_drafts: int) -> None:
    p, q = synthetic(16 * CELLS, noise, seed=4)
    order = np.argsort(np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0))
    outside = np.concatenate([[0], np.cumsum(p[order])])
    inside = np.concatenate([np.cumsum(q[order][::-1])[::-1], [0]])
    sets = outside - np.expm1(num_drafts * np.log1p(-np.minimum(inside, 1 - 1e-16)))
    value = alpha_star(p, q, num_drafts)
    assert value == pytest.approx(min(sets.min(), 1), abs=1e-13)
    below = value - alpha_star_histogram(p, q, num_drafts)
    assert -1e-13 <= below <= histogram_gap(num_drafts, 64) + 1e-13


@pytest.mark.parametrize("num_drafts", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 64, 300])
def test_histogram_value_is_the_attained_one(num_drafts: int, count: int) -> None:
    """Against the same minimum over label values, summed token by token.

    The last rows have their ratios around the largest label value, within one cell.
    """
    labels = cells(num_drafts, count)
    top = labels.values[-1]
    q = np.array([0.1, 0.1, 0.8])
    p = np.array([0.1 * top * (1 - 1e-5), 0.1 * top * (1 + 1e-5), 1 - 0.2 * top])
    near = (p, q) if top < 5 else (q, q)
    for p, q in [*(synthetic(5000, noise, 6) for noise in (0.1, 1.0, 2.0)), near]:
        values = [
            np.minimum(p, z * q).sum() + (labels.masses * np.maximum(labels.values - z, 0)).sum()
            for z in labels.values
        ]
        attained = alpha_star_histogram(p, q, num_drafts, count)
        assert attained == pytest.approx(min(values), abs=1e-13)


def test_a_large_vocabulary_in_one_cell() -> None:
    """All ratios within one cell: nothing can be merged, and the value is still exact."""
    p, q = synthetic(16 * CELLS, 1e-6, seed=5)
    q = p * (1 + 1e-5 * np.sin(np.arange(len(p))))
    q /= q.sum()
    assert alpha_star(p, q, 2) == pytest.approx(1, abs=1e-12)
    assert alpha_star(p, q, 1) == pytest.approx(float(overlap(p, q)), rel=1e-12)


def test_symbols() -> None:
    a, b = sympy.symbols("a b", positive=True)
    p, q = SYMBOLIC.array([a, 1 - a]), SYMBOLIC.array([b, 1 - b])
    value = alpha_star(p, q, 2)
    at = {a: sympy.Rational(3, 4), b: sympy.Rational(1, 4)}
    assert value.subs(at) == sympy.Rational(11, 16)


def test_against_pot() -> None:
    ot = pytest.importorskip("ot")
    p, q = (row.astype(float) for row in (as_row("1/8,3/8,1/2"), as_row("1/2,3/10,1/5")))
    sets = list(multisets(q, 2))
    cost = np.array([[float(y not in chosen) for y in range(3)] for chosen, _ in sets])
    supply = np.array([mass for _, mass in sets])
    assert 1 - ot.emd2(supply, p, cost) == pytest.approx(alpha_star(p, q, 2), abs=1e-12)


def test_best_conditionally_independent_coupling() -> None:
    """The coupling behind the claim of SpecTr-GBV reaches 5/8 where the optimum is 11/16.

    X_1, X_2 independent given Y and independent draws of q: with two tokens, the covariance of
    their kernels over Y must vanish, so one kernel is constant. All kernels on a grid are tried.
    """
    p, q = (F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))
    steps = [F(i, 24) for i in range(25)]
    kernels = [(a, (q[0] - p[0] * a) / p[1]) for a in steps if 0 <= (q[0] - p[0] * a) / p[1] <= 1]
    best = F(0)
    for first in kernels:
        for second in kernels:
            both = sum(w * a * b for w, a, b in zip(p, first, second, strict=True))
            if both == q[0] ** 2:
                missed = p[0] * (1 - first[0]) * (1 - second[0]) + p[1] * first[1] * second[1]
                best = max(best, 1 - missed)
    assert best == F(5, 8)
    ratio = [min(F(1), b / a) for a, b in zip(p, q, strict=True)]
    closed = sum(a * (1 - (1 - r) * (1 - b)) for a, b, r in zip(p, q, ratio, strict=True))
    assert closed == best < F(2, 3) < alpha_star(p, q, 2) == F(11, 16)


@pytest.mark.parametrize(
    ("p", "q", "num_drafts", "message"),
    [
        ("1/2,1/2", "1/2,1/2", 0, "num_drafts 0"),
        ("1/2,1/2", "1/3,1/3,1/3", 2, "2 tokens, draft has 3"),
        ("1/2,1/3", "1/2,1/2", 2, "target: probabilities sum to 5/6"),
        ([0.5, 0.4], [0.5, 0.5], 2, "target: probabilities sum to"),
        (np.array([0.5, 0.5]), np.array([1.5, -0.5]), 2, "draft: smallest entry -0.5"),
        (np.array([0.5, np.nan]), np.array([0.5, 0.5]), 2, "target: smallest entry nan"),
        (np.array([0.5, 0.5]), "1/2,1/2", 2, "one kind of number"),
        (np.full((2, 2), 0.5), np.array([0.5, 0.5]), 2, r"shape \(2, 2\)"),
    ],
)
def test_refusals(p: Any, q: Any, num_drafts: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alpha_star(p, q, num_drafts)


def test_histogram_refuses_rationals() -> None:
    with pytest.raises(ValueError, match="use alpha_star"):
        alpha_star_histogram("1/2,1/2", "1/2,1/2", 2)
