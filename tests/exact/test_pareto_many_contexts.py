"""Frontiers over several contexts: when dynamic weights help, and when they can not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.fields import EXACT, Array, to_fraction
from theory.laws import as_row, mixture, total_variation
from theory.pareto import many_contexts as many

F = Fraction


def _law(counts: list[int]) -> Array:
    return as_row([F(count, sum(counts)) for count in counts])


def laws(vocab: int) -> st.SearchStrategy[Array]:
    rows = st.lists(st.integers(0, 6), min_size=vocab, max_size=vocab)
    return rows.filter(any).map(_law)


TWO = (
    many.Context(EXACT.number("1/2"), as_row("1/2,1/2"), as_row("9/10,1/10")),
    many.Context(EXACT.number("1/2"), as_row("99/100,1/100"), as_row("59/100,41/100")),
)


@settings(max_examples=40)
@given(
    pairs=st.lists(st.tuples(laws(3), laws(3)), min_size=1, max_size=3),
    weights=st.lists(st.fractions(0, 1, max_denominator=5), min_size=3, max_size=3),
)
def test_dynamic_weights_can_not_beat_static_ones_in_mean_tv(
    pairs: list[tuple[Array, Array]], weights: list[Fraction]
) -> None:
    share = EXACT.one / len(pairs)
    contexts = [many.Context(share, p, q) for p, q in pairs]
    dials = [EXACT.number(w) for w in weights[: len(pairs)]]
    point = many.mixture_point(contexts, dials)
    mean = sum(share * total_variation(p, q) for p, q in pairs)
    assert point.acceptance - point.quality == 1 - mean


def test_dynamic_weights_win_in_kl() -> None:
    half = EXACT.number("1/2")
    static = many.mixture_point(TWO, (half, half), "kl")
    dynamic = many.best_mixtures(TWO, 0.8, "kl")
    assert to_fraction(static.acceptance) == F(4, 5)
    assert static.quality == pytest.approx(0.14007, abs=5e-6)
    assert dynamic.point.acceptance == pytest.approx(0.8, abs=1e-9)
    assert dynamic.point.quality == pytest.approx(0.13824, abs=5e-6)
    assert dynamic.knobs == pytest.approx((0.429, 0.571), abs=5e-4)


@pytest.mark.parametrize("kind", ["kl", "chi2", "hellinger", "js"])
def test_allocations_are_optimal(kind: Any) -> None:
    rng = np.random.default_rng(3)
    contexts = [
        many.Context(0.25, rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))) for _ in range(4)
    ]
    least = float(many.mixture_point(contexts, [1.0] * 4).acceptance)
    wanted = least + 0.4 * (1 - least)
    mixtures = many.best_mixtures(contexts, wanted, kind)
    clips = many.best_clips(contexts, wanted, kind)
    for found in (mixtures, clips):
        assert found.point.acceptance == pytest.approx(wanted, abs=1e-9)
    static = many.mixture_point(contexts, [0.6] * 4, kind)
    assert static.acceptance == pytest.approx(wanted, abs=1e-12)
    assert clips.point.quality < mixtures.point.quality < static.quality
    # no exchange of acceptance between two contexts helps
    gaps = [total_variation(c.p, c.q) for c in contexts]
    for a in range(4):
        for b in range(4):
            moved = list(mixtures.knobs)
            moved[a] += 1e-3 / gaps[a]
            moved[b] -= 1e-3 / gaps[b]
            if min(moved) >= 0 and max(moved) <= 1:
                rival = many.mixture_point(contexts, moved, kind)
                assert rival.quality >= mixtures.point.quality - 1e-12


def test_mixtures_pay_for_mass_outside_the_target_support() -> None:
    """Hellinger charges such mass at a finite price: compare with a fine grid of weights."""
    contexts = [
        many.Context(0.5, np.array([0.0, 0.6, 0.4]), np.array([0.5, 0.1, 0.4])),
        many.Context(0.5, np.array([0.3, 0.4, 0.3]), np.array([0.7, 0.2, 0.1])),
    ]
    found = many.best_mixtures(contexts, 0.8, "hellinger")
    gaps = [total_variation(c.p, c.q) for c in contexts]
    grid = []
    for first in np.linspace(0, 1, 1001):
        second = (0.4 - first * gaps[0]) / gaps[1]  # mean acceptance 1 - (w gap)/2 = 0.8
        if 0 <= second <= 1:
            grid.append(many.mixture_point(contexts, [first, second], "hellinger").quality)
    assert found.point.quality == pytest.approx(min(grid), abs=1e-6)
    assert 0.01 < found.knobs[0] < 0.99


def test_allocations_reject_what_they_can_not_do() -> None:
    with pytest.raises(ValueError, match="no unique allocation"):
        many.best_mixtures(TWO, 0.8, "tv")
    with pytest.raises(ValueError, match="outside"):
        many.best_clips(TWO, 0.5, "kl")


def test_task_reward() -> None:
    """Two contexts with TV 1/2; only the wrong token of the second costs reward."""
    a = many.Context(EXACT.number("1/2"), as_row("1,0"), as_row("1/2,1/2"))
    b = many.Context(EXACT.number("1/2"), as_row("1,0"), as_row("1/2,1/2"))
    rewards = [EXACT.array([1, 1]), EXACT.array([1, 0])]

    def static(w: str) -> tuple[Fraction, Fraction]:
        value = EXACT.number(w)
        acceptance = to_fraction(many.mixture_point([a, b], [value, value]).acceptance)
        reward = sum(
            c.weight * (r * mixture(value, c.p, c.q)).sum()
            for c, r in zip([a, b], rewards, strict=True)
        )
        return acceptance, to_fraction(reward)

    assert [static(w) for w in ("0", "1/2", "1")] == [
        (F(1), F(3, 4)),
        (F(3, 4), F(7, 8)),
        (F(1, 2), F(1)),
    ]
    curve = many.reward_frontier([a, b], rewards)
    assert [(to_fraction(p.acceptance), to_fraction(p.quality)) for p in curve.points] == [
        (F(1, 2), F(1)),
        (F(3, 4), F(1)),  # all of the first context, nothing of the second
        (F(1), F(3, 4)),
    ]


def test_a_better_draft_raises_reward_and_acceptance_together() -> None:
    good = many.Context(EXACT.one, as_row("1/2,1/2"), as_row("3/4,1/4"))
    curve = many.reward_frontier([good], [EXACT.array([1, 0])])
    assert [(to_fraction(p.acceptance), to_fraction(p.quality)) for p in curve.points] == [
        (F(3, 4), F(1, 2)),
        (F(1), F(3, 4)),
    ]


def test_least_harm_per_acceptance_goes_first() -> None:
    """The second context does more harm in all (1/16 against 1/20), but less for what it gains."""
    half, sure = EXACT.number("1/2"), as_row("1,0")
    contexts = [
        many.Context(half, sure, as_row("9/10,1/10")),
        many.Context(half, sure, as_row("1/2,1/2")),
    ]
    curve = many.reward_frontier(contexts, [EXACT.array([1, 0]), EXACT.array([1, "3/4"])])
    assert [(to_fraction(p.acceptance), to_fraction(p.quality)) for p in curve.points] == [
        (F(7, 10), F(1)),
        (F(19, 20), F(15, 16)),
        (F(1), F(71, 80)),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_reward_frontier_is_best(seed: int) -> None:
    """Against all weight maps on a grid."""
    rng = np.random.default_rng(seed)
    contexts = [
        many.Context(1 / 3, rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))) for _ in range(3)
    ]
    rewards = [rng.random(3) for _ in contexts]
    curve = many.reward_frontier(contexts, rewards).points
    speeds, worth = [p.acceptance for p in curve], [p.quality for p in curve]
    for w in np.ndindex(5, 5, 5):
        dials = [x / 4 for x in w]
        point = many.mixture_point(contexts, dials)
        earned = sum(
            c.weight * (r * mixture(x, c.p, c.q)).sum()
            for c, r, x in zip(contexts, rewards, dials, strict=True)
        )
        assert earned <= np.interp(point.acceptance, speeds, worth) + 1e-12
