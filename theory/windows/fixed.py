"""The fixed window: gamma tokens, whatever they are."""

from __future__ import annotations

from collections.abc import Sequence

from theory.models import Prefix, Rows
from theory.windows.rule import Rule


def rule(gamma: int) -> Rule:
    """Draft ``gamma`` tokens.

    Raises:
        ValueError: negative gamma.
    """
    if gamma < 0:
        raise ValueError(f"gamma {gamma} is negative; use 0 (no drafts) or more")

    def stop(path: Prefix, draft: Rows) -> bool:
        return len(path) >= gamma

    return stop


def scheduled(batch: int, schedule: Sequence[tuple[int, int, int]], maximum: int) -> int:
    """The window for a batch size, from ranges ``(first size, last size, gamma)``.

    ``maximum`` bounds every entry, and holds for sizes outside all ranges.
    """
    for first, last, gamma in schedule:
        if first <= batch <= last:
            return min(gamma, maximum)
    return maximum
