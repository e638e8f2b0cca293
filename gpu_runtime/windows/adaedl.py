"""AdaEDL (arXiv 2410.18351): before a draw, stop if its row promises too little acceptance.

The bound 1 - sqrt(scale * Ent(q)) on the overlap of the row about to be sampled (before temperature
and filters) is compared with a threshold that a controller steers towards an acceptance rate, one
controller a request. A first token is always drafted: it is the evidence from which a threshold
that went too high comes down again. Exact face: ``theory.windows.adaedl``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_runtime.requests import Request
from gpu_runtime.windows import (
    DraftView,
    Window,
    entropy,
    note,
    require_floor,
    require_maximum,
    some_draft,
)
from theory.windows.adaedl import SCALE, Controller, update


@dataclass(frozen=True)
class AdaEDLWindow(Window):
    """Stop before a row with 1 - sqrt(``scale`` Ent(q)) < threshold, after ``floor`` tokens."""

    maximum: int
    threshold: float = Controller.threshold
    scale: float = float(Fraction(SCALE))
    floor: int = 1
    name = "adaedl"
    reads_plain = True

    def __post_init__(self) -> None:
        require_maximum(self.maximum)
        require_floor(self.floor)

    @property
    def _start(self) -> Controller:
        return Controller(self.threshold)

    def wants(self, view: DraftView) -> NDArray[np.bool_] | None:
        if view.drafted < self.floor:
            return None
        promise = 1 - (self.scale * entropy(view.plain[view.drafted])).sqrt()
        states = view.states(self.name, self._start)
        limits = torch.tensor([state.threshold for state in states], dtype=promise.dtype)
        return some_draft(promise >= limits.to(promise.device)[:, None])

    def observe(self, requests: Sequence[Request]) -> None:
        def steer(state: Controller, request: Request) -> Controller:
            return update(state, request.accepted[-1], request.drafted[-1], self.maximum)

        note(requests, self.name, self._start, steer)
