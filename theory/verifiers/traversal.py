"""Traversal verification of a sampled tree, leaf to root (Weng et al. 2025, arXiv 2505.12398).

A node carries the acceptance c that its subtree still has to supply (1 at the root), the law R of
the token that must follow it (p at first), and the draft law d of its next child. Children are
visited in order. A child x starts with c_x = min(1, c R(x)/d(x)) and settles its whole subtree
first; if it keeps nothing there,

    c becomes z/(z + 1 - c),   R becomes norm((c R - d)_+),   z = sum (c R - d)_+ ,

and the next child is visited; d stays q for fresh siblings and is renormalised for siblings
without replacement. When no child is left the node itself is kept with probability c, and the
correction comes from R (the bonus from p, at a leaf).

Derivation: claim that, given a node is visited, something in its subtree is kept with
probability c, and the token after the node then has law R. The first child keeps mass
min(d, c R) of each token; what c R - d leaves above it, z in all, must come from the rest, which
is reached with probability 1 - sum min(d, c R) = z + 1 - c. So the rest must keep with
probability z/(z + 1 - c) and law norm((c R - d)_+): the claim for one child fewer, whichever token
was refused. With no children it holds by the test. On one path this is block verification.

Slots: nodes are numbered level by level, siblings in order; ``n`` for the test of node n, and the
number of nodes for the emitted token. Needs ``theory.drafting.tree(branching, replacement)``;
``branching`` defaults to the same number of children at every node.

The paper states the rule for siblings without replacement; the derivation covers both.
"""

from __future__ import annotations

from collections import defaultdict

from theory.drafting import chunks, without
from theory.effects import Effects
from theory.fields import Array, Number, is_zero, minimum, positive_part
from theory.laws import normalise
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round

Branching = tuple[int, ...]


class _Tree:
    """The nodes of a drafted tree: the children of each and the level-order number of each."""

    def __init__(self, drafts: tuple[Prefix, ...], branching: Branching | None) -> None:
        self.children: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.size = 0
        level = [(-1, drafts)]  # the root has no slot
        for depth in range(max(map(len, drafts))):
            width = None if branching is None else branching[depth]
            grown = []
            for parent, leaves in level:
                for x, below in chunks(leaves, depth, width):
                    self.children[parent].append((x, self.size))
                    grown.append((self.size, below))
                    self.size += 1
            level = grown


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    branching: Branching | None = None,
    replacement: bool = True,
) -> Round:
    """One round of traversal verification."""
    if replacement and branching is None:
        branching = regular(len(drafts), len(drafts[0]))
    tree = _Tree(drafts, branching if replacement else None)

    def visit(path: Prefix, node: int, keep: Number) -> tuple[Prefix, Array] | None:
        """The kept path below a node with the law of its next token, or None."""
        left, children = target(path), tree.children[node]
        law = draft(path) if children else left
        for x, child in children:
            found = visit((*path, x), child, minimum(1, keep * left[x] / law[x]))
            if found is not None:
                return found
            keep, left = settle(keep, left, law)
            law = law if replacement else without(law, x)
        return (path, left) if node < 0 or fx.flip(keep, node) else None

    found = visit((), -1, fx.field.one)
    assert found is not None  # the root is always kept
    path, law = found
    return Round(len(path), (*path, fx.choose(law, tree.size)))


def settle(keep: Number, left: Array, law: Array) -> tuple[Number, Array]:
    """(c, R) of a node after one more child kept nothing."""
    gap = positive_part(keep * left - law)
    z = gap.sum()
    reached = z + 1 - keep
    return 1 if is_zero(reached) else z / reached, normalise(gap, fallback=left)


def regular(leaves: int, depth: int) -> Branching:
    """The branching of a K-ary tree, from its number of leaves.

    Raises:
        ValueError: the leaves do not make one.
    """
    if depth == 0:
        return ()
    width = round(leaves ** (1 / depth))
    if width**depth != leaves:
        raise ValueError(f"{leaves} paths of {depth} tokens are no K-ary tree; pass branching=")
    return (width,) * depth
