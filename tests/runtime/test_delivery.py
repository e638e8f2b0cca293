"""Tokens as they come, and what is left when a round fails."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from gpu_runtime.engine import DecodingError, decode
from gpu_runtime.requests import Request
from sim.verifiers import Verdict
from tests.runtime.tools import PROMPTS, Forced, pair


def test_the_stream_brings_every_token_once_and_says_which_are_the_last() -> None:
    target, draft = pair()
    parts: dict[int, list[int]] = {}
    ends: dict[int, str | None] = {}

    def stream(request: Request, tokens: Sequence[int]) -> None:
        assert ends.get(request.index) is None
        assert len(tokens) == request.emitted[-1] > 0
        parts.setdefault(request.index, []).extend(tokens)
        ends[request.index] = request.finish

    common: dict[str, Any] = {"max_new_tokens": 20, "eos": 1, "stop_strings": ["2 0"]}
    got = decode(target, draft, PROMPTS, seeds=3, stream=stream, **common)
    assert [parts[i] for i in range(3)] == [g.tokens for g in got]
    assert [ends[i] for i in range(3)] == [g.finish for g in got]


def failing_after(rounds: int, error: Exception) -> Forced:
    """Accept nothing, emit token 1, and fail after some rounds."""
    left = iter(range(rounds))

    def decide(log_p: torch.Tensor, *_: Any) -> Verdict:
        if next(left, None) is None:
            raise error
        zero = torch.zeros(len(log_p), dtype=torch.long)
        return Verdict(zero, zero, zero + 1)

    return Forced(decide)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("the device is gone"), "the device is gone"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out of memory with 2 requests of up to 8"),
        (MemoryError(), "lower the number of prompts, gamma, num_drafts or max_new_tokens"),
    ],
)
def test_what_was_written_survives_a_failure(error: Exception, message: str) -> None:
    target, draft = pair()
    with pytest.raises(DecodingError, match=message) as caught:
        decode(target, draft, [[0, 1, 2, 3, 0], [3]], verifier=failing_after(3, error))
    assert [g.tokens for g in caught.value.generations] == [[1, 1, 1]] * 2
    assert {g.finish for g in caught.value.generations} == {"unfinished"}
    assert caught.value.__cause__ is error
    with pytest.raises(DecodingError) as caught:
        decode(target, draft, [[0]], verifier=failing_after(0, error))
    assert caught.value.generations[0].tokens_per_call == 0


def test_a_finished_output_is_not_lost_to_another_requests_failure() -> None:
    target, draft = pair()

    def decide(log_p: torch.Tensor, *_: Any) -> Verdict:
        if len(log_p) == 1:
            raise RuntimeError("request 1 cannot go on")
        zero = torch.zeros(2, dtype=torch.long)
        return Verdict(zero, zero, torch.tensor([2, 1]))  # request 0 ends here

    with pytest.raises(DecodingError, match="cannot go on") as caught:
        decode(target, draft, [[0], [3]], verifier=Forced(decide), eos=2)
    first, second = caught.value.generations
    assert (first.tokens, first.finish) == ([2], "eos")
    assert (second.tokens, second.finish) == ([1], "unfinished")
