"""Optimal transport bounds: how much any verifier of K i.i.d. drafts can accept.

* ``one_position``, ``histogram``: alpha*, the optimum of one position, and the law attaining it;
* ``tree_bounds``: closed-form bounds of a block; ``block``: its optimum, a linear program;
* ``certificates``, ``checker``: rational proofs of that optimum, and their stand-alone check;
* ``linear``: the solver; ``oracles``: the same optima straight from their definition;
* ``summary``: all of it at once, :func:`bounds`.
"""

from theory.transport.certificates import BlockOptimum, block_optimum
from theory.transport.checker import check_certificate
from theory.transport.histogram import alpha_star_histogram, histogram_gap
from theory.transport.one_position import alpha_star, alpha_star_subsets, clipped_law
from theory.transport.oracles import alpha_star_lp, block_optimum_lp
from theory.transport.summary import Bounds, bounds
from theory.transport.tree_bounds import cic_value, level_wise, marginal

__all__ = [
    "BlockOptimum",
    "Bounds",
    "alpha_star",
    "alpha_star_histogram",
    "alpha_star_lp",
    "alpha_star_subsets",
    "block_optimum",
    "block_optimum_lp",
    "bounds",
    "check_certificate",
    "cic_value",
    "clipped_law",
    "histogram_gap",
    "level_wise",
    "marginal",
]
