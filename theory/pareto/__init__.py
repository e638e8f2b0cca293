"""Exact frontiers of lossy verification, from one context to whole texts and target calls.

* ``one_context``: the slope-one TV frontier of all rules, the box, sweeps of the known rules;
* ``many_contexts``: dynamic against static weights at fixed context weights;
* ``texts``: whole texts as a decision process, DIVERSED's objective, the occupancy program;
* ``rounds``, ``calls``: the true cost, target calls, with the place in the block in the state;
* ``survey``: every relaxed rule on one picture.

Results are :class:`Frontier` objects: points (acceptance or calls, quality, knob, rule).
"""

from theory.pareto.frontier import Frontier, Point, undominated

__all__ = ["Frontier", "Point", "undominated"]
