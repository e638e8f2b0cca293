"""SuffixDecoding (Oliaro et al. 2024, 2411.04975): drafts from where the text has been before.

Contexts of every length are matched against the request's own text and, with a shared cache,
against the outputs of other requests; the most frequent continuation is drafted, for as long as
its estimated probability stays above ``least`` (``suffix_draft``). Each batch gets caches of its
own unless one is passed: a shared cache makes a request's drafts, and at temperatures above 0 its
sampled text, depend on what was served before. The law of the text stays the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch

from gpu_runtime.drafters import Drafter, Setting
from gpu_runtime.drafters.proposals import TreeProposal
from gpu_runtime.drafters.sources import SourceSession, known_tokens
from gpu_runtime.drafters.suffix_cache import SuffixCache
from gpu_runtime.drafters.suffix_draft import Limits, SuffixDraft
from gpu_runtime.kv_cache import Ints
from gpu_runtime.requests import Request


class Cache(Protocol):
    """What the drafter needs of a cache: ``SuffixCache`` or ``arctic.ArcticCache``."""

    def start(self, prompt: Sequence[int]) -> int: ...

    def append(self, request: int, tokens: Sequence[int]) -> None: ...

    def stop(self, request: int) -> None: ...

    def speculate(
        self, request: int, context: Sequence[int], limits: Limits, tree: bool = False
    ) -> SuffixDraft: ...


class SuffixSource:
    """One request's place in a cache."""

    def __init__(self, cache: Cache, request: Request, limits: Limits) -> None:
        self._cache, self._limits = cache, limits
        self._number = cache.start(request.sequence)
        self._read = len(request.sequence)

    def best(self, sequence: Sequence[int], most: int, tree: bool = False) -> SuffixDraft:
        """The best draft of up to ``most`` tokens, with its score."""
        self._catch_up(sequence)
        limits = replace(self._limits, most=most)
        return self._cache.speculate(self._number, sequence[-limits.depth :], limits, tree)

    def draft(self, sequence: Sequence[int], most: int) -> list[int]:
        return self.best(sequence, most).tokens

    def close(self, sequence: Sequence[int]) -> None:
        """Leave the cache; a shared one keeps the output."""
        self._catch_up(sequence)
        self._cache.stop(self._number)

    def _catch_up(self, sequence: Sequence[int]) -> None:
        if len(sequence) > self._read:
            self._cache.append(self._number, sequence[self._read :])
            self._read = len(sequence)


@dataclass(frozen=True)
class SuffixDrafter(Drafter):
    """Draft the likeliest continuation of the longest useful match.

    Attributes:
        cache: shared by all requests of all calls that use it; None for a private one.
        limits: depth, budget and least probability of drafts (the window bounds their tokens).
        tree: draft a tree of likely continuations instead of the likeliest path.
    """

    cache: Cache | None = None
    limits: Limits = field(default_factory=Limits)
    tree: bool = False
    name = "suffix"

    @property
    def trees(self) -> bool:  # type: ignore[override]
        return self.tree

    def open(self, requests: Sequence[Request], setting: Setting) -> SourceSession[SuffixSource]:
        cache = SuffixCache() if self.cache is None else self.cache
        session = SuffixTreeSession if self.tree else SourceSession
        return session(requests, setting, lambda request: SuffixSource(cache, request, self.limits))


class SuffixTreeSession(SourceSession[SuffixSource]):
    """Trees of a batch, each of its own shape."""

    def propose(self, requests: Sequence[Request], limits: Ints) -> TreeProposal:  # type: ignore[override]
        drafts = [
            source.best(request.sequence, most, tree=True) if most else SuffixDraft()
            for source, request, most in zip(self.sources, requests, limits.tolist(), strict=True)
        ]
        longest = max(len(draft.tokens) for draft in drafts)
        ids = np.full((len(drafts), longest), -1, dtype=np.int64)
        above = np.full_like(ids, -1)
        for row, draft in enumerate(drafts):
            known_tokens(draft.tokens, self._setting)
            ids[row, : len(draft.tokens)] = draft.tokens
            above[row, : len(draft.tokens)] = draft.parents
        return TreeProposal(torch.from_numpy(ids).to(self._setting.device), above)
