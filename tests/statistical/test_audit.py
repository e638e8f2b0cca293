"""The audit: bets are fair, correct engines pass, faults are found, and the bound holds."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sim.losslessness import bets as betting
from sim.losslessness.bets import Round
from sim.losslessness.eprocess import Audit
from sim.losslessness.mean_tv import differences
from sim.losslessness.observations import Summary, Tokens, mix, prompt_key, summarise
from sim.mutants import MUTANTS
from sim.mutants.simulate import simulate
from sim.mutants.table import as_tokens, audit_samples, fixed_sizes, reference_table, string_laws
from sim.rounds import simulate_generations
from sim.rows import RowTable, log
from sim.testing import random_pair

SIZES = (2, 5, 70, 300)


def every_token(p: np.ndarray, q: np.ndarray | None, dtype: type = np.float64) -> Tokens:
    """One chunk with every token of positive probability after the same context."""
    possible = np.flatnonzero(p > 0)
    n = len(possible)
    rows = np.broadcast_to(log(p).astype(dtype), (n, len(p)))
    draft = None if q is None else np.broadcast_to(log(q).astype(dtype), (n, len(p)))
    zero, unknown = np.zeros(n, dtype=np.int64), np.full(n, -1)
    return Tokens(rows, possible, zero.astype(np.uint64), zero, zero, unknown, unknown, draft)


def awkward_row(rng: np.random.Generator, vocab: int) -> np.ndarray:
    """A law with ties and zeros."""
    weights = rng.integers(0, 4, vocab) * rng.choice([1.0, 1e-3, 1e-9], vocab)
    weights[rng.integers(vocab)] += 1
    return weights / weights.sum()


@pytest.mark.parametrize("vocab", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_bet_is_fair(vocab: int, dtype: type) -> None:
    """sum_x p(x) factor(x) is 1 (at most 1 where a bet wastes mass), for awkward rows too."""
    rng = np.random.default_rng(vocab)
    for trial in range(20):
        p = awkward_row(rng, vocab) if trial % 2 else rng.dirichlet(np.full(vocab, 0.3))
        q = p if trial == 4 else awkward_row(rng, vocab)
        chunk = every_token(p, q, dtype)
        summary = summarise(chunk)
        visits = rng.integers(0, 50, vocab)
        recalled = np.full(len(chunk.tokens), visits.sum()), visits[chunk.tokens]
        where = Round(chunk.position, np.zeros_like(chunk.place), np.ones_like(chunk.place))
        factors = betting.factors(summary, where, recalled, recalled)
        bets = betting.bets(True, True)
        means = summary.p @ factors
        assert factors.shape == (len(chunk.tokens), len(bets))
        tolerance = 1e-9 if dtype is np.float64 else 1e-5
        for bet, mean in zip(bets, means, strict=True):
            assert mean <= 1 + summary.rounding, bet
            wasteful = bet.family == "leak" or "memory" in " ".join(bet) or "q" in bet.label
            if not wasteful:
                assert mean == pytest.approx(1, abs=tolerance), bet
        expected = summary.p @ differences(summary)
        np.testing.assert_allclose(expected, 0, atol=tolerance)


def test_summary_is_the_sorted_row() -> None:
    """Ranks, masses and ties beyond the sorted head agree with a full sort."""
    rng = np.random.default_rng(0)
    p = rng.integers(1, 40, 500).astype(float)
    p /= p.sum()
    summary: Summary = summarise(every_token(p, None))
    for x in range(500):
        larger, equal = p > p[x], p == p[x]
        assert summary.rank[x] == larger.sum()
        assert summary.ties[x] == equal.sum()
        assert summary.above[x] == pytest.approx(p[larger].sum(), abs=1e-12)
        assert summary.tie[x] == pytest.approx(p[equal].sum(), abs=1e-12)
    top = np.sort(p)[::-1]
    np.testing.assert_allclose(
        summary.heads[0], [top[:k].sum() for k in (1, 4, 16, 64)], atol=1e-12
    )


def test_an_unfair_bet_would_be_seen() -> None:
    """Control of the fairness test: head masses of another row break it."""
    rng = np.random.default_rng(1)
    chunk = every_token(rng.dirichlet(np.ones(70)), None)
    summary = summarise(chunk)
    wrong = summary._replace(heads=summary.heads * 0.98)
    where = Round(chunk.position, chunk.place, chunk.before)
    nothing = np.zeros(len(chunk.tokens), dtype=np.int64)
    factors = betting.factors(wrong, where, (nothing, nothing))
    assert (summary.p @ factors).max() > 1.001


@cache
def models() -> tuple[RowTable, RowTable]:
    return random_pair(np.random.default_rng(5), 3, 6)


@pytest.mark.slow
def test_false_alarms_of_correct_engines() -> None:
    """2,000 runs at level 1e-3: at most what a binomial law allows at 1e-9."""
    runs, texts, level = 2000, 60, 1e-3
    alarms = 0
    for rule in ("token", "block", "greedy_block", "kseq"):
        drafts = 2 if rule == "kseq" else 1
        rng = np.random.default_rng([7, len(rule)])
        tokens = simulate_generations(*models(), rule, 3, drafts, 4, runs // 4 * texts, rng).tokens
        for part in tokens.reshape(runs // 4, texts, 4):
            audit = Audit(level)
            audit.update(as_tokens(models()[0], part))
            alarms += audit.found
    assert alarms <= stats.binom.isf(1e-9, runs, level)


@pytest.mark.parametrize(
    "name", ["always_accept", "bonus_from_draft", "reused_uniform", "greedy_carry_cut", "stale_row"]
)
def test_found_within_three_times_the_best_fixed_test(name: str) -> None:
    mutant = MUTANTS[name]
    limit = 3 * min(fixed_sizes(mutant).values())
    for seed in range(5):
        found = audit_samples(mutant, limit, np.random.default_rng(seed))
        assert found is not None, f"seed {seed}: {limit} texts"


def mean_conditional_tv(name: str) -> float:
    """Exact: the mean over the mutant's own texts and positions."""
    correct, wrong = string_laws(MUTANTS[name])
    total = 0.0
    for n in range(4):
        later = tuple(range(n + 1, 4))
        p, other = correct.sum(later), wrong.sum(later)
        before = other.sum(-1, keepdims=True)
        row = p / np.where(p.sum(-1, keepdims=True) > 0, p.sum(-1, keepdims=True), 1)
        total += float(np.abs(other - before * row).sum() / 2)
    return total / 4


def test_bound_of_the_mean_conditional_tv() -> None:
    """Below the exact value for every fault, above 0 where the fault is large."""
    for name in ("always_accept", "missing_temperature", "target_overwritten", "stale_row"):
        mutant = MUTANTS[name]
        tokens = simulate(mutant, 4000, np.random.default_rng(3)).tokens
        audit = Audit()
        audit.update(as_tokens(reference_table(mutant), tokens))
        lower, where = audit.mean_tv.lower(1e-3)
        exact = mean_conditional_tv(name)
        assert lower <= exact, name
        if name in ("missing_temperature", "target_overwritten"):
            assert lower > 0.2 * exact, name
            assert where
    truth = Audit()
    tokens = simulate(mutant.corrected(), 4000, np.random.default_rng(4)).tokens
    truth.update(as_tokens(reference_table(mutant), tokens))
    assert truth.mean_tv.lower(1e-3) == (0.0, "")
    assert 0 < max(truth.mean_tv.detectable(1e-3, 0.999).values()) < 0.1


def test_impossible_tokens_are_certain_and_located() -> None:
    rows = log(np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]))
    context = mix(np.full(2, prompt_key([1])), np.arange(2))
    numbers, unknown = np.arange(2), np.full(2, -1)
    audit = Audit()
    audit.update(Tokens(rows, np.array([2, 2]), context, numbers + 5, numbers, unknown, unknown))
    assert audit.found
    assert [(v.sequence, v.position, v.token) for v in audit.violations] == [(0, 5, 2)]
    assert audit.tokens == 1


def with_places(tokens: np.ndarray, accepted: np.ndarray, gamma: int) -> tuple[np.ndarray, ...]:
    """``place`` and ``before`` of every token of simulated texts."""
    place, before = np.full(tokens.shape, -1), np.full(tokens.shape, -1)
    for i, lengths in enumerate(accepted):
        at, last = 0, -1
        for tau in lengths[lengths >= 0]:
            room = tokens.shape[1] - at
            end = min(at + tau + 1, tokens.shape[1])
            place[i, at:end], before[i, at] = np.arange(end - at), last
            last, at = int(tau == min(gamma, room - 1)), end
    return place.reshape(-1), before.reshape(-1)


def audit_with_places(rule: str, seed: int) -> Audit:
    rng = np.random.default_rng(seed)
    run = simulate_generations(*models(), rule, 3, 1, 4, 6000, rng)
    chunk = as_tokens(models()[0], run.tokens)
    place, before = with_places(run.tokens, run.accepted, 3)
    audit = Audit(level=1e-6, places=True)
    audit.update(chunk._replace(place=place, before=before))
    return audit


def test_places_fit_stateless_rules_only() -> None:
    """Token and block rules follow p at every place; greedy block is lossless, yet does not."""
    assert not audit_with_places("token", 1).found
    assert not audit_with_places("block", 2).found
    assert audit_with_places("greedy_block", 3).found


def test_evidence_says_where_it_comes_from() -> None:
    """Only the third token can be a wrong bonus in this mutant's first round."""
    mutant = MUTANTS["bonus_from_draft"]
    tokens = simulate(mutant, 4000, np.random.default_rng(5)).tokens
    audit = Audit()
    audit.update(as_tokens(reference_table(mutant), tokens))
    evidence = audit.by_category()
    assert audit.found
    assert evidence["position 3-6"] + evidence["position 1-2"] > 10 * abs(evidence["position 0"])
    assert math.isclose(
        sum(x for name, x in evidence.items() if name.startswith("position")),
        audit.leading()[1],
        rel_tol=1e-9,
    )
