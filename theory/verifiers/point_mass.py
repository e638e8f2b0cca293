"""Verification of deterministic drafts: look-up drafts, greedy chains, top-k trees.

A token v is drawn from p at each node; while v is drafted there, the round goes on below it, and
the first v outside the tree is the correction (the bonus, below a leaf). Nothing is ever refused,
so the rule is lossless for any tree that was fixed before the draws; it keeps a node v with
probability P(v), E[tau] = sum of P(v) over the drafted nodes. Testing siblings in turn with
p(x)/(mass left), zeroing and renormalising after each refusal, has the same law.

Slots: ``i`` for the token at position i + 1, gamma + 1 in all with gamma the deepest leaf.

Source: reference implementation of EAGLE (2401.15077) and common practice; the equivalence is
derived here.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round on a tree given by its root-to-leaf paths; ``draft`` is not used."""
    nodes = {path[:i] for path in drafts for i in range(len(path) + 1)}
    path: Prefix = ()
    while True:
        longer = (*path, fx.choose(target(path), len(path)))
        if longer not in nodes:
            return Round(len(path), longer)
        path = longer
