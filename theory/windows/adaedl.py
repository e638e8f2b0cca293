"""AdaEDL (arXiv 2410.18351): before a draw, stop if its row promises too little acceptance.

The bound 1 - sqrt(scale * Ent(q)) on the overlap of the row *about to be sampled* is compared with
a threshold that a controller steers towards an acceptance rate. The rule is predictable: it never
pays for a token that its own row already condemned.

A first token is always drafted (``floor``): without it a high threshold would stop the evidence
that lowers it, and the acceptance rate would become 0/0. For the same reason the threshold is
kept in [0, 1], so a long bad phase cannot wind it up. Constants other than these two guards are
those of the public re-implementations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from theory.fields import Number
from theory.laws import entropy
from theory.models import Prefix, Rows
from theory.windows.rule import Rule
from theory.windows.scalars import threshold as number

SCALE = "1/5"
TARGET = 0.9
STEP = 0.01
RATE_MEMORY = 0.5
THRESHOLD_MEMORY = 0.9


def rule(threshold: Number = "1/2", scale: Number = SCALE, floor: int = 1) -> Rule:
    """Stop before a row with 1 - sqrt(``scale`` Ent(q)) < ``threshold``, after ``floor`` tokens.

    Raises:
        ValueError: floor below 1.
    """
    if floor < 1:
        raise ValueError(f"floor {floor} lets the window close for good; use 1 or more")
    limit, factor = float(number(threshold)), float(number(scale, "scale"))

    def stop(path: Prefix, draft: Rows) -> bool:
        if len(path) < floor:
            return False
        return 1 - math.sqrt(factor * float(entropy(draft(path)))) < limit

    return stop


@dataclass(frozen=True)
class Controller:
    """Threshold and acceptance rate (accepted per drafted token, smoothed)."""

    threshold: float = 0.5
    rate: float = TARGET


def update(state: Controller, accepted: int, drafted: int, cap: int) -> Controller:
    """The controller after a round; a round without drafts teaches nothing.

    Args:
        accepted, drafted: of the round; ``cap``: the largest window.
    """
    if drafted == 0:
        return state
    rate = RATE_MEMORY * state.rate + (1 - RATE_MEMORY) * accepted / drafted
    goal = state.threshold
    if rate < TARGET:
        goal += STEP
    elif accepted != cap:
        goal -= STEP
    moved = THRESHOLD_MEMORY * state.threshold + (1 - THRESHOLD_MEMORY) * goal
    return Controller(min(max(moved, 0.0), 1.0), rate)
