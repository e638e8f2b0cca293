"""Bounds on E[tau] of K i.i.d. drafts that need no optimisation, over row trees, in any field.

With P(v), Q(v) the joint probabilities of a string v of length 1..gamma:

* ``cic_value``: sum_v P(v) phi_K(min(1, Q(v)/P(v))), the value claimed for SpecTr-GBV as an
  optimum (arXiv 2604.25925, Theorem 5.3). Attainable, though by no coupling that is conditionally
  independent; the optimum exactly for K = 1, below it in general.
* ``level_wise``: sum_i alpha*_i, the one-position optimum of the strings of length i. Above the
  optimum, because the levels cannot all be optimal at once.
* ``marginal``: sum_v min(P(v), phi_K(Q(v))), which looks at every string alone.

Always cic <= block optimum <= level-wise <= marginal, with equality for K = 1.
"""

from __future__ import annotations

from theory.fields import Array, Number, divide, minimum
from theory.models import RowTree
from theory.transport.one_position import hit_probability, optimum


def node_masses(tree: RowTree) -> list[Array]:
    """Joint probabilities of all strings of length 1, 2, .., depth."""
    masses = [tree.levels[0].reshape(-1)]
    for rows in tree.levels[1:]:
        masses.append((masses[-1][:, None] * rows).reshape(-1))
    return masses


def cic_value(target: RowTree, draft: RowTree, num_drafts: int) -> Number:
    """The value of a conditionally independent coupling, summed over all nodes."""
    return sum(
        (p * hit_probability(divide(minimum(p, q), p), num_drafts)).sum()
        for p, q in zip(node_masses(target), node_masses(draft), strict=True)
    )


def level_wise(target: RowTree, draft: RowTree, num_drafts: int) -> Number:
    """Sum over lengths of the best acceptance of a whole string of that length."""
    return sum(
        optimum(p, q, num_drafts)
        for p, q in zip(node_masses(target), node_masses(draft), strict=True)
    )


def marginal(target: RowTree, draft: RowTree, num_drafts: int) -> Number:
    """Sum over nodes of what each could accept if it were alone."""
    return sum(
        minimum(p, hit_probability(q, num_drafts)).sum()
        for p, q in zip(node_masses(target), node_masses(draft), strict=True)
    )
