"""The +2/-1 controller of a fixed window (transformers' "heuristic" schedule).

Whether the window survives into the next call is part of the policy: persistent state couples one
request's speed to another's, transient state starts every call afresh.
"""

from __future__ import annotations

from theory.windows.fixed import rule

__all__ = ["at_new_call", "rule", "update"]

GROW = 2
SHRINK = 1


def update(gamma: int, accepted: int, drafted: int, cap: int | None = None) -> int:
    """The window after a round: +2 if every drafted token was accepted, else -1, never below 1.

    A round without drafts (an exhausted budget) leaves it as it is.
    """
    if drafted == 0:
        return gamma
    moved = gamma + GROW if accepted == drafted else max(1, gamma - SHRINK)
    return moved if cap is None else min(moved, cap)


def at_new_call(gamma: int, start: int, transient: bool) -> int:
    """The window that a new call begins with."""
    return start if transient else gamma
