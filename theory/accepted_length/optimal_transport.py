"""E[tau] of optimal transport over a row tree, by recursion on the number of survivors.

The winner is the j-th of k survivors with label b iff the j - 1 before it have labels below b and
the k - j after it at most b. Each of these holds the same token y with its own chance under that
condition, which gives the law of the number of survivors after y is kept (derived here).
"""

from __future__ import annotations

from math import comb

import numpy as np

from theory.accepted_length.kseq import survivor_value
from theory.fields import Array, Number, divide, minimum
from theory.models import RowTree
from theory.verifiers.optimal_transport import selection


def optimal_transport(p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int) -> Number:
    """Expected accepted length of optimal transport with K i.i.d. drafts of ``gamma`` tokens."""
    below: dict[int, Array] = {}
    for level in range(gamma - 1, -1, -1):
        p, q = p_tree.levels[level], q_tree.levels[level]
        beyond = {k: rest.reshape(p.shape) for k, rest in below.items()}
        below = {k: survivor_value(outcomes(p, q, k), beyond) for k in range(1, num_drafts + 1)}
    return below[num_drafts][0]


def outcomes(p: Array, q: Array, k: int) -> dict[int, Array]:
    """By m, [N, V], the probability that y is kept and m of ``k`` drafts hold it."""
    nodes = [_at_node(a, b, k) for a, b in zip(p, q, strict=True)]
    return {m: np.stack([node[m] for node in nodes]) for m in range(1, k + 1)}


def _at_node(p: Array, q: Array, k: int) -> dict[int, Array]:
    kernel, law = selection(p, q, k)
    holding = q[:, None] * kernel  # [V, labels]: a draft holds the token and has the label
    mine = holding.cumsum(axis=1)
    others = holding.sum(axis=0).cumsum() - mine
    mine_before, others_before = mine - holding, others - (holding.sum(axis=0) - holding)
    accept = minimum(divide(p, law), 1)
    kept = {}
    for m in range(1, k + 1):
        wins = 0 * holding
        for first in range(k):
            for copies in range(max(0, m - k + first), min(first, m - 1) + 1):
                rest, later = m - 1 - copies, k - 1 - first
                wins = wins + (
                    comb(first, copies) * mine_before**copies * others_before ** (first - copies)
                ) * (comb(later, rest) * mine**rest * others ** (later - rest))
        kept[m] = accept * (holding * wins).sum(axis=1)
    return kept
