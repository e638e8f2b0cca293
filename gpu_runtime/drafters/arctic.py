"""The cache of ``arctic-inference`` (Snowflake), where it is installed, behind our interface.

It drafts the same as ``SuffixCache`` (ties aside once sequences were evicted) and is faster; it
bounds what it shares by requests, not by bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gpu_runtime.drafters.suffix_cache import SuffixCache
from gpu_runtime.drafters.suffix_draft import Limits, SuffixDraft


def available() -> bool:
    """Whether the package is installed."""
    try:
        return find_spec("arctic_inference.suffix_decoding") is not None
    except ModuleNotFoundError:
        return False


def best_cache(
    requests: int | None = 0, max_bytes: int | None = None, depth: int = 64
) -> ArcticCache | SuffixCache:
    """Arctic's cache where it is installed and knows the bound, else our own."""
    if available() and max_bytes is None:
        return ArcticCache(requests, depth)
    return SuffixCache(requests, max_bytes)


class ArcticCache:
    """``SuffixDecodingCache`` with ids handed out here.

    Args:
        requests: most requests held by the shared tree; None: no limit, 0: no shared tree.
        depth: of its trees; drafts must ask for the same.

    Raises:
        ValueError: the package is not installed.
    """

    def __init__(self, requests: int | None = 0, depth: int = 64) -> None:
        try:
            native = import_module("arctic_inference.suffix_decoding")
        except ImportError as error:
            raise ValueError(
                "Arctic's cache needs the package arctic-inference; install it, or use SuffixCache"
            ) from error
        self._cache: Any = native.SuffixDecodingCache(depth, -1 if requests is None else requests)
        self._depth, self._next = depth, 0

    def start(self, prompt: Sequence[int]) -> int:
        """Begin a request; its number."""
        request, self._next = self._next, self._next + 1
        self._cache.start_request(request, list(prompt))
        return request

    def append(self, request: int, tokens: Sequence[int]) -> None:
        """Add to a request's output."""
        self._cache.add_active_response(request, list(tokens))

    def stop(self, request: int) -> None:
        """End a request."""
        self._cache.stop_request(request)

    def speculate(
        self, request: int, context: Sequence[int], limits: Limits, tree: bool = False
    ) -> SuffixDraft:
        """The better of the local and the shared draft.

        Raises:
            ValueError: a depth that the trees do not have.
        """
        if limits.depth != self._depth:
            raise ValueError(f"depth {limits.depth} asked of trees of depth {self._depth}")
        found = self._cache.speculate(
            request,
            list(context),
            max_spec_tokens=limits.most,
            max_spec_factor=limits.factor,
            max_spec_offset=limits.offset,
            min_token_prob=limits.least,
            use_tree_spec=tree,
        )
        tokens = list(found.token_ids)
        return SuffixDraft(
            tokens,
            list(found.parents),
            list(found.probs),
            found.score,
            found.match_len if tokens else 0,
        )
