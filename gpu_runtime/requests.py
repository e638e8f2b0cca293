"""One request of a batch: what it asked for, what it has written, how its rounds went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gpu_runtime.penalties import Context


@dataclass
class Request:
    """State of one request.

    Attributes:
        index: place in the caller's list of prompts.
        key: (seed, request id), the key of its random streams.
        sequence: prompt and committed output.
        prompt_length: how many tokens of ``sequence`` are the prompt.
        drafted, accepted, emitted: per round; ``accepted`` is tau as the verifier decided it,
            ``emitted`` what was kept after end-of-sequence, stops and the budget.
        finish: "eos", "stop" or "length" once it has ended.
        text: the output's text before a stop string, where one ended it.
        notes: what windows and drafters keep about it; it ends with the request.
    """

    index: int
    key: tuple[int, int]
    sequence: list[int]
    prompt_length: int
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    emitted: list[int] = field(default_factory=list)
    finish: str | None = None
    text: str | None = None
    seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> list[int]:
        return self.sequence[self.prompt_length :]

    @property
    def written(self) -> int:
        """Number of output tokens so far."""
        return len(self.sequence) - self.prompt_length


def contexts(requests: Sequence[Request], drafted: Tensor, stop: Sequence[int]) -> Context:
    """The context of every row, for penalties: ``drafted`` [B, R, d] holds the tokens that stand
    between a request's committed text and each of its R rows, padded with -1."""
    rows, device = drafted.shape[1], drafted.device

    def spread(lists: list[list[int]]) -> Tensor:
        width = max(len(ids) for ids in lists)
        padded = [ids + [-1] * (width - len(ids)) for ids in lists]
        ids = torch.tensor(padded, dtype=torch.long, device=device)
        return ids.reshape(len(lists), 1, width).expand(-1, rows, -1)

    prompt = spread([request.sequence[: request.prompt_length] for request in requests])
    output = spread([request.output for request in requests])
    return Context(prompt, torch.cat([output, drafted], dim=-1), tuple(stop))
