"""Windows: when a drafter stops drafting.

A window sees the draft rows and the tokens so far, and is asked twice for each token: ``goes_on``
once the token before it was drawn (its own row does not exist yet, and need not be computed), and
``wants`` with the row that it would be drawn from. Nothing is asked about a token that was drawn
already: what was drawn is verified, whatever it is, otherwise the output law changes. ``limits``
bounds a round beforehand, so that a drafter spends no step on tokens that nobody will verify.

Windows are settings and keep no state; what they learn of a request is kept in its ``notes`` and
ends with it, so that neither the batch nor an earlier call has a say in it. With several drafts a
round goes on as long as one of them would: the drafts of a request have equal lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_runtime.requests import Request

State = TypeVar("State")


@dataclass(frozen=True)
class DraftView:
    """What a window may see; lists are by position, ``drafted`` tokens are drawn.

    Attributes:
        requests: of the batch [B].
        rows: log-laws [B, K, V] that tokens are drawn from, up to the last one computed.
        plain: the same before temperature and filters, where the window's ``reads_plain`` asks for
            them: one-hot and filtered rows say nothing about how sure the draft is.
        drafts: tokens [B, K, drafted].
        hidden: hidden states [B, K, d] of the draft model behind the rows, where the window's
            ``reads_hidden`` asks for them.
    """

    requests: Sequence[Request]
    rows: Sequence[Tensor]
    plain: Sequence[Tensor]
    drafts: Tensor
    hidden: Sequence[Tensor] = ()

    @property
    def drafted(self) -> int:
        return int(self.drafts.shape[-1])

    def probability(self, position: int) -> Tensor:
        """The draft's own (plain) probability of a drafted token, [B, K]."""
        token = self.drafts[..., position].to(self.plain[position].device)
        return self.plain[position].gather(-1, token[..., None]).squeeze(-1).exp()

    def states(self, name: str, start: State) -> list[State]:
        """What a window noted about each request, ``start`` for new ones."""
        return [request.notes.get(name, start) for request in self.requests]


class Window:
    """A stopping rule for drafting; the base class drafts ``maximum`` tokens.

    Attributes:
        name: in the catalogue of windows.
        maximum: bounds every round and fixes the layout of the tape.
        planned: the length of a round is known before it is drafted.
        full: every round drafts ``maximum`` tokens (or all that the budget leaves).
        reads_plain: needs the draft rows before temperature and filters.
        reads_hidden: needs the draft model's hidden states.
    """

    name: str = "window"
    maximum: int
    planned: bool = False
    full: bool = False
    reads_plain: bool = False
    reads_hidden: bool = False

    def limits(self, requests: Sequence[Request]) -> NDArray[np.int64]:
        """Most tokens to draft in this round, [B]."""
        return np.full(len(requests), self.maximum, dtype=np.int64)

    def goes_on(self, view: DraftView) -> NDArray[np.bool_] | None:
        """Whether to draft on after the last drawn token, [B]; None for yes."""
        return None

    def wants(self, view: DraftView) -> NDArray[np.bool_] | None:
        """Whether to draw a token from the last row, [B]; None for yes."""
        return None

    def observe(self, requests: Sequence[Request]) -> None:
        """Learn from a finished round (the last entries of the requests' records)."""


def require_maximum(maximum: int) -> None:
    """Check a window's largest length.

    Raises:
        ValueError: negative.
    """
    if maximum < 0:
        raise ValueError(f"gamma {maximum} is negative; use 0 (no drafts) or more")


def require_floor(floor: int) -> None:
    """Check the number of tokens that are drafted unasked.

    Raises:
        ValueError: below 1.
    """
    if floor < 1:
        raise ValueError(f"floor {floor} lets the window close for good; use 1 or more")


def entropy(log_rows: Tensor) -> Tensor:
    """Shannon entropy in nats over the last axis, float64."""
    logs = log_rows.double()
    return -(logs.exp() * logs.clamp(min=torch.finfo(torch.float64).min)).sum(-1)


def some_draft(condition: Tensor) -> NDArray[np.bool_]:
    """Whether it holds on one of the drafts: [B, K] to [B] on the host."""
    return np.asarray(condition.any(dim=1).cpu().numpy(), dtype=np.bool_)


def note(
    requests: Sequence[Request], name: str, start: State, update: Callable[[State, Request], State]
) -> None:
    """Update what is noted about each request; a round without drafts teaches nothing."""
    for request in requests:
        if request.drafted[-1]:
            request.notes[name] = update(request.notes.get(name, start), request)
