"""E[tau] of K-SEQ over a row tree, by recursion on the number of survivors (derived here).

At a node with k survivors each draft holds y with probability q(y) and passes its own test with
probability b(y) = min(1, p(y)/(rho q(y))). Given that m of the k drafts hold y, the order of the
drafts is uniform, so with A ~ Bin(m, b(y)) passes among the copies of y and O ~ Bin(k - m, b')
among the rest (b' their pass probability), y wins with probability E[A/(A + O); A + O > 0]. After
y is kept, exactly those m drafts survive:

    value(v, k) = sum_y sum_m Bin(m; k, q(y)) win(m) (1 + value(vy, m)) .
"""

from __future__ import annotations

from math import comb

import numpy as np

from theory.fields import Array, Number, divide, minimum
from theory.models import RowTree
from theory.verifiers.kseq import smallest_rho


def kseq(p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int) -> Number:
    """Expected accepted length of K-SEQ with K i.i.d. drafts of ``gamma`` tokens."""
    below: dict[int, Array] = {}
    for level in range(gamma - 1, -1, -1):
        p, q = p_tree.levels[level], q_tree.levels[level]
        beyond = {m: rest.reshape(p.shape) for m, rest in below.items()}
        below = {k: survivor_value(outcomes(p, q, k), beyond) for k in range(1, num_drafts + 1)}
    return below[num_drafts][0]


def survivor_value(kept: dict[int, Array], beyond: dict[int, Array]) -> Array:
    """Expected further accepted tokens at every node of a level.

    Args:
        kept: by m, [N, V], the probability that y is kept and m drafts survive.
        beyond: by m, [N, V], the value at the child y with m survivors; empty at the last level.
    """
    total = sum(mass * (1 + beyond[m] if beyond else 1) for m, mass in kept.items())
    values: Array = np.asarray(total).sum(axis=-1)
    return values


def outcomes(p: Array, q: Array, k: int) -> dict[int, Array]:
    """By m, [N, V], the probability that y is kept and m of ``k`` drafts hold it."""
    rho = smallest_rho(p, q, k) if p.dtype == np.float64 else _each_rho(p, q, k)
    passed = minimum(q, p / rho[:, None])
    others = 1 - q
    passing = divide(passed, q)
    passing_others = divide(passed.sum(axis=-1, keepdims=True) - passed, others)
    kept = {}
    for m in range(1, k + 1):
        held = comb(k, m) * q**m * others ** (k - m)
        kept[m] = held * _first_is_copy(passing, passing_others, m, k - m)
    return kept


def _each_rho(p: Array, q: Array, k: int) -> Array:
    return np.array([smallest_rho(a, b, k) for a, b in zip(p, q, strict=True)], dtype=object)


def _first_is_copy(passing: Array, passing_others: Array, copies: int, rest: int) -> Array:
    """Probability that, in uniform order, the first draft to pass is one of ``copies``."""
    total = 0 * passing
    for a in range(1, copies + 1):
        mine = comb(copies, a) * passing**a * (1 - passing) ** (copies - a)
        for o in range(rest + 1):
            theirs = comb(rest, o) * passing_others**o * (1 - passing_others) ** (rest - o)
            total = total + mine * theirs * a / (a + o)
    return total
