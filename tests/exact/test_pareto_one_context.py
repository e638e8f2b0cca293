"""The frontier at one context: slope one in TV, the clip law for every divergence."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import clip
from theory.fields import EXACT, Array, minimum
from theory.laws import as_row, kl, mixture, normalise, overlap, total_variation
from theory.pareto import Point, survey, undominated
from theory.pareto import one_context as one
from theory.pareto.divergences import DIVERGENCES, chi2, measure
from theory.verifiers import lenience
from theory.verifiers.relaxed import load_rule, verify_to

F = Fraction
P, Q = as_row("1/5,3/10,1/2"), as_row("1/2,1/4,1/4")

ON_FRONTIER: list[tuple[str, dict[str, Any]]] = [
    ("ensemble", {"w": 1}),
    ("ensemble", {"w": "1/2"}),
    ("ensemble", {"w": "1/4"}),
    ("lenience", {"lenience": "1/2"}),
    ("mentored", {"hi": "3/2"}),
    ("cascade", {"rule": "chow", "knob": "3/10"}),
    ("cascade", {"rule": "chow_log", "knob": 1}),
    ("cascade", {"rule": "diff", "knob": "1/10"}),
    ("cascade", {"rule": "opt", "knob": "1/2"}),
]
OFF_FRONTIER: list[tuple[str, dict[str, Any]]] = [
    ("lenience", {"lenience": "1/2", "residual": "scaled"}),
    ("lenience", {"lenience": "1/2", "residual": "target"}),
    ("lenience", {"lenience": "2/3", "residual": "5/4"}),
    ("cascade", {"rule": "token_v1", "knob": "1/5"}),
    ("cascade", {"rule": "token_v2", "knob": "1/5"}),
    ("cascade", {"rule": "token_v3", "knob": "2/5"}),
    ("typical", {}),
    ("typical", {"correction": "target"}),
]


def _law(counts: list[int]) -> Array:
    return as_row([F(count, sum(counts)) for count in counts])


def laws(vocab: int) -> st.SearchStrategy[Array]:
    rows = st.lists(st.integers(0, 6), min_size=vocab, max_size=vocab)
    return rows.filter(any).map(_law)


@st.composite
def triples(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    vocab = draw(st.integers(2, 4))
    return draw(laws(vocab)), draw(laws(vocab)), draw(laws(vocab))


@settings(max_examples=40)
@given(rows=triples())
def test_no_rule_beats_slope_one(rows: tuple[Array, Array, Array]) -> None:
    p, q, _ = rows
    for rule, params in OFF_FRONTIER:
        assert one.excess_bias(rule, p, q, **params) >= 0
    for rule, params in ON_FRONTIER:
        assert one.excess_bias(rule, p, q, **params) == 0


@pytest.mark.parametrize(("rule", "params"), OFF_FRONTIER)
def test_rules_off_the_frontier(rule: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(11)
    excess = []
    for _ in range(40):
        p, q = (_law(rng.integers(1, 9, size=4).tolist()) for _ in range(2))
        excess.append(one.excess_bias(rule, p, q, **params))
    assert max(excess) > 0


@settings(max_examples=60)
@given(rows=triples())
def test_frontier_means_box_and_maximal_coupling(rows: tuple[Array, Array, Array]) -> None:
    """The rule with law nu and maximal coupling has no excess exactly if nu is in the box."""
    p, q, nu = rows
    for law in (nu, mixture(EXACT.number("1/3"), p, nu), minimum(p, q) * 0 + q):
        alpha = verify_to(law, q).alpha(q)
        assert alpha == overlap(q, law)
        excess = total_variation(p, law) - (alpha - overlap(p, q))
        assert excess >= 0
        assert (excess == 0) == one.in_box(p, q, law)


def test_linear_program_agrees() -> None:
    rng = np.random.default_rng(5)
    for _ in range(15):
        p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        alpha = rng.uniform(overlap(p, q) - 0.1, 1)
        assert one.least_bias_lp(p, q, alpha) == pytest.approx(
            float(one.least_bias(p, q, alpha)), abs=1e-12
        )
    with pytest.raises(ValueError, match="no solution"):
        one.least_bias_lp(p, q, 1.1)
    with pytest.raises(ValueError, match="above 1"):
        one.least_bias(p, q, 1.1)


@settings(max_examples=60)
@given(rows=triples(), steps=st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_least_bias_for_given_acceptances(
    rows: tuple[Array, Array, Array], steps: list[int]
) -> None:
    p, q, correction = rows
    accept = EXACT.array([F(step, 4) for step in steps[: len(p)]])
    kept = accept * q
    least = one.least_bias_given(p, q, accept)
    assert total_variation(p, kept + (1 - kept.sum()) * correction) >= least
    room = np.maximum(p - kept, 0)
    filled = kept + (1 - kept.sum()) * normalise(room, fallback=p)
    assert total_variation(p, filled) == least
    slope_one = kept.sum() - overlap(p, q)
    assert least >= slope_one
    lenient = all(accept[x] * q[x] >= minimum(p[x], q[x]) for x in range(len(p)))
    assert (least == slope_one) == lenient


@settings(max_examples=60)
@given(rows=triples(), hi=st.fractions(1, 5, max_denominator=6))
def test_clip_law_is_best_for_every_divergence(
    rows: tuple[Array, Array, Array], hi: Fraction
) -> None:
    """D(nu) - D(nu*) >= lam (alpha(nu) - alpha(nu*)), lam = f'(hi) - f'(lo): exactly for chi2."""
    p, q, other = rows
    bound = EXACT.number(hi)
    lo, best = clip.lower(p, q, bound), clip.clip_law(p, q, bound)
    assert best.sum() == 1
    assert 0 <= lo <= 1
    rivals = [other, q, mixture(EXACT.number("1/2"), p, q), mixture(EXACT.number("1/2"), other, q)]
    for nu in rivals:
        gained = overlap(q, nu) - overlap(q, best)
        if all(nu[x] == 0 for x in range(len(p)) if p[x] == 0):
            assert chi2(p, nu) - chi2(p, best) >= 2 * (bound - lo) * gained
        for name, f in DIVERGENCES.items():
            slopes = f.derivative(np.array([float(lo), float(hi)]))
            price = float(slopes[1] - slopes[0])
            if np.isfinite(price):
                lead = float(measure(name, p, nu)) - float(measure(name, p, best))
                assert lead >= price * float(gained) - 1e-9, name


def test_the_mixture_is_not_best_for_kl() -> None:
    p, q = P, Q
    nu = mixture(EXACT.number("1/2"), p, q)
    best = clip.clip_law(p, q, clip.upper_for_acceptance(p, q, overlap(q, nu)))
    assert overlap(q, best) == overlap(q, nu)
    assert total_variation(p, best) == total_variation(p, nu)
    assert kl(p, best) < kl(p, nu) - 1e-4
    two_p, two_q = as_row("1/3,2/3"), as_row("2/3,1/3")
    nu = mixture(EXACT.number("1/2"), two_p, two_q)
    hi = clip.upper_for_acceptance(two_p, two_q, overlap(two_q, nu))
    assert list(clip.clip_law(two_p, two_q, hi)) == list(nu)  # two ratios: no difference


@settings(max_examples=60)
@given(rows=triples(), hi=st.fractions(1, 4, max_denominator=5))
def test_matched_lossy_rule_is_the_clip_law(rows: tuple[Array, Array, Array], hi: Fraction) -> None:
    p, q, _ = rows
    bound = EXACT.number(hi)
    lo = clip.lower(p, q, bound)
    if lo > EXACT.number("1/1000"):
        law = lenience.declared(p, q, lenience=1 / bound, residual=1 / lo)
        assert list(law) == list(clip.clip_law(p, q, bound))


@settings(max_examples=40)
@given(rows=triples())
def test_clip_path(rows: tuple[Array, Array, Array]) -> None:
    p, q, _ = rows
    assert list(clip.clip_law(p, q, EXACT.one)) == list(p)
    end = clip.clip_law(p, q, clip.largest_ratio(p, q))
    reach = sum(q[x] for x in range(len(p)) if p[x] > 0)
    assert overlap(q, end) == reach
    low = overlap(p, q)
    for step in range(5):
        alpha = low + (reach - low) * step / 4
        hi = clip.upper_for_acceptance(p, q, alpha)
        assert overlap(q, clip.clip_law(p, q, hi)) == alpha
    with pytest.raises(ValueError, match="is above"):
        clip.upper_for_acceptance(p, q, reach + EXACT.number("1/100"))


def test_a_geometric_mixture_leaves_the_frontier() -> None:
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    nu = normalise(np.sqrt(p * q))
    assert not one.in_box(p, q, nu)
    assert total_variation(p, nu) - (overlap(q, nu) - overlap(p, q)) > 1e-3


def test_sweeps_and_the_best_curve() -> None:
    curve = one.sweep("ensemble", P, Q, "w", ["1", "1/2", "0"])
    gap = total_variation(P, Q)
    assert [point.acceptance for point in curve.points] == [1 - gap, 1 - gap / 2, 1]
    assert [point.quality for point in curve.points] == [0, gap / 2, gap]
    assert (curve.rule, curve.speed, curve.measure) == ("ensemble", "acceptance", "tv")
    best = one.best(P, Q, 8)
    assert len(best.points) == 9
    for point in best.points:
        assert point.quality == one.least_bias(P, Q, point.acceptance)
    tokens = one.sweep("cascade", P, Q, "knob", ["1/5", "2/5"], "kl", "tok3", rule="token_v3")
    assert {point.rule for point in tokens.points} == {"tok3"}
    smooth = one.best(P, Q, 8, "kl")
    assert all(
        a.quality < b.quality for a, b in zip(smooth.points, smooth.points[1:], strict=False)
    )


def test_survey_at_one_context() -> None:
    best, *rules = survey.at_one_context(P, Q, 4)
    assert [curve.rule for curve in rules] == [curve.label for curve in survey.CURVES]
    for curve in rules:
        for point in curve.points:
            assert point.quality >= one.least_bias(P, Q, point.acceptance)
        name = curve.rule
        if not name.startswith("typical") and name != "lenience, target":
            assert curve.points[0].quality == 0
    assert best.points[0].quality == 0


def test_undominated_points() -> None:
    points = [Point(F(a), F(b), None, "r") for a, b in [(1, 5), (2, 5), (2, 7), (3, 9), (3, 8)]]
    assert [(p.acceptance, p.quality) for p in undominated(points, "acceptance", "tv")] == [
        (3, 8),
        (2, 5),
    ]
    assert [(p.acceptance, p.quality) for p in undominated(points, "calls", "reward")] == [
        (1, 5),
        (2, 7),
        (3, 9),
    ]


def test_lossy_rules_have_a_position_for_every_sweep() -> None:
    with pytest.raises(ValueError, match="is lossless"):
        one.sweep("token", P, Q, "w", [1])
    with pytest.raises(ValueError, match="unknown divergence"):
        measure("l7", P, Q)
    assert load_rule("ensemble").bonus_from() == "target"
