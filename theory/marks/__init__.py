"""Marked verification: one draft out of K, chosen by independent marks, judged like a single one.

Every draft draws, independently of the others, a label from a law that depends on its own path;
the first draft with the highest label wins. The winner's law is known in closed form for any
labels, so verifying it with block verification (``theory.verifiers.marked_block``) or with greedy
block verification (``theory.verifiers.marked_greedy_block``) is lossless, whatever the labels.
And nothing is lost by this form: every multi-draft block rule, the optimal transport plan
included, accepts what some marked rule accepts. What is left to choose is how labels depend on
tokens:

* ``labels``: the labels and their values;
* ``clipping``: the best multipliers at a node, two scalars away from p/q;
* ``coupling``, ``entropy``: label laws that have these multipliers as means;
* ``splitting``: the split of a node's label law among V tokens, one histogram pass;
* ``scheme``: the choice of cells and couplings, as one value;
* ``winner``: label laws along paths, and the winner's rows;
* ``table``: how close to the optimum it comes.

All derived here, from: Hu et al. 2025 (the one-position optimum), Border 1991 and Hart and Reny
2015 (which selection laws K independent bidders can have), Strassen 1965 (convex order).
"""

from theory.marks.clipping import clip_levels, clipped, shortfall
from theory.marks.coupling import Coupling, curtain, mix, repaired
from theory.marks.entropy import entropic
from theory.marks.labels import Cells, cells, cells_between
from theory.marks.scheme import Node, Scheme
from theory.marks.splitting import Split, split
from theory.marks.winner import WinnerLaw, winner_law

__all__ = [
    "Cells",
    "Coupling",
    "Node",
    "Scheme",
    "Split",
    "WinnerLaw",
    "cells",
    "cells_between",
    "clip_levels",
    "clipped",
    "curtain",
    "entropic",
    "mix",
    "repaired",
    "shortfall",
    "split",
    "winner_law",
]
