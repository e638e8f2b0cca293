"""Counter-based random streams: every uniform has an address, so no two decisions share one.

The Philox-4x64 generator is a keyed bijection of a 256-bit counter. A request owns the key
``(seed, request)``; the two upper words of the counter are ``(position, stream)`` with ``position``
the number of committed tokens (prompt included) when the round starts, and the two lower words
count the draws of that round. Rounds start at strictly increasing positions, so a draft's noise
can never return in an acceptance test or in a later round, and what a request draws does not
depend on which other requests share its batch.

Source: Salmon, Moraes, Dror, Shaw 2011 (Philox); the addressing is derived here.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

WORD = 2**64


class Stream(IntEnum):
    """Purpose of a draw; purposes never share a counter."""

    DRAFT = 0
    VERIFY = 1


def uniforms(seed: int, request: int, stream: Stream, position: int, n: int) -> NDArray[np.float64]:
    """The first ``n`` uniforms in [0, 1) at an address, float64 [n]; a longer ``n`` only appends.

    Raises:
        ValueError: a seed, request or position outside 0..2**64 - 1.
    """
    for name, value in (("seed", seed), ("request", request), ("position", position)):
        if not 0 <= value < WORD:
            raise ValueError(f"{name} {value} is not a 64-bit count; use 0 <= {name} < 2**64")
    key = np.array([seed, request], dtype=np.uint64)
    counter = np.array([0, 0, position, int(stream)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter)).random(n)


def tape(
    keys: Sequence[tuple[int, int]], stream: Stream, positions: Sequence[int], n: int
) -> NDArray[np.float64]:
    """One row of uniforms per request, float64 [B, n]; ``keys`` holds (seed, request) pairs."""
    rows = [
        uniforms(seed, request, stream, position, n)
        for (seed, request), position in zip(keys, positions, strict=True)
    ]
    return np.stack(rows) if rows else np.empty((0, n))


def fresh_seed() -> int:
    """A seed from the operating system, for requests that name none."""
    return secrets.randbits(63)
