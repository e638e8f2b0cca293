"""The fixed window: gamma tokens, whatever they are."""

from __future__ import annotations

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
