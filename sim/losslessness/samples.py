"""Samples of an engine: what was asked, what came out, and, if known, the rounds it came in.

``emitted``, ``drafted`` and ``accepted`` list the rounds of one output: tokens kept, tokens drafted
and drafts accepted (tau). They sum up as in a trace (``sim.traces``): the emitted tokens make up
the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.losslessness.observations import UNKNOWN, Ints, Tokens, fingerprints, prompt_key


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
    first: int = 0,
) -> Tokens:
    """The tokens of some samples, with the target's log rows [len(output), V] along each.

    Args:
        log_draft: the draft's rows along the same outputs.
        first: number of the first sample.

    Raises:
        ValueError: rows that do not match the outputs.
    """
    for number, (sample, rows) in enumerate(zip(samples, log_rows, strict=True), start=first):
        if len(rows) != len(sample.output):
            raise ValueError(
                f"sample {number} has {len(sample.output)} output tokens and {len(rows)} rows; "
                "give the row before each token"
            )
    lengths = [len(sample.output) for sample in samples]
    places = [sample.places() for sample in samples]
    return Tokens(
        np.concatenate(log_rows),
        np.concatenate([np.array(s.output, dtype=np.int64) for s in samples]),
        np.concatenate([_keys(s) for s in samples]),
        np.concatenate([np.arange(n) for n in lengths]),
        np.repeat(np.arange(first, first + len(samples)), lengths),
        np.concatenate([place for place, _ in places]),
        np.concatenate([before for _, before in places]),
        None if log_draft is None else np.concatenate(log_draft),
    )


def _keys(sample: Sample) -> NDArray[np.uint64]:
    start = np.array([prompt_key(list(sample.prompt))], dtype=np.uint64)
    outputs = np.array(sample.output, dtype=np.int64)[None, :]
    return np.asarray(fingerprints(start, outputs)[0], dtype=np.uint64)
