"""The +2/-1 controller (transformers' "heuristic" schedule), one for each request and call.

The rule is ``theory.windows.heuristic``; it is the transient form: a new call starts afresh, so
the speed of one request never depends on another's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.requests import Request
from gpu_runtime.windows import Window, note, require_floor, require_maximum
from theory.windows.heuristic import update


@dataclass(frozen=True)
class HeuristicWindow(Window):
    """Draft ``start`` tokens at first; 2 more when all were accepted, else 1 fewer, at least 1."""

    maximum: int
    start: int = 5
    name = "heuristic"
    planned = True

    def __post_init__(self) -> None:
        require_maximum(self.maximum)
        require_floor(self.start)

    def limits(self, requests: Sequence[Request]) -> NDArray[np.int64]:
        gammas = [request.notes.get(self.name, self.start) for request in requests]
        return np.minimum(np.array(gammas, dtype=np.int64), self.maximum)

    def observe(self, requests: Sequence[Request]) -> None:
        def move(gamma: int, request: Request) -> int:
            return update(gamma, request.accepted[-1], request.drafted[-1], self.maximum)

        note(requests, self.name, min(self.start, self.maximum), move)
