"""E[tau] of the single-draft rules over a row tree, by one pass over its levels.

With P(v), Q(v) the joint probabilities of a string v, and sums over strings of length 1..gamma:

* token:         sum_v prod_j min(p_j, q_j)
* block:         sum_v Q(v) Wc(v), where m = Q Wc obeys m(vx) = min(Q(vx), m(v) p(x))
* greedy block:  sum_v min(P(v), Q(v))

Sources: Leviathan et al. 2023 (token, under independence; here without it), Sun et al. 2024; the
recursion for m is derived here. No division, so zero rows need no care.
"""

from __future__ import annotations

from theory.fields import Array, Number, minimum
from theory.models import RowTree


def token(p_tree: RowTree, q_tree: RowTree, gamma: int) -> Number:
    """Expected accepted length of token verification."""
    kept, total = one(p_tree), p_tree.field.zero
    for level in range(gamma):
        steps = minimum(p_tree.levels[level], q_tree.levels[level])
        if level == gamma - 1:
            return total + (kept * steps.sum(axis=-1)).sum()
        kept = extend(kept, steps)
        total = total + kept.sum()
    return total


def block(p_tree: RowTree, q_tree: RowTree, gamma: int) -> Number:
    """Expected accepted length of block verification."""
    drafted, kept, total = one(p_tree), one(p_tree), p_tree.field.zero
    for level in range(gamma):
        drafted = extend(drafted, q_tree.levels[level])
        kept = minimum(drafted, extend(kept, p_tree.levels[level]))
        total = total + kept.sum()
    return total


def greedy_block(p_tree: RowTree, q_tree: RowTree, gamma: int) -> Number:
    """Expected accepted length of a round of greedy block verification on unmodified targets."""
    wanted, drafted, total = one(p_tree), one(p_tree), p_tree.field.zero
    for level in range(gamma):
        wanted = extend(wanted, p_tree.levels[level])
        drafted = extend(drafted, q_tree.levels[level])
        total = total + minimum(wanted, drafted).sum()
    return total


def one(tree: RowTree) -> Array:
    """Mass one at the root."""
    return tree.field.array([1])


def extend(mass: Array, rows: Array) -> Array:
    """Mass of every child: ``[N]`` and ``[N, V]`` to ``[N V]``."""
    children: Array = (mass[:, None] * rows).reshape(-1)
    return children
