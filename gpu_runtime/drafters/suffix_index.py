"""Where a string has occurred: a log of token sequences that answers like a trie of their suffixes.

SuffixDecoding (arXiv 2411.04975) counts, for every string s of at most ``depth`` tokens, how often
it occurs; a child of s is a token that has followed it. A trie stores these counts; here they are
computed from the occurrences themselves. Tokens lie in one log in the order of their arrival, each
with links to its neighbours in its own sequence, and every token has the list of its places:

    occurrences of the last m tokens = those of the last m - 1 whose left neighbour fits

so appending costs O(1) and a token about 18 bytes (a trie of the same counts: several hundred),
and a look-up walks through the occurrences of the last token. Sequences may grow side by side;
removed ones leave gaps until ``compact``. Derived here.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]

PER_ENTRY, PER_TOKEN, PER_SEQUENCE = 18, 232, 120
"""Bytes of a log entry (three links and a place, with slack), of a distinct token's list of places
and of a sequence."""
GONE = -1
FEW = 8
"""So few occurrences are followed one by one."""


@dataclass(frozen=True)
class Matches:
    """Occurrences of the last m tokens of a context, for every m with a continuation.

    Attributes:
        many: for m = 1, 2, ..: places of the last token, while there were many.
        few, lengths: the places left then, and how many tokens match at each.
        longest: the largest m; 0 if nothing matches.
    """

    many: list[Places]
    few: Places
    lengths: NDArray[np.int64]
    longest: int

    def at(self, m: int) -> Places:
        """Places of the last token of the occurrences of the last m tokens."""
        return self.many[m - 1] if m <= len(self.many) else self.few[self.lengths >= m]


def _ended(many: list[Places]) -> Matches:
    few, lengths = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
    return Matches(many, few, lengths, len(many))


class SuffixIndex:
    """Sequences of tokens, appended to and removed, and the occurrences of strings in them."""

    def __init__(self) -> None:
        self._tokens, self._before, self._after = array("i"), array("i"), array("i")
        self._places: dict[int, array[int]] = {}
        self._ends: dict[int, int] = {}
        self._live = 0

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes (an upper bound; gaps included)."""
        return (
            PER_ENTRY * len(self._tokens)
            + PER_TOKEN * len(self._places)
            + PER_SEQUENCE * len(self._ends)
        )

    @property
    def live_bytes(self) -> int:
        """What would be left of ``nbytes`` by compacting the log."""
        return self.nbytes - PER_ENTRY * (len(self._tokens) - self._live)

    def append(self, sequence: int, tokens: Sequence[int]) -> None:
        """Append tokens to a sequence, which is made if it is new."""
        end = self._ends.get(sequence, -1)
        for token in tokens:
            place = len(self._tokens)
            self._tokens.append(token)
            self._before.append(end)
            self._after.append(-1)
            if end >= 0:
                self._after[end] = place
            places = self._places.get(token)
            if places is None:
                places = self._places[token] = array("i")
            places.append(place)
            end = place
        self._live += len(tokens)
        self._ends[sequence] = end

    def remove(self, sequence: int) -> None:
        """Forget a sequence."""
        place = self._ends.pop(sequence)
        while place >= 0:
            self._tokens[place] = GONE
            place = self._before[place]
            self._live -= 1

    def compact(self) -> None:
        """Close the gaps of removed sequences."""
        tokens, before, after = self.arrays()
        live = np.flatnonzero(tokens != GONE)
        number = np.full(len(tokens) + 1, -1, dtype=np.int32)  # the last entry serves -1
        number[live] = np.arange(len(live), dtype=np.int32)
        kept = tokens[live]
        links = number[before[live]], number[after[live]]
        order = np.argsort(kept, kind="stable").astype(np.int32)
        cuts = np.flatnonzero(np.diff(kept[order])) + 1
        groups = np.split(order, cuts) if len(kept) else []
        self._ends = {s: int(number[end]) for s, end in self._ends.items()}
        self._places = {int(kept[group[0]]): array("i", group.tobytes()) for group in groups}
        self._tokens = array("i", kept.tobytes())
        self._before, self._after = (array("i", link.tobytes()) for link in links)

    def arrays(self) -> tuple[Places, Places, Places]:
        """Views of the log: tokens, left and right neighbours (-1: none). Append only when they
        are no longer in use."""
        if not self._tokens:
            return tuple(np.empty(0, dtype=np.int32) for _ in range(3))  # type: ignore[return-value]
        logs = self._tokens, self._before, self._after
        return tuple(np.frombuffer(log, dtype=np.int32) for log in logs)  # type: ignore[return-value]

    def matches(self, context: Sequence[int]) -> Matches:
        """Occurrences of the last m tokens, m < len(context), while one of them goes on."""
        listed = self._places.get(context[-1]) if context else None
        if listed is None:
            return _ended([])
        tokens, before, after = self.arrays()
        here: Places = np.array(listed)
        here = here[tokens[here] != GONE]
        first = here
        many: list[Places] = []
        while len(many) + 1 < len(context) and len(here) > FEW:
            many.append(here)
            first = before[first]
            fits = (first >= 0) & (tokens[first] == context[-len(many) - 1])
            here, first = here[fits], first[fits]
        shorter = [places for places in many if (after[places] >= 0).any()]
        if len(shorter) < len(many) or len(many) + 1 == len(context):
            return _ended(shorter)
        lengths = self._lengths(context, first.tolist(), len(many) + 1)
        onward = lengths[after[here] >= 0]
        return Matches(many, here, lengths, int(onward.max(initial=len(many))))

    def _lengths(self, context: Sequence[int], first: list[int], known: int) -> NDArray[np.int64]:
        """How many tokens match at each place; ``known`` of them are known to."""
        tokens, before, most = self._tokens, self._before, len(context) - 1
        lengths = []
        for place in first:
            length, earlier = known, before[place]
            while length < most and earlier >= 0 and tokens[earlier] == context[-length - 1]:
                length, earlier = length + 1, before[earlier]
            lengths.append(length)
        return np.array(lengths, dtype=np.int64)

    def run(self, place: int, most: int) -> list[int]:
        """Up to ``most`` tokens that follow a place in its sequence."""
        found: list[int] = []
        while len(found) < most and (place := self._after[place]) >= 0:
            found.append(self._tokens[place])
        return found
