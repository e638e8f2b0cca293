"""Samples of an engine: what was asked, what came out, and, if known, the rounds it came in.

``emitted``, ``drafted`` and ``accepted`` list the rounds of one output: tokens kept, tokens drafted
and drafts accepted (tau). They sum up as in a trace (``sim.traces``): the emitted tokens make up
the output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from sim.losslessness.observations import (
    UNKNOWN,
    Ints,
    Summary,
    Tokens,
    fingerprints,
    merge,
    prompt_key,
    summarise,
)

GROUP = 2**20
"""Row entries that are summarised together."""


@dataclass(frozen=True)
class Sample:
    """One output of an engine.

    Attributes:
        prompt: token ids that were given; may be empty for models that need none.
        output: token ids that were sampled.
        emitted, drafted, accepted: per round, or empty where the rounds are not known.
    """

    prompt: tuple[int, ...]
    output: tuple[int, ...]
    emitted: tuple[int, ...] = ()
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.emitted:
            return
        if sum(self.emitted) != len(self.output) or min(self.emitted) < 0:
            raise ValueError(
                f"the rounds emitted {list(self.emitted)} tokens, but the output has "
                f"{len(self.output)}; list the tokens kept in every round"
            )
        for name in ("drafted", "accepted"):
            rounds = getattr(self, name)
            if rounds and len(rounds) != len(self.emitted):
                raise ValueError(
                    f"{len(rounds)} rounds of {name} for {len(self.emitted)} of emitted; give one "
                    "number a round"
                )

    def places(self) -> tuple[Ints, Ints]:
        """``place`` and ``before`` of every output token (``Tokens``)."""
        place = np.full(len(self.output), UNKNOWN, dtype=np.int64)
        before = place.copy()
        ends = np.cumsum(self.emitted, dtype=np.int64)
        for r, (end, size) in enumerate(zip(ends, self.emitted, strict=True)):
            place[end - size : end] = np.arange(size)
            if r and size and self.drafted and self.accepted and self.drafted[r - 1]:
                before[end - size] = int(self.accepted[r - 1] == self.drafted[r - 1])
        return place, before


def after_end(samples: Sequence[Sample], eos: Sequence[int], first: int = 0) -> str | None:
    """What is wrong with the ends of some outputs, if anything: tokens after an end of sequence."""
    for number, sample in enumerate(samples, start=first):
        for position, token in enumerate(sample.output[:-1]):
            if token in eos:
                return (
                    f"sample {number} goes on after the end of sequence {token} at position "
                    f"{position}; a correct engine stops there"
                )
    return None


def chunk(
    samples: Sequence[Sample],
    log_rows: Sequence[NDArray[np.floating]],
    log_draft: Sequence[NDArray[np.floating]] | None = None,
    numbers: Sequence[int] | None = None,
) -> Tokens:
    """The tokens of some samples, with the target's log rows [len(output), V] along each.

    Args:
        log_draft: the draft's rows along the same outputs.
        numbers: of the samples; 0, 1, ... by default.

    Raises:
        ValueError: rows that do not match the outputs.
    """
    numbers = range(len(samples)) if numbers is None else numbers
    for number, sample, rows in zip(numbers, samples, log_rows, strict=True):
        if len(rows) != len(sample.output):
            raise ValueError(
                f"sample {number} has {len(sample.output)} output tokens and {len(rows)} rows; "
                "give the row before each token"
            )
    lengths = [len(sample.output) for sample in samples]
    places = [sample.places() for sample in samples]
    return Tokens(
        _joined(log_rows),
        np.concatenate([np.array(s.output, dtype=np.int64) for s in samples]),
        np.concatenate([_keys(s) for s in samples]),
        np.concatenate([np.arange(n) for n in lengths]),
        np.repeat(np.array(numbers, dtype=np.int64), lengths),
        np.concatenate([place for place, _ in places]),
        np.concatenate([before for _, before in places]),
        None if log_draft is None else _joined(log_draft),
    )


def observe(
    samples: Sequence[Sample],
    log_rows: Iterable[NDArray[np.floating]],
    log_draft: Iterable[NDArray[np.floating]] | None = None,
    first: int = 0,
) -> tuple[Summary, Tokens]:
    """As ``chunk``, summarised; rows are read as they come and not kept.

    The rows of samples without output are left out.

    Raises:
        ValueError: rows that do not match the outputs, or as ``summarise``.
    """
    numbered = [(first + i, sample) for i, sample in enumerate(samples) if sample.output]
    drafts: Iterable[NDArray[np.floating] | None] = repeat(None) if log_draft is None else log_draft
    waiting: list[tuple[int, Sample, NDArray[np.floating], NDArray[np.floating] | None]] = []
    parts: list[tuple[Summary, Tokens]] = []
    for (number, sample), rows, draft in zip(numbered, log_rows, drafts, strict=False):
        waiting.append((number, sample, rows, draft))
        if sum(entry[2].size for entry in waiting) >= GROUP:
            parts.append(_summarised(waiting))
            waiting = []
    if waiting:
        parts.append(_summarised(waiting))
    tokens = [part for _, part in parts]
    columns = zip(*(part[1:7] for part in tokens), strict=True)
    joined = Tokens(tokens[0].log_rows, *map(np.concatenate, columns))
    return merge([summary for summary, _ in parts]), joined


def _summarised(
    group: Sequence[tuple[int, Sample, NDArray[np.floating], NDArray[np.floating] | None]],
) -> tuple[Summary, Tokens]:
    numbers = [number for number, _, _, _ in group]
    drafts = [draft for _, _, _, draft in group if draft is not None]
    samples, rows = [sample for _, sample, _, _ in group], [rows for _, _, rows, _ in group]
    made = chunk(samples, rows, drafts or None, numbers)
    return summarise(made), made._replace(log_rows=made.log_rows[:0], log_draft=None)


def _joined(rows: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _keys(sample: Sample) -> NDArray[np.uint64]:
    start = np.array([prompt_key(list(sample.prompt))], dtype=np.uint64)
    outputs = np.array(sample.output, dtype=np.int64)[None, :]
    return np.asarray(fingerprints(start, outputs)[0], dtype=np.uint64)
