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

from gpu_runtime.drafters.proposals import Outcome, Proposal, TreeProposal
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


class DraftSession(Protocol):
    """A drafter at work on one batch."""

    def propose(self, requests: Sequence[Request], limits: Ints) -> Proposal | TreeProposal:
        """Draft at most ``limits`` [B] tokens for each request (nodes, of a tree)."""
        ...

    def accept(self, outcome: Outcome) -> None:
        """The round is decided; the requests are extended after this."""
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


class Drafter:
    """A source of drafts; the base class fits any target.

    Attributes:
        name: in the catalogue of drafters.
        fills: it always has as many tokens as the window asks for.
        trees: it proposes trees, for verifiers of trees.
    """

    name: str = "drafter"
    fills: bool = False
    trees: bool = False

    def open(self, requests: Sequence[Request], setting: Setting) -> DraftSession:
        """Start on a batch of requests (their prompts are in ``sequence``)."""
        raise NotImplementedError

    def check(self, target: Any, length: int) -> None:
        """Raise ValueError where this drafter cannot draft for ``target`` up to ``length``."""

    def fits(self, window: Window, num_drafts: int) -> None:
        """Raise ValueError where this drafter cannot follow a window or draw several drafts."""

    def overhang(self, gamma: int) -> int:
        """Tokens that it may draft beyond what is still wanted."""
        return 0

    def nodes(self, gamma: int, num_drafts: int) -> int:
        """Most nodes of a round's proposal, whatever the window."""
        return gamma * num_drafts


def nothing(setting: Setting, batch: int, lengths: Ints) -> Proposal:
    """The empty proposal, g = 0."""
    shape = (batch, setting.num_drafts, 0)
    drafts = torch.zeros(shape, dtype=torch.long, device=setting.device)
    log_q = torch.zeros((*shape, setting.width), dtype=setting.dtype, device=setting.device)
    return Proposal(drafts, log_q, lengths)
