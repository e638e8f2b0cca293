"""A rigorous interval for E[tau] on models whose prefix tree cannot be enumerated.

E[tau] is a sum, over the strings v of length 1..gamma, of the mass f(v) with which a round keeps v
(``theory.accepted_length``). For the three single-draft rules that mass follows from the parent's
by one row: with numbers w, d at v and rows p, q after it, f(vx) = min(w p(x), d q(x)), where

    token          w = d = f(v)
    block          w = f(v),   d = Q(v)
    greedy block   w = P(v),   d = Q(v)         (P, Q: joint probabilities)

In each, the children's masses sum to at most f(v), so all strings below a v of depth i whose rows
were not read hold at most f(v) (gamma - i). Best-first search reads the rows of the nodes with the
largest such bounds; then

    low = sum of the masses seen,    high = low + sum over unread nodes of f(v) (gamma - i) .

Reading a node raises low and lowers high, so the intervals are nested and shrink with the budget.

* Memory. A budget of r more nodes can never reach a node that is not among the r best, so only
  those are kept and of the others the mass per level: at most r nodes beside one batch of rows,
  whatever V, and the result is that of the search without pruning.
* Rounding. The model is the one whose rows are the given floats divided by their exact sums (or a
  rational model of which they are the nearest floats). Only products, minima and sums of
  non-negative numbers occur, so that errors are relative; they are bounded by the length of the
  longest chain of operations, and the interval is widened by that.

Levels are kept apart: the same sums bound P(tau >= i) for every i. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.catalogue import lookup
from theory.inputs import whole
from theory.laws import SUM_TOLERANCE
from theory.models import Model, Prefix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PairRows = Callable[[Sequence[Prefix]], tuple[Any, Any]]
"""``rows(prefixes)``: target and draft rows after n prefixes of any lengths, [n, V] each. A prefix
is asked for at most once, and after its own prefixes."""

RULES = ("token", "block", "greedy_block")
UNDERFLOW = 1e-280
"""Absolute widening: products below the smallest normal float are rounded absolutely."""


@dataclass(frozen=True)
class Enclosure:
    """What is known for certain about a round.

    Attributes:
        low, high: bounds of E[tau].
        survival: bounds of P(tau >= i) for i = 1..gamma.
        verifier: what was asked about.
        expanded: nodes whose rows were read.
        calls: calls of ``rows``.
    """

    low: float
    high: float
    survival: tuple[tuple[float, float], ...]
    verifier: str
    expanded: int
    calls: int

    @property
    def width(self) -> float:
        return self.high - self.low


def enclose(
    rows: PairRows,
    gamma: int,
    verifier: str = "token",
    *,
    max_calls: int = 64,
    batch: int = 32,
    tolerance: float = 0.0,
    progress: Callable[[Enclosure], None] | None = None,
) -> Enclosure:
    """Bounds of E[tau] of one round (on unmodified targets), from at most ``max_calls`` calls.

    Args:
        rows: see :data:`PairRows`; floats whose sums are 1 up to rounding.
        verifier: "token", "block" or "greedy_block".
        batch: most prefixes of one call.
        tolerance: the search ends once ``high - low`` is at most this.
        progress: called with the interval after every call of ``rows``.

    Raises:
        ValueError: another verifier, numbers below 1, or rows that are no laws (naming the prefix).
    """
    lookup(verifier, RULES, "verifier with an enclosure")
    gamma, batch = whole(gamma, "gamma"), whole(batch, "batch")
    max_calls = whole(max_calls, "max_calls")
    search = _Search(verifier, gamma, batch)
    found = search.interval()
    while search.calls < max_calls and len(search.frontier.depth) and found.width > tolerance:
        chosen = search.take()
        p, q = _laws(rows, chosen.prefixes)
        search.expand(chosen, p, q, nodes_left=(max_calls - search.calls - 1) * batch)
        found = _within(search.interval(), found)
        if progress is not None:
            progress(found)
    return found


def model_rows(target: Model, draft: Model, prefix: Prefix = ()) -> PairRows:
    """The rows of two models (of any field) below a prefix, as floats."""

    def tabulate(model: Model, prefixes: Sequence[Prefix]) -> Floats:
        rows = [[model.field.to_float(x) for x in model.row(prefix + path)] for path in prefixes]
        return np.array(rows, dtype=np.float64)

    return lambda prefixes: (tabulate(target, prefixes), tabulate(draft, prefixes))


@dataclass
class _Nodes:
    """Nodes of any depth: paths [n, gamma] (padded with -1); depth, w, d and mass f, all [n]."""

    paths: Ints
    depth: Ints
    wanted: Floats
    drafted: Floats
    mass: Floats

    @property
    def prefixes(self) -> list[Prefix]:
        depths = self.depth.tolist()
        return [tuple(path[:i]) for path, i in zip(self.paths.tolist(), depths, strict=True)]

    def pick(self, index: Any) -> _Nodes:
        return _Nodes(*(part[index] for part in self._parts()))

    def join(self, other: _Nodes) -> _Nodes:
        pairs = zip(self._parts(), other._parts(), strict=True)
        return _Nodes(*(np.concatenate(pair) for pair in pairs))

    def _parts(self) -> tuple[Any, ...]:
        return self.paths, self.depth, self.wanted, self.drafted, self.mass


class _Search:
    """The state of a search.

    ``seen[i]`` is the mass found at depth i, ``dropped[i]`` that of nodes of depth i which will
    not be read, ``frontier`` holds those which may be.
    """

    def __init__(self, verifier: str, gamma: int, batch: int) -> None:
        self.verifier, self.gamma, self.batch = verifier, gamma, batch
        one = np.ones(1)
        root = np.full((1, gamma), -1, dtype=np.int64)
        self.frontier = _Nodes(root, np.zeros(1, dtype=np.int64), one, one, one)
        self.seen, self.dropped = np.zeros(gamma + 1), np.zeros(gamma + 1)
        self.calls = self.expanded = self.vocab = self.widest = 0

    def take(self) -> _Nodes:
        """Remove the next batch of nodes from the frontier."""
        best = _largest(self._bounds(), self.batch)
        chosen, others = self.frontier.pick(best), ~_mask(best, len(self.frontier.depth))
        self.frontier = self.frontier.pick(others)
        return chosen

    def expand(self, nodes: _Nodes, p: Floats, q: Floats, nodes_left: int) -> None:
        """Account for the rows of some nodes, and keep the ``nodes_left`` best unread ones."""
        self.calls, self.expanded = self.calls + 1, self.expanded + len(p)
        self.vocab = p.shape[1]
        wanted, drafted = nodes.wanted[:, None] * p, nodes.drafted[:, None] * q
        mass: Floats = np.minimum(wanted, drafted)
        depth = nodes.depth + 1
        self.seen += self._by_depth(depth, mass.sum(axis=1))
        bounds = mass * (self.gamma - depth)[:, None]
        node, token = np.divmod(_largest(bounds.reshape(-1), nodes_left), self.vocab)
        paths = nodes.paths[node]
        paths[np.arange(len(node)), depth[node] - 1] = token
        kept = mass[node, token]
        children = _Nodes(
            paths,
            depth[node],
            wanted[node, token] if self.verifier == "greedy_block" else kept,
            kept if self.verifier == "token" else drafted[node, token],
            kept,
        )
        mass[node, token] = 0
        self.dropped += self._by_depth(depth, mass.sum(axis=1))
        self._keep_best(self.frontier.join(children), nodes_left)

    def interval(self) -> Enclosure:
        """The bounds that follow from what was read, widened by the rounding errors."""
        unread = self.dropped + self._by_depth(self.frontier.depth, self.frontier.mass)
        low = self.seen[1:]
        high = low + np.cumsum(unread[: self.gamma])
        down, up = 1 - self._rounding(), 1 + self._rounding()
        survival = [
            (max(0.0, a * down - UNDERFLOW), min(1.0, b * up + UNDERFLOW))
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        return Enclosure(
            low=max(0.0, float(low.sum()) * down - UNDERFLOW),
            high=min(float(self.gamma), float(high.sum()) * up + UNDERFLOW),
            survival=tuple(survival),
            verifier=self.verifier,
            expanded=self.expanded,
            calls=self.calls,
        )

    def _rounding(self) -> float:
        """A bound of all relative errors.

        A row entry is off by (V + 4) u, u = 2^-53: its own rounding, the sum over V, a division. A
        mass multiplies up to gamma of them. A total is added up over V, over a batch or the
        frontier, over calls and over levels. Twice that covers products of errors.
        """
        chain = self.gamma * (self.vocab + 5)
        total = self.vocab + max(self.batch, self.widest) + 3 * self.calls + 3 * self.gamma + 16
        return float((chain + total) * np.finfo(np.float64).eps)

    def _keep_best(self, nodes: _Nodes, count: int) -> None:
        self.widest = max(self.widest, len(nodes.depth))
        self.frontier = nodes
        kept = _mask(_largest(self._bounds(), count), len(nodes.depth))
        lost = nodes.pick(~kept)
        self.dropped += self._by_depth(lost.depth, lost.mass)
        self.frontier = nodes.pick(kept)

    def _bounds(self) -> Floats:
        """What the nodes of the frontier hide at most: f(v) (gamma - depth)."""
        return self.frontier.mass * (self.gamma - self.frontier.depth)

    def _by_depth(self, depth: Ints, mass: Floats) -> Floats:
        totals = np.bincount(depth, mass, minlength=self.gamma + 1)
        return np.asarray(totals, dtype=np.float64)


def _largest(values: Floats, count: int) -> Ints:
    """Indices of the ``count`` largest positive values, ascending; the first among equals."""
    if count < np.count_nonzero(values > 0):
        limit = np.partition(values, len(values) - count)[len(values) - count] if count else np.inf
        above = values > limit
        ties = np.flatnonzero(values == limit)[: count - np.count_nonzero(above)]
        above[ties] = True
        return np.flatnonzero(above)
    return np.flatnonzero(values > 0)


def _mask(index: Ints, size: int) -> NDArray[np.bool_]:
    chosen = np.zeros(size, dtype=np.bool_)
    chosen[index] = True
    return chosen


def _within(new: Enclosure, old: Enclosure) -> Enclosure:
    """The new interval cut to the old one, so that rounding cannot undo a bound."""
    survival = tuple(
        (max(a, c), min(b, d)) for (a, b), (c, d) in zip(new.survival, old.survival, strict=True)
    )
    low, high = max(new.low, old.low), min(new.high, old.high)
    return Enclosure(low, high, survival, new.verifier, new.expanded, new.calls)


def _laws(rows: PairRows, prefixes: Sequence[Prefix]) -> tuple[Floats, Floats]:
    """The rows after some prefixes, checked and divided by their sums."""
    p, q = (np.asarray(part, dtype=np.float64) for part in rows(prefixes))
    if p.ndim != 2 or p.shape != q.shape or len(p) != len(prefixes):
        raise ValueError(f"rows have shapes {p.shape} and {q.shape} for {len(prefixes)} prefixes")
    for name, part in (("target", p), ("draft", q)):
        total = part.sum(axis=1)
        bad = ~(np.abs(total - 1) <= SUM_TOLERANCE) | (part < 0).any(axis=1)
        if bad.any():
            i = int(bad.argmax())
            raise ValueError(
                f"{name} row after {list(prefixes[i])} is no law: sum {total[i]:.12g}, smallest "
                f"entry {part[i].min():.3g}; divide by the sum"
            )
    return p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
