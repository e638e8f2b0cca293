"""SVIP (arXiv 2411.18462): stop after a token drawn from a row of high entropy; it is kept.

Entropy is that of the row before temperature and filters (at temperature 0 a row would have none
and drafting never end). At least one token is drafted. Exact face: ``theory.windows.svip``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.windows import DraftView, Window, entropy, require_maximum, some_draft
from theory.windows.svip import SCALE


@dataclass(frozen=True)
class SVIPWindow(Window):
    """Stop after a token whose row has sqrt(``scale`` Ent(q)) > ``threshold``."""

    maximum: int
    threshold: float = 0.3
    scale: float = float(Fraction(SCALE))
    name = "svip"
    reads_plain = True

    def __post_init__(self) -> None:
        require_maximum(self.maximum)

    def goes_on(self, view: DraftView) -> NDArray[np.bool_]:
        doubt = (self.scale * entropy(view.plain[view.drafted - 1])).sqrt()
        return some_draft(doubt <= self.threshold)
