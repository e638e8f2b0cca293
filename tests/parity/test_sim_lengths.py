"""Expected accepted lengths of the array rules, summed over all drafts, against closed forms.

E[tau] = sum over drafts Q(draft) sum_i P(tau >= i | draft). The closed forms below are written out
here over strings: token sum_v prod min(p, q); block sum_v P(v) min_j min(1, Q(x^j)/P(x^j)); greedy
block sum_v min(P(v), Q(v)); K-SEQ phi_K(beta(rho)) at one position.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sim.rounds import simulate_rounds, simulate_survival
from sim.rows import RowTable, all_strings, tabulate
from sim.testing import Levels, random_pair, random_rows
from sim.verifiers import VERIFIERS
from sim.verifiers.kseq import SLACK, at_least_one, smallest_rho


def paths(table: RowTable, strings: np.ndarray) -> np.ndarray:
    """States [n, g+1] along strings [n, g] from the empty context."""
    states = np.zeros((len(strings), strings.shape[1] + 1), dtype=np.int64)
    for i in range(strings.shape[1]):
        states[:, i + 1] = table.after(states[:, i], strings[:, i])
    return states


def exact_length(rule: str, target: RowTable, draft: RowTable, gamma: int, drafts: int) -> float:
    """Sum over all tuples of drafts of their probability times the survival sum."""
    strings = all_strings(target.vocab, gamma)
    tuples = np.array(list(product(range(len(strings)), repeat=drafts)))
    log_p = target.rows(paths(target, strings))
    log_q = draft.rows(paths(draft, strings)[:, :-1])
    logs = np.take_along_axis(log_q, strings[:, :, None], axis=2)[..., 0]
    mass = np.exp(logs.sum(axis=1))
    survival = VERIFIERS[rule].survival(log_p[tuples], log_q[tuples], strings[tuples])
    return float((np.prod(mass[tuples], axis=1) * survival.sum(axis=1)).sum())


def closed_form(rule: str, target: RowTable, draft: RowTable, gamma: int) -> float:
    total = 0.0
    for length in range(1, gamma + 1):
        for string in all_strings(target.vocab, length):
            p_rows = np.exp(target.log_rows[paths(target, string[None])[0, :-1]])
            q_rows = np.exp(draft.log_rows[paths(draft, string[None])[0, :-1]])
            p, q = p_rows[np.arange(length), string], q_rows[np.arange(length), string]
            joint_p, joint_q = np.cumprod(p), np.cumprod(q)
            if rule == "token":
                total += np.prod(np.minimum(p, q))
            elif rule == "greedy_block":
                total += min(joint_p[-1], joint_q[-1])
            elif joint_p[-1] > 0:
                total += joint_p[-1] * min(1.0, (joint_q / joint_p).min())
    return total


@pytest.mark.parametrize("rule", ["token", "block", "greedy_block"])
@pytest.mark.parametrize("seed", range(4))
def test_length_equals_closed_form(rule: str, seed: int) -> None:
    target, draft = random_pair(np.random.default_rng(seed), 3, 3, awkward=0.3, equal=0.2)
    found = exact_length(rule, target, draft, 3, 1)
    assert found == pytest.approx(closed_form(rule, target, draft, 3), rel=1e-12, abs=1e-12)


def test_suns_example() -> None:
    """p = (1/3, 2/3), q = (2/3, 1/3), gamma = 2: 10/9, 11/9 and 12/9."""
    target, draft = table([1 / 3, 2 / 3]), table([2 / 3, 1 / 3])
    lengths = {"token": 10 / 9, "block": 11 / 9, "greedy_block": 12 / 9}
    for rule, length in lengths.items():
        assert exact_length(rule, target, draft, 2, 1) == pytest.approx(length, rel=1e-14)


def table(row: list[float]) -> RowTable:
    """The same row everywhere."""
    return tabulate(Levels((np.array([row]),)), 0, order=0)


@pytest.mark.parametrize("drafts", [1, 2, 3])
def test_kseq_one_position(drafts: int) -> None:
    for seed in range(3):
        target, draft = random_pair(np.random.default_rng(seed), 4, 1, awkward=0.3)
        p, q = np.exp(target.log_rows[:1]), np.exp(draft.log_rows[:1])
        rho = smallest_rho(np, p, q, np.array([float(drafts)]))
        beta = np.minimum(q, p / rho).sum()
        expected = 1 - (1 - beta) ** drafts
        found = exact_length("kseq", target, draft, 1, drafts)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_rho_is_rounded_up_to_a_valid_value() -> None:
    """phi_k(beta) <= rho beta holds at the returned rho and fails just below it."""
    rng = np.random.default_rng(2)
    p, q = random_rows(rng, 300, 5, awkward=0.3), random_rows(rng, 300, 5, awkward=0.3)
    count = rng.integers(1, 5, size=300).astype(float)
    rho = smallest_rho(np, p, q, count)

    def slack(at: np.ndarray) -> np.ndarray:
        beta = np.minimum(np.minimum(q, p / at[:, None]).sum(axis=1), 1.0)
        return at * beta - at_least_one(np, beta, count) + SLACK

    assert ((rho >= 1) & (rho <= count)).all()
    assert (slack(rho) >= 0).all()
    inner = (rho > 1 + 1e-6) & (np.minimum(p, q).sum(axis=1) > 0)
    assert inner.sum() > 50
    assert (slack(rho * (1 - 1e-6))[inner] < 0).all()


def test_kseq_with_one_draft_is_the_token_rule() -> None:
    target, draft = random_pair(np.random.default_rng(1), 3, 3)
    expected = closed_form("token", target, draft, 3)
    assert exact_length("kseq", target, draft, 3, 1) == pytest.approx(expected, rel=1e-12)


def test_kseq_known_values() -> None:
    """K = 2: length 0.64827; and rho = 3/2 with length 3/4, above the bound 13/18 of CIC."""
    pair = table([3 / 4, 1 / 4]), table([1 / 4, 3 / 4])
    assert exact_length("kseq", *pair, 1, 2) == pytest.approx(0.64827, abs=5e-6)
    p, q = [0, 1 / 2, 1 / 2], [1 / 2, 1 / 6, 1 / 3]
    rho = smallest_rho(np, np.array([p]), np.array([q]), np.array([2.0]))[0]
    assert rho == pytest.approx(1.5, rel=1e-14)
    assert exact_length("kseq", table(p), table(q), 1, 2) == pytest.approx(3 / 4, rel=1e-14)


@pytest.mark.parametrize("rule", list(VERIFIERS))
def test_decisions_follow_survival(rule: str) -> None:
    """Simulated lengths have the mean of the path probabilities (5 standard errors)."""
    drafts, rounds = (3 if VERIFIERS[rule].multi_draft else 1), 60_000
    target, draft = random_pair(np.random.default_rng(11), 3, 3, awkward=0.2)
    accepted = simulate_rounds(target, draft, rule, 3, drafts, rounds, np.random.default_rng(1))
    survival = simulate_survival(
        target, draft, rule, 3, drafts, rounds, np.random.default_rng(2)
    ).sum(axis=1)
    error = np.hypot(accepted.std(), survival.std()) / rounds**0.5
    assert abs(accepted.mean() - survival.mean()) < 5 * error
    assert survival.var() < accepted.var()
