"""Paired timing: contenders take turns, so that a machine's drift hits all of them alike.

Absolute times on a shared machine mean little; the ratio of two contenders timed within the same
round means more. Each round runs every contender once, in rotated order; the ratio to the
baseline is taken round by round, and its median and quartiles are reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Timing:
    """Times of one contender over the counted rounds.

    Attributes:
        name: the contender.
        seconds: one time per round.
        ratios: its time over the baseline's, round by round.
    """

    name: str
    seconds: NDArray[np.float64]
    ratios: NDArray[np.float64]

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    @property
    def ratio(self) -> float:
        return float(np.median(self.ratios))

    @property
    def quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.ratios, (0.25, 0.75))
        return float(low), float(high)


def paired(
    contenders: Mapping[str, Callable[[], object]],
    baseline: str,
    rounds: int = 15,
    warm_up: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time every contender in ``rounds`` rotated rounds after ``warm_up`` uncounted ones.

    Raises:
        ValueError: the baseline is not among the contenders.
    """
    if baseline not in contenders:
        raise ValueError(f"baseline {baseline!r} is not among {sorted(contenders)}")
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(warm_up + rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start = clock()
            contenders[name]()
            if turn >= warm_up:
                seconds[name].append(clock() - start)
    floor = np.array(seconds[baseline])
    return {
        name: Timing(name, np.array(times), np.array(times) / floor)
        for name, times in seconds.items()
    }
