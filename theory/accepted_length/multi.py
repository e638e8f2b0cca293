"""E[tau] of the rules for K i.i.d. drafts over a row tree (derived here), level by level.

* ``recursive_rejection``: at a node with k survivors, y is kept at the j-th test with probability
  prod_{i<j} (1 - a_i) min(R_j, q)(y), a_i = sum min(R_i, q); copies of y tested before were refused
  and cannot be y, so 1 + Bin(k - j, q(y)) drafts survive. Without replacement the first tokens
  differ, one draft survives the first position, and the sum runs over the refused tokens.
* ``sequential_block``, ``sequential_greedy_block``: a draft that was not yet looked at runs through
  the kept node v with probability Q(v), and then stops at w with the mass of its single-draft
  rule from v on; from there the next draft takes over with the residual rows.
* ``max_ratio_block``: from n survivors, x is selected and held by s of them with probability
  C(n, s) q(x)^s F(x-)^(n - s); the kept mass obeys m(vx) = min(w(v) qhat_n(x), m(v) p(x)), w the
  probability of the selected path, and is shared among s in those proportions.

With V tokens the work is that of one pass over the tree times C(gamma + K, K) at most; without
replacement times V^(K-1) at the root.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np

from theory.accepted_length.kseq import survivor_value
from theory.accepted_length.single import extend, one
from theory.drafting import without
from theory.fields import Array, Number, divide, is_zero, minimum, positive_part
from theory.laws import normalise, residual
from theory.models import RowTree
from theory.verifiers.max_ratio_block import ranked


def recursive_rejection(
    p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int, replacement: bool = True
) -> Number:
    """Expected accepted length of recursive rejection with K drafts of ``gamma`` tokens."""
    below: dict[int, Array] = {}
    for level in range(gamma - 1, -1, -1):
        p, q = p_tree.levels[level], q_tree.levels[level]
        beyond = {k: rest.reshape(p.shape) for k, rest in below.items()}
        if level == 0 and not replacement:
            kept = _distinct(p[0], q[0], num_drafts)
            return (kept * (1 + beyond[1][0] if beyond else kept * 0 + 1)).sum()
        most = num_drafts if replacement else 1
        below = {k: survivor_value(outcomes(p, q, k), beyond) for k in range(1, most + 1)}
    return below[num_drafts][0]


def outcomes(p: Array, q: Array, k: int) -> dict[int, Array]:
    """By m, [N, V], the probability that y is kept by recursive rejection and m drafts survive."""
    left, reach = p, 0 * q.sum(axis=-1) + 1
    kept = dict.fromkeys(range(1, k + 1), 0 * q)
    for later in range(k - 1, -1, -1):
        mass = reach[:, None] * minimum(left, q)
        for copies in range(later + 1):
            share = comb(later, copies) * q**copies * (1 - q) ** (later - copies)
            kept[1 + copies] = kept[1 + copies] + mass * share
        reach = reach - mass.sum(axis=-1)
        left = residual(left, q)
    return kept


def _distinct(left: Array, law: Array, k: int) -> Array:
    """The mass with which each token is kept from ``k`` draws without replacement."""
    kept: Array = minimum(left, law)
    if k == 1:
        return kept
    rest, total = residual(left, law), kept
    for x in range(len(law)):
        if not is_zero(law[x] - kept[x]) and not is_zero(without(law, x).sum()):
            total = total + (law[x] - kept[x]) * _distinct(rest, without(law, x), k - 1)
    return total


def sequential_block(p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int) -> Number:
    """Expected accepted length of sequential block verification."""

    def judge(level: int, rows: list[Array]) -> tuple[list[Array], list[list[Array]]]:
        drafted = kept = _ones(rows[0])
        keeps, leaves = [kept], []
        for i, p in enumerate(rows):
            q = q_tree.levels[level + i]
            gap = positive_part(kept[:, None] * p - drafted[:, None] * q)
            tail = [p_tree.levels[j] for j in range(level + i + 1, gamma)]
            leaves.append([normalise(gap, fallback=p), *tail])
            drafted = extend(drafted, q)
            kept = minimum(drafted, extend(kept, p))
            keeps.append(kept)
        return keeps, leaves

    return _in_turn(p_tree, q_tree, gamma, num_drafts, judge)


def sequential_greedy_block(
    p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int
) -> Number:
    """Expected accepted length of a round of the sequential greedy rule on unmodified targets."""

    def judge(level: int, rows: list[Array]) -> tuple[list[Array], list[list[Array]]]:
        wanted = drafted = _ones(rows[0])
        keeps, modified = [wanted], []
        for i, p in enumerate(rows):
            q = q_tree.levels[level + i]
            gap = positive_part(wanted[:, None] * p - drafted[:, None] * q)
            modified.append(normalise(gap, fallback=p))
            wanted, drafted = extend(wanted, p), extend(drafted, q)
            keeps.append(minimum(wanted, drafted))
        return keeps, [modified[i:] for i in range(len(rows))]

    return _in_turn(p_tree, q_tree, gamma, num_drafts, judge)


Judge = Callable[[int, list[Array]], tuple[list[Array], list[list[Array]]]]
"""``judge(level, rows)``: what one draft does that runs through a node of ``level``, whose target
rows from there on are ``rows``. Returns, by depth below the node, the mass kept at or beyond each
descendant (given the node), and the target rows that a stop there leaves for the next draft."""


def _in_turn(p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int, judge: Judge) -> Number:
    drafted = [one(q_tree)]
    for level in range(gamma - 1):
        drafted.append(extend(drafted[-1], q_tree.levels[level]))

    def gain(level: int, rows: list[Array], drafts: int) -> Array:
        """Expected further accepted tokens at every node of a level, from the last ``drafts``."""
        total = _ones(rows[0]) * 0
        if drafts == 0:
            return total
        keeps, leaves = judge(level, rows)
        for i, kept in enumerate(keeps):
            if i > 0:
                total = total + _to(total, kept)
            if i < len(rows):
                stop = kept - _to(kept, keeps[i + 1])
                total = total + _to(total, stop * gain(level + i, leaves[i], drafts - 1))
        if level == 0:
            return total
        through = drafted[level]
        skipped = gain(level, rows, drafts - 1)
        return np.asarray(through * total + (1 - through) * skipped)

    return gain(0, list(p_tree.levels[:gamma]), num_drafts)[0]


def max_ratio_block(p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int) -> Number:
    """Expected accepted length of max-ratio block verification."""
    states = [(num_drafts, one(p_tree), one(p_tree))]
    total = p_tree.field.zero
    for level in range(gamma):
        p, q = p_tree.levels[level], q_tree.levels[level]
        under = _under(p, q)
        following = []
        for n, path, kept in states:
            law = (under + q) ** n - under**n
            mass = minimum(path[:, None] * law, kept[:, None] * p)
            total = total + mass.sum()
            for s in range(1, n + 1):
                held = comb(n, s) * q**s * under ** (n - s)
                share = mass * divide(held, law)
                following.append((s, extend(path, held), share.reshape(-1)))
        states = following
    return total


def _under(p: Array, q: Array) -> Array:
    """F(x-) at every node: the draft mass of the tokens that rank below x."""
    result = 0 * q
    for row, a, b in zip(result, p, q, strict=True):
        mass = 0 * b[0]
        for x in ranked(a, b):
            row[x] = mass
            mass = mass + b[x]
    return result


def _ones(rows: Array) -> Array:
    return np.asarray(0 * rows.sum(axis=-1) + 1)


def _to(shape: Array, values: Array) -> Array:
    """Values of descendants summed up to their ancestors at the level of ``shape``."""
    total: Array = values.reshape(len(shape), -1).sum(axis=-1)
    return total
