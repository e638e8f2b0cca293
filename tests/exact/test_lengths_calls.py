"""E[T_N] and tokens per call in the long run, and the i.i.d. formula's error."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import MarkovModel, TableModel, analyse
from theory.accepted_length.calls import (
    block_chain,
    calls_by_position,
    calls_by_state,
    calls_over_tree,
    long_run_rate,
    markov_flows,
    regime_flows,
    stationary,
    stationary_rate,
)
from theory.accepted_length.iid import tokens_per_call
from theory.accepted_length.plug_in import plug_ins, stream_bounds, stream_rate
from theory.fields import EXACT, Array, minimum, positive_part, to_fraction
from theory.generation import generate
from theory.laws import overlap
from theory.models import Prefix, RowTree, prefixes
from theory.random_models import random_markov, random_tables

F = Fraction
SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=15)
@given(seed=SEEDS, gamma=st.integers(1, 4), horizon=st.integers(1, 4))
def test_calls_of_the_token_rule(seed: int, gamma: int, horizon: int) -> None:
    """Three computations: enumerated rounds, the row tree, the contexts of Markov models."""
    rng = Random(seed)
    models = random_markov(rng, 2, rng.randrange(3)), random_markov(rng, 2, rng.randrange(3))
    enumerated = generate(analyse(*models, gamma=gamma).decoder, horizon).calls
    p_tree, q_tree = (RowTree.of(model, max(horizon - 1, 1)) for model in models)
    assert calls_over_tree(p_tree, q_tree, gamma, horizon) == enumerated
    assert calls_by_state(markov_flows(*models), gamma, horizon)[0] == enumerated


def half_lenient(p: Array, q: Array) -> tuple[Array, Array]:
    """Another rule: verify against (p + q)/2."""
    nu = (p + q) / 2
    return minimum(nu, q), positive_part(nu - q)


@settings(max_examples=8)
@given(seed=SEEDS)
def test_calls_of_any_acceptance(seed: int) -> None:
    models = random_tables(Random(seed), 2, 4)
    a = analyse(*models, "ensemble", gamma=2, horizon=4, w="1/2")
    p_tree, q_tree = (RowTree.of(model, 3) for model in models)
    assert calls_over_tree(p_tree, q_tree, 2, 4, half_lenient) == a.decoder.target.field.number(
        a.expected_calls
    )


@settings(max_examples=10)
@given(alphas=st.lists(st.fractions(0, 1, max_denominator=9), min_size=5, max_size=5))
def test_calls_by_position(alphas: list[Fraction]) -> None:
    """Against the recursion written out from the front, and the identities of lossy rules."""

    def calls(n: int, gamma: int) -> Fraction:
        if n >= 6:
            return F(0)
        total, reach = F(1), F(1)
        for k in range(min(gamma, 6 - n - 1)):
            total += reach * (1 - alphas[n + k]) * calls(n + k + 1, gamma)
            reach *= alphas[n + k]
        return total + reach * calls(n + min(gamma, 6 - n - 1) + 1, gamma)

    for gamma in (1, 2, 6):
        assert calls_by_position(alphas, gamma, 6) == calls(0, gamma)
    # one block reaches to the end: one call and one more for every refusal
    assert calls_by_position(alphas, 6, 6) == 1 + sum(1 - alpha for alpha in alphas)
    assert calls_by_position(alphas, 6, 1) == 1
    with pytest.raises(ValueError, match="5 acceptances serve 1 to 6 tokens"):
        calls_by_position(alphas, 2, 7)


def test_calls_in_one_long_block_count_the_refusals() -> None:
    """gamma >= N: calls = 1 + sum over t < N - 1 of the expected distance along target text."""
    models = random_tables(Random(7), 3, 4)
    p_tree, q_tree = (RowTree.of(model, 3) for model in models)
    refusals, reach = F(0), p_tree.field.array([1])
    for p, q in zip(p_tree.levels, q_tree.levels, strict=True):
        refusals += to_fraction((reach * (1 - overlap(p, q))).sum())
        reach = (reach[:, None] * p).reshape(-1)
    assert to_fraction(calls_over_tree(p_tree, q_tree, 9, 4)) == 1 + refusals


def test_the_iid_special_case() -> None:
    """Context-free acceptance: the long-run rate is the i.i.d. formula, short texts cost more."""
    for alpha, gamma in ((F(0), 3), (F(2, 3), 4), (F(1), 4)):
        flows = regime_flows(EXACT.array([alpha]), EXACT.array([[1]]))
        rate = to_fraction(stationary_rate(flows, gamma))
        assert rate == tokens_per_call(alpha, gamma)
        assert all(to_fraction(p.error) == 0 for p in plug_ins(flows, gamma).values())
        calls = to_fraction(calls_by_state(flows, gamma, 40)[0])
        assert calls == calls_by_position([alpha] * 39, gamma, 40) >= 40 / rate
    assert tokens_per_call(0, 4) == 1
    assert tokens_per_call(1, 4) == 5
    assert tokens_per_call(0.999999999999, 8) == pytest.approx(8.999999999964, rel=1e-12)


@settings(max_examples=6)
@given(seed=SEEDS, gamma=st.integers(1, 3))
def test_long_run_rate(seed: int, gamma: int) -> None:
    """Renewal-reward from flows, from enumerated rounds, and calls over a long text."""
    rng = Random(seed)
    models = tuple(positive_markov(rng) for _ in range(2))
    flows = markov_flows(*models)
    rate = stationary_rate(flows, gamma)
    assert rate == long_run_rate(analyse(*models, "token", gamma).decoder, gamma)
    calls = [float(to_fraction(calls_by_state(flows, gamma, n)[0])) for n in (60, 120)]
    assert 60 / (calls[1] - calls[0]) == pytest.approx(float(to_fraction(rate)), rel=1e-6)


def positive_markov(rng: Random) -> MarkovModel:
    def row() -> list[Fraction]:
        x = F(rng.randint(1, 9), 10)
        return [x, 1 - x]

    return MarkovModel(row(), [row(), row()])


def test_long_run_rate_of_other_rules() -> None:
    rng = Random(2)
    models = positive_markov(rng), positive_markov(rng)
    rates = {
        name: long_run_rate(analyse(*models, name, 2, drafts).decoder, 2)
        for name, drafts in (("token", 1), ("block", 1), ("kseq", 2), ("max_ratio_block", 2))
    }
    assert rates["token"] < rates["block"]
    assert rates["token"] < rates["kseq"]
    with pytest.raises(ValueError, match="hands a carry on"):
        long_run_rate(analyse(*models, "greedy_block", 2).decoder, 2)
    with pytest.raises(ValueError, match="no finite contexts"):
        long_run_rate(analyse(*random_tables(rng, 2, 2), "token", 2).decoder, 2)


def test_a_chain_without_one_rate() -> None:
    stuck = MarkovModel(["1/2", "1/2"], [["1", "0"], ["0", "1"]])
    with pytest.raises(ValueError, match="several recurrent classes"):
        stationary_rate(markov_flows(stuck, MarkovModel(["1/2", "1/2"])), 2)
    with pytest.raises(ValueError, match="several recurrent classes"):
        stationary(np.eye(2))


def test_sign_of_the_error_under_persistence() -> None:
    """A hidden easy (.9) or hard (.2) regime, gamma 4: persistence makes the token mean too high,
    alternation too low."""
    expected = {0.05: 2.1675, 0.25: 2.1565, 0.5: 2.1104, 0.75: 2.0243, 0.95: 1.9369, 0.99: 1.9193}
    for stay, rate in expected.items():
        moves = np.array([[stay, 1 - stay], [1 - stay, stay]])
        flows = regime_flows(np.array([0.9, 0.2]), moves)
        assert round(stationary_rate(flows, 4), 4) == rate
        token = plug_ins(flows, 4)["token"]
        assert token.alpha == pytest.approx(0.55)
        assert round(token.predicted, 4) == 2.1104
        if stay != 0.5:
            assert (token.error > 0) == (stay > 0.5)
        else:
            assert abs(token.error) < 1e-12


def test_blocks_that_are_all_easy_or_all_hard() -> None:
    """Half the blocks accept everything, half nothing: 1 + gamma/2 tokens per call."""
    for gamma in (1, 4, 9):
        truth = (tokens_per_call(F(0), gamma) + tokens_per_call(F(1), gamma)) / 2
        assert truth == 1 + F(gamma, 2)
        block_mean = tokens_per_call(F(1, 2), gamma)
        assert block_mean == 2 * (1 - F(1, 2) ** (gamma + 1)) <= truth
        per_verified = F(gamma, 2) / (F(gamma, 2) + F(1, 2))
        assert per_verified == F(gamma, gamma + 1)
        assert tokens_per_call(per_verified, gamma) >= truth
        proposed = F(gamma, 2) / gamma
        assert 1 + gamma * proposed == truth
    assert float(tokens_per_call(F(1, 2), 4)) == 1.9375
    assert float(tokens_per_call(F(4, 5), 4)) == 3.3616


@pytest.mark.parametrize(
    ("period", "gamma", "ones", "least"),
    [(9, 2, 6, F(9, 5)), (12, 2, 8, F(2)), (10, 4, 5, F(5, 3))],
)
def test_bounds_for_streams(period: int, gamma: int, ones: int, least: Fraction) -> None:
    """All periodic 0/1 streams: inside the bounds, which some attain and some periods cannot."""
    low, high = stream_bounds(F(ones, period), gamma)
    rates = {
        F(*stream_rate([int(t in kept) for t in range(period)], gamma, start))
        for kept in combinations(range(period), ones)
        for start in range(period)
    }
    assert low <= min(rates) == least
    assert max(rates) == high
    assert low <= tokens_per_call(F(ones, period), gamma) <= high


def test_bounds_at_the_ends() -> None:
    assert stream_bounds(F(1), 3) == (4, 4)
    assert stream_bounds(F(0), 3) == (1, 1)
    assert stream_bounds(F(1, 2), 4) == (F(5, 3), 2)


def test_only_the_accepted_kernel_gives_the_length() -> None:
    """P(tau >= 2) is 1/2 in truth; averaging overlaps under q or p says 9/16 or 3/8."""
    half = ["1/2", "1/2"]
    target = TableModel({"": half, "0": half, "1": ["1", "0"]}, half)
    draft = TableModel({"": ["3/4", "1/4"], "0": half, "1": ["0", "1"]}, half)
    truth = analyse(target, draft, "token", gamma=2).accepted_law[2]
    rows: dict[Prefix, tuple[Array, Array]] = {
        text: (target.row(text), draft.row(text)) for n in (0, 1) for text in prefixes(2, n)
    }
    overlaps = {text: to_fraction(overlap(*pair)) for text, pair in rows.items()}
    means = [
        overlaps[()] * sum(to_fraction(law[x]) * overlaps[(x,)] for x in (0, 1))
        for law in (minimum(*rows[()]) / overlap(*rows[()]), rows[()][1], rows[()][0])
    ]
    assert [truth, *means] == [F(1, 2), F(1, 2), F(9, 16), F(3, 8)]


def test_flows_conserve_mass() -> None:
    flows = markov_flows(*(random_markov(Random(1), 3, 1) for _ in range(2)))
    moves, tokens = block_chain(flows, 3)
    assert all(to_fraction(total) == 1 for total in moves.sum(axis=-1))
    assert all(1 <= n <= 4 for n in tokens)
