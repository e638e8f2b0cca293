"""Confidence threshold: stop after a drafted token of low draft probability; the token is kept.

The rule of transformers (``assistant_confidence_threshold``) and, on greedy drafts, of llama.cpp
(``p_min``). The probability is the draft's own, before temperature and filters: a one-hot row
would always be sure. At least one token is drafted. Exact face: ``theory.windows.confidence``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.windows import DraftView, Window, require_maximum, some_draft
from theory.windows.scalars import probability


@dataclass(frozen=True)
class ConfidenceWindow(Window):
    """Stop after a token x with q(x) < ``threshold``."""

    maximum: int
    threshold: float = 0.4
    name = "confidence"
    reads_plain = True

    def __post_init__(self) -> None:
        require_maximum(self.maximum)
        probability(self.threshold, "threshold")

    def goes_on(self, view: DraftView) -> NDArray[np.bool_]:
        return some_draft(view.probability(view.drafted - 1) >= self.threshold)
