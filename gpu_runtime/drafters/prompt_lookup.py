"""Prompt lookup: what followed the last n tokens when they last occurred.

Suffix lengths n are tried from ``longest`` down to ``shortest``; the latest earlier occurrence
counts, never the suffix itself, and the continuation ends where the text does. Every n-gram is
filed under the place after it as soon as that place exists, so a look-up takes O(1) per n however
long the text is.

Source: Saxena 2023 (prompt lookup decoding); transformers' ``prompt_lookup_num_tokens``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runtime.drafters import Drafter, Setting
from gpu_runtime.drafters.sources import SourceSession
from gpu_runtime.requests import Request


class NgramSource:
    """The n-grams of one request's text, and the places after their latest occurrences."""

    def __init__(self, longest: int, shortest: int) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self._after: dict[tuple[int, ...], int] = {}
        self._read = 1

    def draft(self, sequence: Sequence[int], most: int) -> list[int]:
        """Up to ``most`` tokens that followed the longest suffix seen before."""
        for end in range(self._read, len(sequence)):
            for size in self._sizes:
                if size <= end:
                    self._after[tuple(sequence[end - size : end])] = end
        self._read = max(self._read, len(sequence))
        for size in self._sizes:
            place = self._after.get(tuple(sequence[-size:]))
            if place is not None and size <= len(sequence):
                return list(sequence[place : place + most])
        return []

    def close(self, sequence: Sequence[int]) -> None:
        """Nothing outlives the request."""


@dataclass(frozen=True)
class PromptLookupDrafter(Drafter):
    """Draft by the latest earlier occurrence of the last ``longest`` to ``shortest`` tokens."""

    longest: int = 3
    shortest: int = 1
    name = "prompt_lookup"

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"n-grams of {self.shortest} to {self.longest} tokens; use 1 <= shortest <= longest"
            )

    def open(self, requests: Sequence[Request], setting: Setting) -> SourceSession[NgramSource]:
        return SourceSession(requests, setting, lambda _: NgramSource(self.longest, self.shortest))
