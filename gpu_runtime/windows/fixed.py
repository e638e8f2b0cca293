"""The fixed window: every round drafts gamma tokens (fewer only at the end of the budget)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.requests import Request
from gpu_runtime.windows import DraftView


@dataclass(frozen=True)
class FixedWindow:
    """Draft ``maximum`` = gamma tokens a round."""

    maximum: int
    name: str = "fixed"

    def __post_init__(self) -> None:
        if self.maximum < 0:
            raise ValueError(f"gamma {self.maximum} is negative; use 0 (no drafts) or more")

    def wants(self, view: DraftView) -> None:
        """Always one more, up to the maximum."""

    def observe(self, requests: Sequence[Request]) -> None:
        """Nothing to learn."""
