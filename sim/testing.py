"""Random valid inputs for tests of verifiers: row tables and rounds with awkward rows among them.

Rows are Dirichlet draws mixed with the cases that break verifiers: tokens of probability zero,
equal rows, rows equal up to rounding, point masses and disjoint supports.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from sim.rounds import draft_blocks
from sim.rows import Floats, Ints, RowTable, log, string_numbers, tabulate


class Levels(NamedTuple):
    """A ``RowSource`` given level by level: ``rows[n]`` is [V**n, V] by string number."""

    rows: tuple[Floats, ...]

    @property
    def vocab(self) -> int:
        return int(self.rows[0].shape[-1])

    def log_rows(self, contexts: Ints) -> Floats:
        """Log next-token laws [B, V] after the contexts [B, n]."""
        return log(self.rows[contexts.shape[1]][string_numbers(contexts, self.vocab)])


class Inputs(NamedTuple):
    """Arguments of a verifier, in the order of its signature."""

    log_p: NDArray[np.floating]
    log_q: NDArray[np.floating]
    drafts: Ints
    uniforms: Floats
    lengths: Ints | None


def random_rows(rng: Generator, count: int, vocab: int, awkward: float = 0.0) -> Floats:
    """``count`` laws; a share ``awkward`` has zeros or is a point mass."""
    rows = rng.dirichlet(np.ones(vocab), count)
    keep = rng.random((count, vocab)) < 0.5
    keep[np.arange(count), rng.integers(vocab, size=count)] = True
    sparse = rows * keep + 1e-300 * keep
    sparse /= sparse.sum(axis=1, keepdims=True)
    points = np.eye(vocab)[rng.integers(vocab, size=count)]
    kind = rng.random(count)[:, None]
    return np.where(kind < awkward / 2, points, np.where(kind < awkward, sparse, rows))


def random_pair(
    rng: Generator, vocab: int, depth: int, awkward: float = 0.0, equal: float = 0.0
) -> tuple[RowTable, RowTable]:
    """Target and draft tables with rows for contexts up to length ``depth``.

    Args:
        awkward: share of rows with zeros. equal: share of contexts with p = q (half of them up to
            rounding only).
    """
    target, draft = [], []
    for level in range(depth + 1):
        p = random_rows(rng, vocab**level, vocab, awkward)
        q = random_rows(rng, vocab**level, vocab, awkward)
        kind = rng.random(vocab**level)[:, None]
        almost = p * (1 + 2.0**-52 * rng.integers(-1, 2, p.shape))
        q = np.where(kind < equal / 2, p, np.where(kind < equal, almost, q))
        target.append(p)
        draft.append(q)
    return tabulate(Levels(tuple(target)), depth), tabulate(Levels(tuple(draft)), depth)


def random_inputs(
    rng: Generator,
    slots: int,
    batch: int,
    num_drafts: int,
    gamma: int,
    vocab: int,
    awkward: float = 0.3,
    equal: float = 0.3,
    ragged: bool = False,
) -> Inputs:
    """A batch of rounds whose requests start in different contexts of one random pair."""
    p, q = random_pair(rng, vocab, gamma + 2, awkward, equal)
    start = rng.integers(1 + vocab + vocab**2, size=batch)
    drafted = draft_blocks(p, q, start, start, gamma, num_drafts, rng)
    lengths = rng.integers(gamma + 1, size=batch) if ragged else None
    drafts = drafted.tokens
    if lengths is not None:
        drafts = np.where(np.arange(gamma) < lengths[:, None, None], drafts, -1)
    uniforms = rng.random((batch, slots))
    return Inputs(
        p.rows(drafted.target), q.rows(drafted.draft[:, :, :-1]), drafts, uniforms, lengths
    )
