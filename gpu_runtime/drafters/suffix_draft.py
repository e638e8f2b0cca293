"""Drafts from occurrences: the likeliest continuation of a context, as a path or as a tree.

SuffixDecoding (arXiv 2411.04975): for every match length m, follow the most frequent token (path)
or expand nodes in order of estimated probability (tree), where a child's estimate is its parent's
times count(child)/count(parent); stop at ``factor * m + offset`` tokens or below the least
probability. The draft with the largest sum of estimates, an estimate of E[tau], is kept; the
longer match wins a tie.

Estimates are float32 and ties fall as in the official cache (snowflakedb/ArcticInference), so
that both give the same drafts: siblings of equal count stand in the order that their counts'
history left (:func:`sibling_order`), nodes of equal estimate leave the queue as C++'s binary heap
releases them (:class:`_Queue`). That history is lost for sequences that were removed; ties then
fall by what is left of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_runtime.drafters.suffix_index import Places, SuffixIndex

F32 = np.float32


@dataclass(frozen=True)
class SuffixDraft:
    """A drafted path or tree.

    Attributes:
        tokens: in an order in which parents come first.
        parents: number of each token's parent; -1 for continuations of the context.
        probabilities: estimated probability that the token is kept.
        score: their sum, an estimate of E[tau].
        matched: tokens of the context that the draft rests on; 0 for no draft.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    score: float = 0.0
    matched: int = 0


@dataclass(frozen=True)
class Limits:
    """How long a draft may be: ``depth`` bounds match and draft together, ``most`` the draft."""

    depth: int = 64
    most: int = 16
    factor: float = 1.0
    offset: float = 0.0
    least: float = 0.1

    def budget(self, matched: int) -> int:
        """Most tokens after a match."""
        allowed = float(F32(matched) * F32(self.factor) + F32(self.offset)) + 1e-6
        return max(min(self.most, int(allowed)), 0)


def speculate(
    index: SuffixIndex, context: Sequence[int], limits: Limits, tree: bool
) -> SuffixDraft:
    """The best draft for a context, of which the last ``depth`` tokens count."""
    context = context[-limits.depth :]
    matches = index.matches(context)
    grow = _grow_tree if tree else _grow_path
    best = SuffixDraft()
    for matched in range(matches.longest, 0, -1):
        if limits.budget(matched) <= best.score:
            break  # no estimate exceeds 1, and budgets shrink with the match
        draft = grow(index, matches.at(matched), matched, limits)
        if draft.score > best.score:
            best = draft
    return best


def _grow_path(index: SuffixIndex, here: Places, matched: int, limits: Limits) -> SuffixDraft:
    tokens, _, after = index.arrays()
    room = min(limits.budget(matched), limits.depth - matched)
    drafted: list[int] = []
    estimates: list[np.float32] = []
    estimate = F32(1)
    while len(drafted) < room:
        if len(here) == 1:
            run = index.run(int(here[0]), room - len(drafted))
            drafted += run
            estimates += [estimate] * len(run)
            break
        children = _children(after, here)
        if len(children) == 0:
            break
        heads = tokens[children]
        token = _favourite(heads.tolist())
        kept = children[heads == token]
        estimate = estimate * (F32(len(kept)) / F32(len(here)))
        if estimate < F32(limits.least):
            break
        drafted.append(token)
        estimates.append(estimate)
        here = kept
    parents = list(range(-1, len(drafted) - 1))
    return _draft(drafted, parents, estimates, matched)


def _grow_tree(index: SuffixIndex, here: Places, matched: int, limits: Limits) -> SuffixDraft:
    tokens, _, after = index.arrays()
    drafted: list[int] = []
    parents: list[int] = []
    estimates: list[np.float32] = []
    queue = _Queue()
    queue.push(_Node(F32(1), here, matched, -1))
    while len(drafted) < limits.budget(matched) and queue:
        node = queue.pop()
        if node.waiting:
            children = node.here
        else:
            children = _children(after, node.here) if node.depth < limits.depth else node.here[:0]
        heads = tokens[children]
        if len(heads) == len(node.here) and (heads == heads[0]).all():
            drafted.append(int(heads[0]))
            parents.append(node.parent)
            estimates.append(node.estimate)
            depth = node.depth + (not node.waiting)
            queue.push(_Node(node.estimate, children, depth, len(drafted) - 1))
            continue
        for token in sibling_order(heads.tolist()):
            kept = children[heads == token]
            estimate = node.estimate * F32(len(kept)) / F32(len(node.here))
            if estimate < F32(limits.least):
                break
            queue.push(_Node(estimate, kept, node.depth + 1, node.parent, waiting=True))
    return _draft(drafted, parents, estimates, matched)


def _children(after: Places, here: Places) -> Places:
    """Places of the tokens that followed, in order of arrival."""
    places = after[here]
    return np.sort(places[places >= 0])


def _favourite(heads: list[int]) -> int:
    """The most frequent token; the first of the siblings' list among equals."""
    counts = Counter(heads)
    most = max(counts.values())
    best = [token for token, count in counts.items() if count == most]
    return best[0] if len(best) == 1 else sibling_order(heads)[0]


def sibling_order(arrivals: Sequence[int]) -> list[int]:
    """Tokens by falling count; equal counts in the order of the official cache's sibling list.

    The list is kept sorted while counts rise one by one: a new token enters at the end; a token
    that catches up with the next larger count goes to the head of that group if it was the first
    of its own, and otherwise before its own group, that is to the tail of the larger one.
    """
    order: list[int] = []
    counts: dict[int, int] = {}
    for token in arrivals:
        count = counts.get(token, 0)
        counts[token] = count + 1
        if count == 0:
            order.append(token)
            continue
        place = order.index(token)
        if place == 0 or counts[order[place - 1]] > count + 1:
            continue
        group = counts[order[place - 1]]
        first = place - 1
        while first > 0 and counts[order[first - 1]] == group:
            first -= 1
        order.insert(first, order.pop(place))
    return order


def _draft(
    tokens: list[int], parents: list[int], estimates: list[np.float32], matched: int
) -> SuffixDraft:
    score = F32(0)
    for estimate in estimates:
        score = score + estimate
    return SuffixDraft(
        tokens, parents, [float(e) for e in estimates], float(score), matched if tokens else 0
    )


@dataclass(frozen=True)
class _Node:
    """A string in the queue: its estimate, occurrences and depth, and its token's number.

    ``waiting``: its own last token has not been drafted yet.
    """

    estimate: np.float32
    here: Places
    depth: int
    parent: int
    waiting: bool = False


class _Queue:
    """A binary heap, largest estimate first, with the tie order of C++'s ``priority_queue``."""

    def __init__(self) -> None:
        self._heap: list[_Node] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, node: _Node) -> None:
        self._heap.append(node)
        self._rise(len(self._heap) - 1, node)

    def pop(self) -> _Node:
        heap = self._heap
        top, last = heap[0], heap.pop()
        if heap:
            hole, size = 0, len(heap)
            while (child := 2 * hole + 2) < size:
                if heap[child].estimate < heap[child - 1].estimate:
                    child -= 1
                heap[hole], hole = heap[child], child
            if child == size:
                heap[hole], hole = heap[child - 1], child - 1
            self._rise(hole, last)
        return top

    def _rise(self, hole: int, node: _Node) -> None:
        heap = self._heap
        while hole > 0 and heap[(hole - 1) // 2].estimate < node.estimate:
            heap[hole] = heap[(hole - 1) // 2]
            hole = (hole - 1) // 2
        heap[hole] = node
