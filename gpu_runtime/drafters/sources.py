"""Drafters that write without a model: a source of paths for each request, drafted as point masses.

A *source* reads the committed tokens of one request and answers with a path: a function of the
text (and of what it was told before), so its law is a point mass and any verifier of drafts keeps
the output exact: a drafted x is kept with probability p(x). Windows that read draft rows find
them certain and never stop; ``limits`` holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch

from gpu_runtime.drafters import Setting, nothing
from gpu_runtime.drafters.proposals import Outcome, Proposal
from gpu_runtime.kv_cache import Ints
from gpu_runtime.requests import Request


class Source(Protocol):
    """Drafts for one request."""

    def draft(self, sequence: Sequence[int], most: int) -> list[int]:
        """Up to ``most`` tokens to follow the committed ones."""
        ...

    def close(self, sequence: Sequence[int]) -> None:
        """The request has ended with these tokens; nothing of it may stay behind unasked."""
        ...


AnySource = TypeVar("AnySource", bound=Source)


class SourceSession(Generic[AnySource]):
    """The sources of a batch."""

    def __init__(
        self,
        requests: Sequence[Request],
        setting: Setting,
        open_source: Callable[[Request], AnySource],
    ) -> None:
        self._setting = setting
        self._requests = list(requests)
        self.sources = [open_source(request) for request in requests]

    def propose(self, requests: Sequence[Request], limits: Ints) -> Proposal:
        paths = [
            source.draft(request.sequence, most) if most else []
            for source, request, most in zip(self.sources, requests, limits.tolist(), strict=True)
        ]
        return point_masses(paths, self._setting)

    def accept(self, outcome: Outcome) -> None:
        """Sources read what was kept from the request itself."""

    def select(self, rows: Ints) -> None:
        kept = set(rows.tolist())
        for row, (source, request) in enumerate(zip(self.sources, self._requests, strict=True)):
            if row not in kept:
                source.close(request.sequence)
        self.sources = [self.sources[row] for row in rows]
        self._requests = [self._requests[row] for row in rows]

    def mark(self) -> Any:
        """Sources hold committed tokens only."""

    def rewind(self, mark: Any) -> None:
        """Nothing to undo."""

    def close(self) -> None:
        self.select(np.zeros(0, dtype=np.int64))


def point_masses(paths: Sequence[Sequence[int]], setting: Setting) -> Proposal:
    """Paths as drafts with one-hot rows, the same on each of the K branches.

    Raises:
        ValueError: a token that the target does not know.
    """
    lengths = np.array([len(path) for path in paths], dtype=np.int64)
    longest = int(lengths.max(initial=0))
    for path in paths:
        known_tokens(path, setting)
    if longest == 0:
        return nothing(setting, len(paths), lengths)
    padded = [[*path, *[-1] * (longest - len(path))] for path in paths]
    drafts = torch.tensor(padded, dtype=torch.long, device=setting.device)
    drafts = drafts[:, None].expand(-1, setting.num_drafts, -1)
    log_q = one_hot(drafts, setting)
    return Proposal(drafts, log_q, lengths)


def known_tokens(path: Sequence[int], setting: Setting) -> None:
    """Check that the target knows the tokens of a draft.

    Raises:
        ValueError: it does not.
    """
    largest = max(path, default=0)
    if largest >= setting.width:
        raise ValueError(
            f"a draft holds token {largest}, but the target has {setting.width}; keep a cache for "
            "each tokenizer"
        )


def one_hot(tokens: torch.Tensor, setting: Setting) -> torch.Tensor:
    """Log-rows [..., V] that are certain of ``tokens`` [...] (padding counts as token 0)."""
    shape = (*tokens.shape, setting.width)
    rows = torch.full(shape, -torch.inf, dtype=setting.dtype, device=setting.device)
    return rows.scatter_(-1, tokens.clamp(min=0)[..., None], 0.0)
