"""Greedy engines: does every token have the target's largest score at its prefix?

Greedy texts of two correct engines differ wherever rounding decides a tie, and everything after
the first difference differs too. So each token is judged at its own prefix (teacher forcing), by
the gap between the row's largest score and the token's:

* ``argmax``: the token is the first with the largest score;
* ``tie``: it has the largest score, but an earlier token has it too;
* ``near``: the gap is at most ``ulps`` units in the last place of the largest score, in the
  precision that the engine computes in, so that another order of summation may decide it;
* ``wrong``: anything else.

The engine passes if nothing is ``wrong``. The margins between the two best tokens say how many
positions a rounding error could turn at all. (In bfloat16 a unit near 10 is 1/16.)
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.losslessness.observations import Floats, Ints

MANTISSA = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
"""Explicit bits of the significand."""
ULPS = 8.0
"""Default size of a near tie, in units in the last place of the largest score."""
KINDS = ("argmax", "tie", "near", "wrong")


@dataclass(frozen=True)
class Wrong:
    """A token that is not the target's choice."""

    sequence: int
    position: int
    token: int
    best: int
    gap: float


@dataclass
class GreedyAudit:
    """Counts of the four kinds, the wrong tokens, and the margins seen.

    Attributes:
        dtype: precision of the engine.
        ulps: size of a near tie.
        margins: gaps between the two best scores, in units in the last place.
    """

    dtype: str = "float32"
    ulps: float = ULPS
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[Wrong] = field(default_factory=list)
    margins: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.dtype not in MANTISSA:
            raise ValueError(f"unknown dtype {self.dtype!r}; choose one of {', '.join(MANTISSA)}")

    @property
    def tokens(self) -> int:
        """Tokens judged."""
        return sum(self.counts.values())

    def update(
        self, scores: NDArray[np.floating], tokens: Ints, sequence: Ints, position: Ints
    ) -> None:
        """Judge tokens [n] by the target's scores [n, V] at their prefixes.

        Raises:
            ValueError: a NaN score, or a token outside the vocabulary.
        """
        if np.isnan(scores).any():
            row = int(np.argmax(np.isnan(scores).any(axis=1)))
            raise ValueError(
                f"sample {sequence[row]}, position {position[row]}: the target's scores hold a NaN"
            )
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < scores.shape[1]:
            raise ValueError(
                f"tokens {tokens.min()} to {tokens.max()} do not fit a vocabulary of "
                f"{scores.shape[1]}; were the samples made with another tokenizer?"
            )
        here = np.arange(len(tokens))
        best = np.argmax(scores, axis=1)
        two = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:].astype(np.float64)
        unit = ulp(two[:, 1], self.dtype)
        gap = two[:, 1] - scores[here, tokens].astype(np.float64)
        kind = np.where(gap <= self.ulps * unit, 2, 3)
        kind = np.where(gap == 0, 1, kind)
        kind = np.where(tokens == best, 0, kind)
        for name, count in zip(KINDS, np.bincount(kind, minlength=len(KINDS)), strict=True):
            self.counts[name] += int(count)
        self.margins.append((two[:, 1] - two[:, 0]) / unit)
        for i in np.flatnonzero(kind == 3):
            place = int(sequence[i]), int(position[i])
            self.wrong.append(Wrong(*place, int(tokens[i]), int(best[i]), float(gap[i])))

    def margin_quantiles(self) -> dict[str, float]:
        """Quantiles of the margin between the two best tokens, in units in the last place."""
        if not self.tokens:
            return {}
        values = np.quantile(np.concatenate(self.margins), (0.0, 0.01, 0.1, 0.5))
        return dict(zip(("min", "1 %", "10 %", "median"), map(float, values), strict=True))


def ulp(values: Floats, dtype: str) -> Floats:
    """The unit in the last place of numbers in a precision."""
    size = np.maximum(np.abs(values), math.ldexp(1.0, -14))
    return np.asarray(np.exp2(np.floor(np.log2(size)) - MANTISSA[dtype]), dtype=np.float64)
