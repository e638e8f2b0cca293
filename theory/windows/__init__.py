"""Windows: when a drafter stops drafting, as programs, and what the best of them can earn.

* Rules, one module each (``catalogue.WINDOWS``), made into windows by ``Stopping(rule)`` and run
  by ``AdaptiveDecoder``; ``peeking`` holds rules that are not lossless.
* ``ladder``: what each kind of knowledge is worth on a pair of models, exactly, under real costs.
* ``iid``, ``ratio``, ``run_lengths``: closed forms and the theorem on oracle against best fixed.
"""

from theory.windows.catalogue import WINDOWS, WindowEntry, load_rule, window
from theory.windows.costs import BreakEven, Costs, break_even, speedup, throughput
from theory.windows.decoder import AdaptiveDecoder
from theory.windows.ladder import Ladder, ladder
from theory.windows.rule import Ending, Rule, Sight, Stopping

__all__ = [
    "WINDOWS",
    "AdaptiveDecoder",
    "BreakEven",
    "Costs",
    "Ending",
    "Ladder",
    "Rule",
    "Sight",
    "Stopping",
    "WindowEntry",
    "break_even",
    "ladder",
    "load_rule",
    "speedup",
    "throughput",
    "window",
]
