"""E[tau] of the rules for drafted trees (derived here).

* ``traversal``: a visited node that must still keep c keeps nothing with probability 1 - c, so a
  child x drawn from d and visited with weight w contributes w min(d, c R)(x), and is itself
  visited with c_x = min(1, c R(x)/d(x)); the next child is visited with what is left of w.
  Work: (K V)^gamma with replacement, up to (V!/(V - K)!)^gamma without.
* ``point_mass``: the sum of P(v) over the drafted nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from theory.accepted_length.single import one
from theory.drafting import best_tokens, without
from theory.fields import Array, Number, is_zero, minimum
from theory.models import Prefix, RowTree
from theory.verifiers.traversal import Branching, settle


def traversal(
    p_tree: RowTree,
    q_tree: RowTree,
    gamma: int,
    num_drafts: int,
    branching: Branching | None = None,
    replacement: bool = True,
) -> Number:
    """Expected accepted length of traversal verification; K children at every node by default."""
    widths = (branching or (num_drafts,) * gamma)[:gamma]

    def beyond(path: Prefix, keep: Number) -> Number:
        """Expected accepted tokens below a visited node."""
        if len(path) == len(widths):
            return 0 * keep
        return child(path, keep, p_tree.row(path), q_tree.row(path), widths[len(path)])

    def child(path: Prefix, keep: Number, left: Array, law: Array, width: int) -> Number:
        """The same from the next of ``width`` more children on."""
        total = 0 * keep
        kept = minimum(law, keep * left)
        after, rest = settle(keep, left, law)
        for x, drawn in enumerate(law):
            if is_zero(drawn):
                continue
            total = total + kept[x] + drawn * beyond((*path, x), kept[x] / drawn)
            if not replacement and width > 1:
                less = without(law, x)
                if not is_zero(less.sum()):
                    total = total + (drawn - kept[x]) * child(path, after, rest, less, width - 1)
        if replacement and width > 1:
            total = total + (1 - kept.sum()) * child(path, after, rest, law, width - 1)
        return total

    return beyond((), p_tree.field.one)


def point_mass(p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int) -> Number:
    """Expected accepted length on the tree of the K likeliest draft tokens at each node."""
    reach, total = one(p_tree), p_tree.field.zero
    for level in range(gamma):
        kept = 0 * p_tree.levels[level]
        for row, p, q in zip(kept, p_tree.levels[level], q_tree.levels[level], strict=True):
            tokens = best_tokens(q, num_drafts)
            row[tokens] = p[tokens]
        reach = (reach[:, None] * kept).reshape(-1)
        total = total + reach.sum()
    return total


def drafted_mass(p_tree: RowTree, paths: Iterable[Prefix]) -> Number:
    """E[tau] on any deterministic tree, given by its paths: the sum of P over its nodes."""
    nodes = {path[:i] for path in paths for i in range(1, len(path) + 1)}
    strings = (prod(p_tree.row(v[:i])[x] for i, x in enumerate(v)) for v in nodes)
    return sum(strings, start=p_tree.field.zero)
