"""Drawing the drafts of a round, as programs over the same effects.

A *window* decides after each drafted token whether to draft another; it is a stopping time when
its decision uses only tokens drafted so far and draft rows (``theory.windows``). Slots of draft
``k``: ``("draft", k, i)`` for its token i + 1.
"""

from __future__ import annotations

from collections.abc import Callable

from theory.effects import Effects
from theory.models import Prefix, Rows

Window = Callable[[Effects, Rows, int, int], Prefix]
"""``window(fx, draft, cap, k)`` draws the path of draft ``k``, at most ``cap`` tokens."""


def draw_path(fx: Effects, draft: Rows, stop: Callable[[Prefix], bool], cap: int, k: int) -> Prefix:
    """Tokens drawn from the draft until ``stop(path)`` holds or ``cap`` is reached."""
    path: Prefix = ()
    while len(path) < cap and not stop(path):
        path = (*path, fx.choose(draft(path), ("draft", k, len(path))))
    return path


def fixed(gamma: int) -> Window:
    """The fixed window: ``gamma`` tokens, or fewer at the end of the budget."""

    def window(fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
        return draw_path(fx, draft, lambda path: len(path) == gamma, cap, k)

    return window
