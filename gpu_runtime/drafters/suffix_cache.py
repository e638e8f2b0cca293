"""The cache of SuffixDecoding: an index of each live request, and one of all requests' outputs.

The *local* index holds a request's prompt and output and goes when the request ends. The *shared*
index holds outputs (never prompts), of live requests too; it is off unless asked for, because it
lets one request's text shape another's drafts. What it holds is bounded by requests or by bytes,
oldest request first. The better score wins, the local draft a tie.

Interface and drafts are those of ``SuffixDecodingCache`` in snowflakedb/ArcticInference, with ids
handed out here and the bound in bytes added.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runtime.drafters.suffix_draft import Limits, SuffixDraft, speculate
from gpu_runtime.drafters.suffix_index import SuffixIndex

SLACK = 0.75
"""Once the shared index is full it is emptied to this share, so that making room is rare."""


class SuffixCache:
    """Local indexes and, if asked for, the shared one.

    Args:
        requests: most requests held by the shared index; None: no limit, 0: no shared index.
        max_bytes: most memory of the shared index.

    Raises:
        ValueError: a negative bound.
    """

    def __init__(self, requests: int | None = 0, max_bytes: int | None = None) -> None:
        if (requests or 0) < 0 or (max_bytes or 0) < 0:
            raise ValueError(f"requests {requests}, max_bytes {max_bytes} must not be negative")
        self.shared = SuffixIndex()
        self._requests, self._max_bytes = requests, max_bytes
        self._local: dict[int, SuffixIndex] = {}
        self._held: dict[int, None] = {}
        self._next = 0

    @property
    def active(self) -> int:
        """Requests that were started and not stopped."""
        return len(self._local)

    @property
    def held(self) -> tuple[int, ...]:
        """Requests whose output is in the shared index, oldest first."""
        return tuple(self._held)

    def start(self, prompt: Sequence[int]) -> int:
        """Begin a request; its number."""
        request, self._next = self._next, self._next + 1
        self._local[request] = SuffixIndex()
        self._local[request].append(0, prompt)
        if self._requests != 0:
            self._held[request] = None
            self.shared.append(request, ())
            while self._requests is not None and len(self._held) > self._requests:
                self._evict()
        return request

    def append(self, request: int, tokens: Sequence[int]) -> None:
        """Add to a request's output.

        Raises:
            ValueError: the request is not live.
        """
        self._live(request).append(0, tokens)
        if request not in self._held:
            return
        self.shared.append(request, tokens)
        if self._max_bytes is not None and self.shared.nbytes > self._max_bytes:
            while self._held and self.shared.live_bytes > SLACK * self._max_bytes:
                self._evict()
            self.shared.compact()

    def stop(self, request: int) -> None:
        """End a request; its output stays in the shared index until it is evicted.

        Raises:
            ValueError: the request is not live.
        """
        self._live(request)
        del self._local[request]

    def speculate(
        self, request: int, context: Sequence[int], limits: Limits, tree: bool = False
    ) -> SuffixDraft:
        """The better of the local and the shared draft.

        Raises:
            ValueError: the request is not live.
        """
        local = speculate(self._live(request), context, limits, tree)
        if not self._held:
            return local
        shared = speculate(self.shared, context, limits, tree)
        return local if local.score >= shared.score else shared

    def _live(self, request: int) -> SuffixIndex:
        if request not in self._local:
            raise ValueError(f"request {request} is not live; start it first")
        return self._local[request]

    def _evict(self) -> None:
        oldest = next(iter(self._held))
        del self._held[oldest]
        self.shared.remove(oldest)
