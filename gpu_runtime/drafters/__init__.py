"""Drafters: where drafts come from.

A ``Drafter`` opens a ``DraftSession`` for a batch of requests. Each round the engine asks for a
``Proposal``, verifies it, and reports how much of which branch was kept. The rows of a proposal
are the laws that its tokens were really drawn from, after temperature and filters; a drafter that
does not sample (a look-up) gives point masses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from gpu_runtime.kv_cache import Ints
from gpu_runtime.requests import Request
from gpu_runtime.sampling import Processor
from gpu_runtime.windows import Window


@dataclass(frozen=True)
class Setting:
    """What a drafter needs to know of the engine that it works for.

    Attributes:
        processor: the sampling operator, shared with the target.
        window: when to stop drafting.
        num_drafts: drafts a round (K), drawn independently.
        width: tokens in a row (V); the target's.
        dtype, device: of the rows.
        capacity: the longest sequence, drafts included.
        stop: ids that end a request.
    """

    processor: Processor
    window: Window
    num_drafts: int
    width: int
    dtype: torch.dtype
    device: torch.device
    capacity: int
    stop: tuple[int, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """Drafts of one round: ``drafts`` [B, K, g] ids (-1 beyond ``lengths``), ``log_q``
    [B, K, g, V] the laws that they were drawn from, ``lengths`` [B] tokens drafted."""

    drafts: Tensor
    log_q: Tensor
    lengths: Ints


class DraftSession(Protocol):
    """A drafter at work on one batch."""

    def propose(self, requests: Sequence[Request], limits: Ints) -> Proposal:
        """Draft at most ``limits`` [B] tokens for each request."""
        ...

    def accept(self, branch: Ints, accepted: Ints) -> None:
        """The first ``accepted`` [B] tokens of draft ``branch`` [B] were kept."""
        ...

    def select(self, rows: Ints) -> None:
        """Go on with these rows of the batch only."""
        ...

    def mark(self) -> Any:
        """The state to come back to if the round fails."""
        ...

    def rewind(self, mark: Any) -> None:
        """Return to a mark."""
        ...

    def close(self) -> None:
        """The batch is over, or was given up."""
        ...


class Drafter(Protocol):
    """A source of drafts; ``fills``: it always has as many tokens as the window asks for."""

    @property
    def name(self) -> str: ...

    @property
    def fills(self) -> bool: ...

    def open(self, requests: Sequence[Request], setting: Setting) -> DraftSession:
        """Start on a batch of requests (their prompts are in ``sequence``)."""
        ...

    def check(self, target: Any, length: int) -> None:
        """Raise ValueError where this drafter cannot draft for ``target`` up to ``length``."""
        ...


def nothing(setting: Setting, batch: int, lengths: Ints) -> Proposal:
    """The empty proposal, g = 0."""
    shape = (batch, setting.num_drafts, 0)
    drafts = torch.zeros(shape, dtype=torch.long, device=setting.device)
    log_q = torch.zeros((*shape, setting.width), dtype=setting.dtype, device=setting.device)
    return Proposal(drafts, log_q, lengths)
