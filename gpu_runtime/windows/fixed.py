"""The fixed window: every round drafts gamma tokens (fewer only at the end of the budget).

A ``schedule`` by batch size lowers gamma while many requests are served: ranges
``(first size, last size, gamma)``. It is the one window whose drafts depend on the batch; at
temperatures above 0 the same request may then write another (equally valid) text beside others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.requests import Request
from gpu_runtime.windows import Window, require_maximum
from theory.windows.fixed import scheduled


@dataclass(frozen=True)
class FixedWindow(Window):
    """Draft ``maximum`` = gamma tokens a round, or what the schedule says."""

    maximum: int
    schedule: tuple[tuple[int, int, int], ...] = ()
    name = "fixed"
    planned = True

    def __post_init__(self) -> None:
        require_maximum(self.maximum)

    @property
    def full(self) -> bool:  # type: ignore[override]
        return not self.schedule

    def limits(self, requests: Sequence[Request]) -> NDArray[np.int64]:
        gamma = scheduled(len(requests), self.schedule, self.maximum)
        return np.full(len(requests), gamma, dtype=np.int64)
