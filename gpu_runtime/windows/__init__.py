"""Windows: when a drafter stops drafting.

A window is asked before each token is drawn. It may look at the draft rows and tokens so far, the
row of the token in question included, but not at the token itself: a token that was drawn is
always verified, otherwise the output law changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpu_runtime.requests import Request


@dataclass(frozen=True)
class DraftView:
    """What a window may see: ``rows`` are i + 1 log-laws [B, K, V], the last one that of the token
    to be drawn; ``drafts`` [B, K, i] the tokens drawn so far."""

    requests: Sequence[Request]
    rows: Sequence[Tensor]
    drafts: Tensor


class Window(Protocol):
    """A stopping rule for drafting. ``maximum`` bounds it and fixes the layout of the tape."""

    @property
    def name(self) -> str: ...

    @property
    def maximum(self) -> int: ...

    def wants(self, view: DraftView) -> NDArray[np.bool_] | None:
        """Whether each request drafts one more token, [B]; None for all of them."""
        ...

    def observe(self, requests: Sequence[Request]) -> None:
        """Learn from a finished round (the last entries of the requests' records)."""
        ...
