"""What decoding returns, and what is left when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gpu_runtime.models import LanguageModel
from gpu_runtime.requests import Request


@dataclass(frozen=True)
class Generation:
    """The output of one request.

    Attributes:
        tokens: output ids, end-of-sequence or stop token included.
        finish: "eos", "stop" (a stop token or string), "length", or "unfinished" after a failure.
        accepted: tau of each round, as the verifier decided it.
        drafted: drafted tokens of each round (on each of the K branches).
        emitted: tokens kept of each round, after end-of-sequence, stops and the budget.
        prompt_tokens: length of the prompt.
        seconds: from the start of the batch, prompt included, to the request's end.
        text: the decoded output (before a stop string), if the target has a tokenizer.
    """

    tokens: list[int]
    finish: str
    accepted: list[int]
    drafted: list[int]
    emitted: list[int]
    prompt_tokens: int
    seconds: float
    text: str | None

    @property
    def tokens_per_call(self) -> float:
        """Emitted tokens per target call; the call that only reads the prompt is not counted."""
        return len(self.tokens) / max(1, len(self.emitted))

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted per drafted token on the kept branch; None if nothing was drafted."""
        drafted = sum(self.drafted)
        return sum(self.accepted) / drafted if drafted else None


class DecodingError(ValueError):
    """A round failed. ``generations`` holds what every request had written until then: finished
    ones whole, the others up to their last complete round, with finish "unfinished"."""

    def __init__(self, message: str, generations: Sequence[Generation]) -> None:
        super().__init__(message)
        self.generations = list(generations)


def collected(requests: Sequence[Request], target: LanguageModel) -> list[Generation]:
    """The outputs of a batch."""
    return [_generation(request, target) for request in requests]


def failure(error: Exception, requests: Sequence[Request], target: LanguageModel) -> DecodingError:
    """The error to raise in place of ``error``; out of memory, it says what to lower."""
    message = str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        longest = max(len(request.sequence) for request in requests)
        message = (
            f"out of memory with {len(requests)} requests of up to {longest} tokens; lower the "
            "number of prompts, gamma, num_drafts or max_new_tokens, or use a smaller dtype"
        )
    return DecodingError(message, collected(requests, target))


def _generation(request: Request, target: LanguageModel) -> Generation:
    text = request.text
    if text is None and target.tokenizer is not None:
        text = target.decode(request.output)
    return Generation(
        request.output,
        request.finish or "unfinished",
        request.accepted,
        request.drafted,
        request.emitted,
        request.prompt_length,
        request.seconds,
        text,
    )
