"""E[tau] of marked block verification and its greedy form, by one pass over the row trees.

The winner has law G(v) = Q(v) T(v) (``theory.marks``), so E[tau] is that of the single-draft rule
against G. With the demand of a node, target mass over draft mass, both read

    E[tau] = sum_v Q(v) min(demand(v), T(v)) ,    demand(vx) = demand(v) p(x)/q(x) ,

sums over strings of length 1..gamma, where the stateless rule caps demand(v) at T(v) on the way
down: that is P(v) min over prefixes u of min(1, G(u)/P(u)), and min(P(v), G(v)) without the cap.
Split after split is done for a whole level at once. Derived here.
"""

from __future__ import annotations

import numpy as np

from theory.fields import Array, Number, divide, minimum
from theory.marks import Coupling, Scheme
from theory.models import RowTree


def marked_block(
    p_tree: RowTree,
    q_tree: RowTree,
    gamma: int,
    num_drafts: int,
    cells: int = 8,
    coupling: str | Coupling = "mix",
    histogram: bool = True,
) -> Number:
    """Expected accepted length of marked block verification.

    Raises:
        ValueError: unknown coupling, an iterative coupling over rationals, no cells.
    """
    scheme = Scheme.of(num_drafts, cells, p_tree.field, coupling, histogram)
    return accepted(p_tree, q_tree, gamma, scheme, capped=True)


def marked_greedy_block(
    p_tree: RowTree,
    q_tree: RowTree,
    gamma: int,
    num_drafts: int,
    cells: int = 8,
    coupling: str | Coupling = "mix",
    histogram: bool = True,
) -> Number:
    """Expected accepted length of a round of marked greedy block verification, unmodified targets.

    Raises:
        ValueError: unknown coupling, an iterative coupling over rationals, no cells.
    """
    scheme = Scheme.of(num_drafts, cells, p_tree.field, coupling, histogram)
    return accepted(p_tree, q_tree, gamma, scheme, capped=False)


def accepted(p_tree: RowTree, q_tree: RowTree, gamma: int, scheme: Scheme, capped: bool) -> Number:
    """The sum of the module docstring, level by level."""
    start = scheme.start
    demand, drafted = np.array([start.demand]), np.array([start.demand])
    marks = np.array([start.marks])
    total = p_tree.field.zero
    for level in range(gamma):
        p, q = p_tree.levels[level], q_tree.levels[level]
        shares = scheme.split(demand, p, q, marks, last=level == gamma - 1)
        wishes: Array = divide(demand[:, None] * p, q)
        met = minimum(wishes, shares.means)
        reached = drafted[:, None] * q
        total = total + (reached * met).sum()
        drafted, demand = reached.reshape(-1), (met if capped else wishes).reshape(-1)
        if level < gamma - 1:
            marks = shares.laws().reshape(len(demand), -1)
    return total
