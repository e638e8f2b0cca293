"""Small worked examples of faults seen in public code: each has a known answer.

Laws of emitted tokens are exact here: every uniform runs over the midpoints of a grid whose size
is a multiple of the denominators involved, so frequencies on the grid are probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from sim.mutants import MUTANTS
from sim.rows import all_strings, log
from sim.verifiers import VERIFIERS, ArrayVerifier, Verdict, block, greedy_block, kseq
from sim.verifiers._common import draw_or_target, open_round, residual
from theory import laws

Law = Sequence[Any]
TOKEN, BLOCK = VERIFIERS["token"], VERIFIERS["block"]


class Outcome(NamedTuple):
    """Law of the emitted first token, and of the accepted length."""

    law: np.ndarray
    lengths: np.ndarray


def floats(law: Law) -> np.ndarray:
    return np.array([float(Fraction(x)) if isinstance(x, str) else float(x) for x in law])


def grid(sizes: Sequence[int]) -> np.ndarray:
    """All tapes whose slot s runs over ``sizes[s]`` midpoints."""
    axes = [(np.arange(n) + 0.5) / n for n in sizes]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(sizes))


def on_grid(
    rule: ArrayVerifier, p: Law, q: Law, drafts: Sequence[int], tape: np.ndarray
) -> Verdict:
    """Verdicts of one draft on every tape; rows are the same at every position."""
    gamma, n = len(drafts), len(tape)
    log_p = np.broadcast_to(log(floats(p)), (n, 1, gamma + 1, len(p)))
    log_q = np.broadcast_to(log(floats(q)), (n, 1, gamma, len(p)))
    return rule.verify(log_p, log_q, np.tile(drafts, (n, 1, 1)).astype(np.int64), tape)


def one_draft(
    rule: ArrayVerifier, p: Law, q: Law, drawn_from: Law | None = None, size: int = 240
) -> Outcome:
    """gamma = 1: law of the emitted token and of tau, the draft drawn from q (or another law)."""
    drafted_law = floats(q if drawn_from is None else drawn_from)
    emitted, lengths = np.zeros(len(p)), np.zeros(2)
    tape = grid([size, size])
    for x in np.flatnonzero(drafted_law):
        verdict = on_grid(rule, p, q, [int(x)], tape)
        first = np.where(verdict.accepted == 1, x, verdict.token)
        emitted += drafted_law[x] * np.bincount(first, minlength=len(p)) / len(tape)
        lengths += drafted_law[x] * np.bincount(verdict.accepted, minlength=2) / len(tape)
    return Outcome(emitted, lengths)


def correction(rule: ArrayVerifier, p: Law, q: Law, x: int, size: int = 240) -> np.ndarray:
    """Law of the token emitted after draft ``x`` was rejected."""
    tape = np.stack([np.full(size, 1 - 1e-9), (np.arange(size) + 0.5) / size], axis=1)
    verdict = on_grid(rule, p, q, [x], tape)
    assert (verdict.accepted == 0).all()
    return np.bincount(verdict.token, minlength=len(p)) / size


def mutant(name: str) -> ArrayVerifier:
    return MUTANTS[name].verifier


def tv(a: Law, b: Law) -> float:
    return float(np.abs(floats(a) - floats(b)).sum() / 2)


def same(found: Any, expected: Law, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found), floats(expected), rtol=0, atol=atol)


P, Q = ("1/2", "3/10", "1/5"), ("3/5", "1/5", "1/5")


class TestDistribution:
    def test_argmax_draft_is_a_point_mass(self) -> None:
        outcome = one_draft(TOKEN, P, (1, 0, 0))
        same(outcome.law, P)
        same(outcome.lengths, ("1/2", "1/2"))
        soft = one_draft(TOKEN, P, Q, drawn_from=(1, 0, 0))
        same(soft.law, ("5/6", "1/6", 0))
        assert tv(soft.law, P) == pytest.approx(1 / 3, abs=1e-12)

    @pytest.mark.parametrize("rule", list(VERIFIERS.values()), ids=lambda rule: rule.name)
    def test_greedy_is_one_hot(self, rule: ArrayVerifier) -> None:
        verdict = on_grid(rule, (0, 1, 0), (1, 0, 0), [0], grid([10, 10]))
        assert (verdict.accepted == 0).all()
        assert (verdict.token == 1).all()

    def test_residual_is_not_the_target(self) -> None:
        same(correction(TOKEN, P, Q, 0), (0, 1, 0))
        same(one_draft(TOKEN, P, Q).law, P)
        wrong = mutant("residual_from_target")
        same(correction(wrong, P, Q, 0), P)
        same(one_draft(wrong, P, Q).law, ("11/20", "23/100", "11/50"))

    def test_residual_is_not_a_softmax(self) -> None:
        wrong = correction(mutant("residual_softmax"), P, Q, 0, size=200_000)
        expected = np.exp([0, 0.1, 0]) / np.exp([0, 0.1, 0]).sum()
        same(expected, (0.3220434643963898, 0.3559130712072203, 0.3220434643963898))
        np.testing.assert_allclose(wrong, expected, atol=1e-5)

    def test_the_whole_q_is_subtracted(self) -> None:
        p, q = ("1/5", "3/10", "1/2"), ("1/2", "3/10", "1/5")
        same(correction(TOKEN, p, q, 0), (0, 0, 1))
        same(one_draft(TOKEN, p, q).law, p)
        law = one_draft(mutant("residual_at_index"), p, q).law
        same(law, ("1/5", "33/80", "31/80"))
        assert tv(law, p) == pytest.approx(9 / 80, abs=1e-12)

    def test_a_constant_uniform_emits_the_draft_law(self) -> None:
        tape = np.zeros((1, 2))
        law = np.zeros(3)
        for x, weight in enumerate(floats(Q)):
            assert on_grid(TOKEN, P, Q, [x], tape).accepted[0] == 1
            law[x] += weight
        same(law, Q)
        same(one_draft(mutant("always_accept"), P, Q).law, Q)
        assert tv(law, P) == pytest.approx(1 / 10, abs=1e-12)

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [(TOKEN, (0.5, 0.5, 0.5)), (mutant("argmax_rows"), (1, 1, 0.5))],
        ids=["correct", "argmax"],
    )
    def test_every_row_is_sampled(self, rule: ArrayVerifier, expected: Law) -> None:
        """P(token 0) at the first three positions, drafts [0, 0] with a one-hot law."""
        tape = grid([10, 10, 30])
        verdict = on_grid(rule, P, (1, 0, 0), [0, 0], tape)
        zero = [0.0, 0.0, 0.0]
        reach = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]  # probability that a round starts at a position
        for at in range(3):
            for tau, emitted in zip(verdict.accepted, verdict.token, strict=True):
                weight = reach[at] / len(tape)
                tokens = [0] * int(tau) + [int(emitted)]
                for i, value in enumerate(tokens):
                    if at + i < 3:
                        zero[at + i] += weight * (value == 0)
                reach[at + len(tokens)] += weight
        same(zero, expected)


class TestFilters:
    def test_top_k_on_q_before_the_ratio(self) -> None:
        p, raw, kept = ("3/5", "2/5", 0, 0), ("2/5", "1/5", "1/5", "1/5"), ("2/3", "1/3", 0, 0)
        assert laws.top_k(laws.as_row(raw), 2).tolist() == laws.as_row(kept).tolist()
        outcome = one_draft(TOKEN, p, kept)
        same(outcome.law, p)
        assert outcome.lengths[1] == pytest.approx(14 / 15, abs=1e-12)
        wrong = one_draft(TOKEN, p, raw, drawn_from=kept)
        same(wrong.law, kept)
        assert tv(wrong.law, p) == pytest.approx(1 / 15, abs=1e-12)

    def test_top_p_on_both(self) -> None:
        p = laws.top_p(laws.as_row(("1/2", "3/10", "1/5")), Fraction(4, 5))
        q = laws.top_p(laws.as_row(("3/5", "1/5", "1/5")), Fraction(4, 5))
        assert p.tolist() == laws.as_row(("5/8", "3/8", 0)).tolist()
        assert q.tolist() == laws.as_row(("3/4", "1/4", 0)).tolist()
        outcome = one_draft(TOKEN, [str(x) for x in p], [str(x) for x in q])
        same(outcome.law, ("5/8", "3/8", 0))
        assert outcome.lengths[1] == pytest.approx(7 / 8, abs=1e-12)
        same(one_draft(TOKEN, P, [str(x) for x in q]).law, P)  # unfiltered target: another law


class TestMultiDraft:
    def test_kseq_rho(self) -> None:
        """p = (1/2, 1/2), q = (1, 0), k = 2: rho* = 1 + 1/sqrt(2), acceptance 1/2."""
        p, q, two = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), np.array([2.0])
        rho = kseq.smallest_rho(np, p, q, two)
        assert rho[0] == pytest.approx(1.7071067811865475, abs=1e-12)
        assert self.acceptance(rho[0]) == pytest.approx(0.5, abs=1e-12)
        same(self.left(2.0), ("1/9", "8/9"))
        assert self.acceptance(2.0) == pytest.approx(7 / 16, abs=1e-12)
        gain = kseq.at_least_one(np, np.array([0.5]), two) / 0.5
        assert 0.5 - 0.5 * gain[0] == pytest.approx(-1 / 4, abs=1e-12)  # rho = 1 is invalid

    def acceptance(self, rho: float) -> float:
        beta = np.array([min(1.0, 0.5 / rho)])
        return float(kseq.at_least_one(np, beta, np.array([2.0]))[0])

    def left(self, rho: float) -> np.ndarray:
        args = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), np.array([rho]), np.array([2.0])
        weights = kseq.leftover(np, *args)[0]
        return weights / weights.sum()

    def test_rule_at_rho_two_drafts(self) -> None:
        """K = 2 point-mass drafts at token 0: accepted half the time, corrected to token 1."""
        tape = grid([40, 40, 10])
        log_p = np.broadcast_to(np.log([0.5, 0.5]), (len(tape), 2, 2, 2))
        log_q = np.broadcast_to(log([1.0, 0.0]), (len(tape), 2, 1, 2))
        drafts = np.zeros((len(tape), 2, 1), dtype=np.int64)
        verdict = VERIFIERS["kseq"].verify(log_p, log_q, drafts, tape)
        assert verdict.accepted.mean() == pytest.approx(0.5, abs=0.02)  # 1/rho* is irrational
        assert (verdict.token[verdict.accepted == 0] == 1).all()


def two_level(root: Law, after_zero: Law, last: int) -> np.ndarray:
    """Log rows of the strings of length 2 over 3 tokens, uniform elsewhere; [9, last, 3]."""
    strings, uniform = all_strings(3, 2), np.full(3, 1 / 3)
    rows = np.empty((9, last, 3))
    rows[:, 0] = floats(root)
    rows[:, 1] = np.where(strings[:, :1] == 0, floats(after_zero), uniform)
    rows[:, 2:] = uniform
    return log(rows)[:, None]


class TestBlockVerification:
    LOG_P = two_level(("2/5", "3/10", "3/10"), ("1/10", "2/5", "1/2"), 3)
    LOG_Q = two_level(("1/2", "3/10", "1/5"), ("3/5", "3/10", "1/10"), 2)
    DRAFTS = all_strings(3, 2)[:, None]

    def mass(self) -> np.ndarray:
        """Q of every draft."""
        picked = np.take_along_axis(self.LOG_Q[:, 0], self.DRAFTS[:, 0, :, None], axis=2)
        return np.exp(picked[..., 0].sum(axis=1))

    @pytest.mark.parametrize("rule", ["token", "block"])
    def test_point_mass_drafts(self, rule: str) -> None:
        drafts = np.zeros((1, 1, 3), dtype=np.int64)
        log_p = np.broadcast_to(log(floats(P)), (1, 1, 4, 3))
        log_q = np.broadcast_to(log([1.0, 0.0, 0.0]), (1, 1, 3, 3))
        survival = VERIFIERS[rule].survival(log_p, log_q, drafts)[0]
        assert survival.sum() == pytest.approx(7 / 8, abs=1e-12)
        law = -np.diff(np.concatenate([[1.0], survival, [0.0]]))
        same(law, ("1/2", "1/4", "1/8", "1/8"))

    def test_lengths(self) -> None:
        for rule, expected in ((TOKEN, 8 / 5), (BLOCK, 41 / 25)):
            survival = rule.survival(self.LOG_P, self.LOG_Q, self.DRAFTS)
            assert self.mass() @ survival.sum(axis=1) == pytest.approx(expected, abs=1e-12)

    def test_ratio_threshold_and_residual_after_zero(self) -> None:
        rnd = open_round(self.LOG_P[:1], self.LOG_Q[:1], self.DRAFTS[:1], None)
        log_w = block.log_ratios(rnd)
        assert np.exp(log_w[0, 1]) == pytest.approx(4 / 5, abs=1e-12)
        assert block.thresholds(rnd, log_w)[0, 0] == pytest.approx(8 / 13, abs=1e-12)
        same(self.after_zero(BLOCK), (0, "1/16", "15/16"))
        same(self.after_zero(mutant("token_residual_in_block")), (0, "1/5", "4/5"))

    def after_zero(self, rule: ArrayVerifier) -> np.ndarray:
        """Law of the correction when exactly the prefix [0] of the draft [0, 0] is kept."""
        size = 80
        tape = np.stack(
            [np.zeros(size), np.full(size, 0.999), (np.arange(size) + 0.5) / size], axis=1
        )
        arrays = (np.repeat(a[:1], size, axis=0) for a in (self.LOG_P, self.LOG_Q, self.DRAFTS))
        verdict = rule.verify(*arrays, tape)
        assert (verdict.accepted == 1).all()
        return np.bincount(verdict.token, minlength=3) / size

    @pytest.mark.parametrize(("scaled", "distance"), [(True, 0.0), (False, 11 / 500)])
    def test_joint_law_of_three_tokens(self, scaled: bool, distance: float) -> None:
        """Short blocks continue with the target; the token residual is off by 11/500."""
        target = {s: self.target(s) for s in product(range(3), repeat=3)}
        rnd = open_round(self.LOG_P, self.LOG_Q, self.DRAFTS, None)
        log_w = block.log_ratios(rnd)
        h = block.thresholds(rnd, log_w)
        stop = np.stack([(1 - h[:, 1]) * (1 - h[:, 0]), (1 - h[:, 1]) * h[:, 0], h[:, 1]], axis=1)
        law = dict.fromkeys(target, 0.0)
        for b, (draft, weight) in enumerate(zip(self.DRAFTS[:, 0], self.mass(), strict=True)):
            for tau in range(3):
                p = np.exp(self.LOG_P[b, 0, tau])
                weights = p
                if tau < 2:
                    w = log_w[b, tau] if scaled else 0.0
                    weights = residual(np, p, self.LOG_Q[b, 0, tau], np.array(w))
                if stop[b, tau] == 0:
                    continue
                for y, share in enumerate(weights / weights.sum()):
                    prefix = (*(int(t) for t in draft[:tau]), y)
                    for rest in product(range(3), repeat=2 - tau):
                        string = prefix + rest
                        tail = self.target(string) / self.target(prefix)
                        law[string] += weight * stop[b, tau] * share * tail
        found = sum(abs(law[s] - target[s]) for s in target) / 2
        assert found == pytest.approx(distance, abs=1e-12)

    def target(self, string: tuple[int, ...]) -> float:
        rows = [
            floats(("2/5", "3/10", "3/10")),
            floats(("1/10", "2/5", "1/2")) if string[0] == 0 else np.full(3, 1 / 3),
            np.full(3, 1 / 3),
        ]
        return float(np.prod([rows[i][t] for i, t in enumerate(string)]))

    def test_greedy_block_reaches_the_ceiling_and_owes_a_modification(self) -> None:
        drafts = all_strings(2, 2)[:, None]
        log_p = np.broadcast_to(log([1 / 3, 2 / 3]), (4, 1, 3, 2))
        log_q = np.broadcast_to(log([2 / 3, 1 / 3]), (4, 1, 2, 2))
        mass = np.exp(log_q[0, 0, 0][drafts[:, 0]].sum(axis=1))
        survival = VERIFIERS["greedy_block"].survival(log_p, log_q, drafts)
        assert mass @ survival.sum(axis=1) == pytest.approx(4 / 3, abs=1e-12)
        verdict = greedy_block.verify(log_p, log_q, drafts, np.full((4, 3), 0.999))
        stopped = verdict.accepted == 0
        assert stopped.any()
        assert (verdict.carry.left[stopped, -1] == 1).all()
        assert (verdict.carry.left[~stopped] == 0).all()
        # norm((P(1.) - Q(1.))_+) with P(1.) = (2, 4)/9, Q(1.) = (2, 1)/9 is the point mass (0, 1).
        again = greedy_block.survival(log_p, log_q, drafts, None, verdict.carry)
        np.testing.assert_allclose(again[stopped & (drafts[:, 0, 0] == 0), 0], 0, atol=1e-12)


class TestNumerics:
    @pytest.mark.parametrize("rule", list(VERIFIERS.values()), ids=lambda rule: rule.name)
    def test_p_equals_q(self, rule: ArrayVerifier) -> None:
        verdict = on_grid(rule, (1, 0, 0), (1, 0, 0), [0], grid([20, 20]))
        assert (verdict.accepted == 1).all()
        assert (verdict.token == 0).all()

    def test_empty_residual_falls_back_to_p(self) -> None:
        rows = log([[[[1.0, 0.0, 0.0]] * 2]])
        rnd = open_round(rows, rows[:, :, :1], np.zeros((1, 1, 1), dtype=np.int64), None)
        token_id = draw_or_target(rnd, np.zeros((1, 3)), np.array([[1.0, 0, 0]]), np.array([0.99]))
        assert token_id.tolist() == [0]

    @pytest.mark.parametrize("rule", list(VERIFIERS.values()), ids=lambda rule: rule.name)
    @pytest.mark.parametrize("x", [0, 1])
    def test_residual_of_one_ulp(self, rule: ArrayVerifier, x: int) -> None:
        """p and q differ by one unit in the last place: never rejected, in either direction."""
        rows = (0.30000000000000004, 0.7), (0.3, 0.7)
        tape = np.full((1, 2), 1 - 2.0**-53)
        for p, q in (rows, rows[::-1]):
            assert on_grid(rule, p, q, [x], tape).accepted[0] == 1
            log_p = np.broadcast_to(np.log(p), (1, 1, 2, 2))
            log_q = np.log(q)[None, None, None]
            assert rule.survival(log_p, log_q, np.array([[[x]]]))[0, 0] == 1.0

    def test_nan_target_is_refused(self) -> None:
        for rule in VERIFIERS.values():
            nan, log_q = np.full((1, 1, 2, 3), np.nan), log(floats(Q))[None, None, None]
            with pytest.raises(ValueError, match="nan"):
                rule.verify(nan, log_q, np.zeros((1, 1, 1), int), np.zeros((1, 2)))

    def test_small_probabilities_stay_in_log_space(self) -> None:
        p, q = np.array([1e-8, 1 - 1e-8]), np.array([2e-8, 1 - 2e-8])
        assert np.float16(2e-8) == 0.0
        log_p = np.broadcast_to(np.log(p), (1, 1, 2, 2)).astype(np.float32)
        log_q = np.log(q)[None, None, None].astype(np.float32)
        for rule in VERIFIERS.values():
            found = rule.survival(log_p, log_q, np.zeros((1, 1, 1), dtype=np.int64))
            assert found[0, 0] == pytest.approx(0.5, abs=1e-5)
            with pytest.raises(ValueError, match="float16"):
                rule.verify(
                    log_p.astype(np.float16),
                    log_q.astype(np.float16),
                    np.zeros((1, 1, 1), int),
                    np.zeros((1, 2)),
                )

    def test_draft_with_q_zero_is_refused(self) -> None:
        for rule in VERIFIERS.values():
            with pytest.raises(ValueError, match="really drawn from"):
                on_grid(rule, P, (0, "1/2", "1/2"), [0], np.zeros((1, 2)))


class TestRaggedBatch:
    def test_batch_independence(self) -> None:
        drafts = np.array([[[0, 0]], [[1, 2]]])
        tape = np.array([[0.1, 0.99, 0.5], [0.1, 0.1, 0.5]])
        log_p = np.broadcast_to(log(floats(P)), (2, 1, 3, 3))
        log_q = np.broadcast_to(log(floats(Q)), (2, 1, 2, 3))
        both = TOKEN.verify(log_p, log_q, drafts, tape).accepted
        assert both.tolist() == [1, 2]
        for b in range(2):
            row = slice(b, b + 1)
            alone = TOKEN.verify(log_p[row], log_q[row], drafts[row], tape[row]).accepted
            assert alone[0] == both[b]


class TestVocabulary:
    P6 = ("3/10", "1/5", "1/10", "1/10", "1/10", "1/5")

    def test_smaller_draft_vocabulary_is_extended_by_zeros(self) -> None:
        q = ("1/2", "3/10", "1/5", 0, 0, 0)
        outcome = one_draft(TOKEN, self.P6, q)
        same(outcome.law, self.P6)
        assert outcome.lengths[1] == pytest.approx(3 / 5, abs=1e-12)
        same(correction(TOKEN, self.P6, q, 0), (0, 0, 0, "1/4", "1/4", "1/2"))

    @pytest.mark.parametrize("rule", list(VERIFIERS.values()), ids=lambda rule: rule.name)
    def test_masked_padding_is_never_emitted(self, rule: ArrayVerifier) -> None:
        third = ("1/3", "1/3", "1/3", 0)
        same(one_draft(rule, third, third, size=30).law, third)
        same(one_draft(rule, third, (1, 0, 0, 0), size=30).law, third)
