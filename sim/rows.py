"""Row sources: next-token laws of many contexts at once, for vectorised simulation.

A model that answers one prefix at a time is *tabulated* once: every context that a simulation can
reach becomes a state with a log row, a cumulative row and a successor for each token, so that a
step of a million simulated requests is two array look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST_TABLE = 2**27
"""Most entries (states times tokens) of a tabulated model."""


@runtime_checkable
class RowSource(Protocol):
    """Anything that gives log rows for a batch of contexts of one length."""

    @property
    def vocab(self) -> int: ...

    def log_rows(self, contexts: Ints) -> Floats:
        """Log next-token laws [B, V] after the contexts [B, n]."""


class OnePrefix(Protocol):
    """A model that answers one prefix at a time (``theory.models``)."""

    @property
    def vocab(self) -> int: ...

    def row(self, prefix: tuple[int, ...]) -> Any: ...


@dataclass(frozen=True)
class ModelRows:
    """A ``RowSource`` over a model that answers one prefix at a time."""

    model: OnePrefix

    @property
    def vocab(self) -> int:
        return self.model.vocab

    def log_rows(self, contexts: Ints) -> Floats:
        """Log next-token laws [B, V] after the contexts [B, n]."""
        rows = [self.model.row(tuple(int(t) for t in context)) for context in contexts]
        return log(np.array(rows, dtype=np.float64).reshape(len(rows), self.vocab))


@dataclass(frozen=True)
class RowTable:
    """A tabulated model; state 0 is the empty context.

    log_rows: [S, V]. cumulative: [V, S], 1 from the last possible token on. step: [S, V] state
    after one more token. depth: longest context whose row is known, None if every one is.
    """

    log_rows: Floats
    cumulative: Floats
    step: Ints
    depth: int | None

    @property
    def vocab(self) -> int:
        return int(self.log_rows.shape[1])

    def rows(self, states: Ints) -> Floats:
        """Log rows [..., V] of an array of states."""
        return self.log_rows.take(states, axis=0)

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """States after one more token."""
        return self.step.take(states * self.vocab + tokens)

    def state(self, context: tuple[int, ...]) -> int:
        """The state of one context.

        Raises:
            ValueError: the context is longer than the table is deep.
        """
        self.require(len(context))
        state = 0
        for token in context:
            state = int(self.step[state, token])
        return state

    def require(self, depth: int) -> None:
        """Check that contexts of length ``depth`` have rows.

        Raises:
            ValueError: they have none.
        """
        if self.depth is not None and depth > self.depth:
            raise ValueError(
                f"the row table knows contexts up to length {self.depth}, but contexts of length "
                f"{depth} are needed; tabulate the model deeper"
            )

    def draw(self, states: Ints, uniforms: Floats) -> Ints:
        """One token per state by inverse CDF (half-open buckets)."""
        token = np.zeros(states.shape, dtype=np.int64)
        for upper in self.cumulative[:-1]:
            token += uniforms >= upper.take(states)
        return token


def log(rows: Any) -> Floats:
    """log of an array of probabilities, -inf at zeros, without a warning."""
    values = np.asarray(rows, dtype=np.float64)
    positive = values > 0
    logs = np.log(np.where(positive, values, 1.0))
    return np.where(positive, logs, -np.inf)


def tabulate(
    source: RowSource | OnePrefix | RowTable, depth: int, order: int | None = None
) -> RowTable:
    """The rows of all contexts up to length ``depth``; a ``RowTable`` is checked and returned.

    Args:
        order: number of last tokens that the rows depend on; the model's own ``order`` where it
            has one. The table then serves contexts of any length.

    Raises:
        ValueError: too many contexts, or a row that is not a law.
    """
    if isinstance(source, RowTable):
        source.require(depth)
        return source
    if order is None:
        order = getattr(source, "order", None)
    rows: RowSource = source if isinstance(source, RowSource) else ModelRows(source)
    memory = depth if order is None else min(order, depth)
    vocab = rows.vocab
    states = sum(vocab**n for n in range(memory + 1))
    if states * vocab > LARGEST_TABLE:
        raise ValueError(
            f"{states} contexts of up to {memory} tokens over {vocab} tokens do not fit a table "
            f"of {LARGEST_TABLE} entries; lower the horizon or gamma, or give the Markov order"
        )
    levels = [rows.log_rows(all_strings(vocab, n)) for n in range(memory + 1)]
    log_rows = np.concatenate(levels)
    sliding = order is not None and memory == order
    return RowTable(
        log_rows,
        _cumulative(log_rows),
        _successors(vocab, memory, sliding),
        None if sliding else depth,
    )


def all_strings(vocab: int, length: int) -> Ints:
    """All strings [V**length, length] in the order of their base-V numbers."""
    numbers = np.arange(vocab**length)[:, None]
    weights = vocab ** np.arange(length - 1, -1, -1, dtype=np.int64)
    return np.asarray(numbers // weights % vocab, dtype=np.int64)


def string_numbers(tokens: Ints, vocab: int) -> Ints:
    """Base-V numbers [B] of strings [B, N], first token most significant."""
    weights = vocab ** np.arange(tokens.shape[1] - 1, -1, -1, dtype=np.int64)
    return np.asarray(tokens @ weights, dtype=np.int64)


def string_law(source: RowSource | OnePrefix | RowTable, length: int) -> Floats:
    """The model's joint law of the first ``length`` tokens [V**length], by string number.

    Raises:
        ValueError: too many contexts.
    """
    table = tabulate(source, max(length - 1, 0))
    logs, states = np.zeros(1), np.zeros(1, dtype=np.int64)
    for _ in range(length):
        logs = (logs[:, None] + table.log_rows[states]).reshape(-1)
        states = table.step[states].reshape(-1)
    return np.asarray(np.exp(logs), dtype=np.float64)


def _cumulative(log_rows: Floats) -> Floats:
    """Cumulative rows [V, S]; the last possible token of each ends at exactly 1.

    Raises:
        ValueError: a row is not a law.
    """
    rows = np.exp(log_rows)
    mass = rows.sum(axis=1)
    bad = np.flatnonzero(~(np.abs(mass - 1.0) <= 1e-6))
    if bad.size:
        raise ValueError(
            f"row of context number {bad[0]} sums to {mass[bad[0]]:.9g}; every row must be a law"
        )
    cumulative = np.cumsum(rows, axis=1)
    last = rows.shape[1] - 1 - np.argmax(rows[:, ::-1] > 0, axis=1)
    ends = np.where(np.arange(rows.shape[1]) >= last[:, None], 1.0, cumulative)
    return np.ascontiguousarray(ends.T)


def _successors(vocab: int, memory: int, sliding: bool) -> Ints:
    """[S, V] state after one more token; the deepest contexts slide, or stay where they are."""
    first = [sum(vocab**m for m in range(n)) for n in range(memory + 1)]
    blocks = []
    for n in range(memory + 1):
        number = np.arange(vocab**n)[:, None]
        if n < memory:
            blocks.append(first[n + 1] + number * vocab + np.arange(vocab))
        elif sliding and memory > 0:
            blocks.append(first[n] + (number * vocab + np.arange(vocab)) % vocab**n)
        else:
            blocks.append(np.broadcast_to(first[n] + number, (vocab**n, vocab)))
    return np.concatenate(blocks).astype(np.int64)
