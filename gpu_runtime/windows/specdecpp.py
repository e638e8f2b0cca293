"""SpecDec++ (arXiv 2405.19715): stop once some rejection has become likely.

With estimates a_i of acceptance, drafting ends when 1 - a_1 .. a_{i-1} > threshold: the decision
lags one token, which is kept. The estimates come from a function of the view, usually a trained
head on the draft's hidden states (:class:`Head`). Exact face: ``theory.windows.specdecpp``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_runtime.windows import DraftView, Window, require_floor, require_maximum, some_draft
from theory.windows.scalars import probability

Acceptance = Callable[[DraftView, int], Tensor]
"""``acceptance(view, count)``: estimated acceptance of the first ``count`` tokens [B, K, count];
rows and hidden states up to that of the token after them exist."""


@dataclass(frozen=True)
class Head:
    """A trained head: hidden states [B, K, d] to estimates in [0, 1], [B, K].

    It reads the hidden state *after* a token was fed, which is the one behind the next row.
    """

    head: Callable[[Tensor], Tensor]
    reads_hidden = True

    def __call__(self, view: DraftView, count: int) -> Tensor:
        states = view.hidden[1 : count + 1]
        return torch.stack([self.head(state).squeeze(-1) for state in states], dim=-1)


@dataclass(frozen=True)
class SpecDecPPWindow(Window):
    """Stop when the estimated probability of a rejection before the last token is too large."""

    maximum: int
    acceptance: Acceptance
    threshold: float = 0.3
    floor: int = 2
    name = "specdecpp"
    reads_plain = True

    def __post_init__(self) -> None:
        require_maximum(self.maximum)
        require_floor(self.floor)
        probability(self.threshold, "threshold")

    @property
    def reads_hidden(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.acceptance, "reads_hidden", False))

    def goes_on(self, view: DraftView) -> NDArray[np.bool_] | None:
        judged = view.drafted - 1
        if view.drafted < self.floor or judged == 0:
            return None
        survival = self.acceptance(view, judged).double().prod(dim=-1)
        return some_draft(survival >= 1 - self.threshold)
