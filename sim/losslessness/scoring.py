"""Targets as an audit reads them: the log rows along an output.

A target is a *scorer* ``score(prompt, output) -> log rows [len(output), V]``, or a model that
answers ``row(prefix)`` (``theory.models``) or ``log_rows(contexts)`` (``sim.rows``), whose prefix
is the prompt followed by the output so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.rows import OnePrefix, RowSource, log

Rows = NDArray[np.floating]
Scorer = Callable[[Sequence[int], Sequence[int]], Rows]


def scorer(target: Scorer | RowSource | OnePrefix) -> Scorer:
    """The scorer of a target; rows of small models are kept once they are known.

    Raises:
        ValueError: none of the three kinds of target.
    """
    source: Any = target
    if hasattr(source, "row"):
        return _remembering(lambda prefix: log(np.array(source.row(prefix), dtype=np.float64)))
    if hasattr(source, "log_rows"):
        return _remembering(lambda prefix: source.log_rows(np.array([prefix], dtype=np.int64))[0])
    if callable(source):
        return source  # type: ignore[no-any-return]
    raise ValueError(
        f"{target!r} is no target; give a model with row(prefix), or a function "
        "score(prompt, output) that returns the log rows before each output token"
    )


def _remembering(row: Callable[[tuple[int, ...]], Rows]) -> Scorer:
    known: dict[tuple[int, ...], Rows] = {}

    def score(prompt: Sequence[int], output: Sequence[int]) -> Rows:
        rows, prefix = [], tuple(prompt)
        for token in output:
            if prefix not in known:
                known[prefix] = row(prefix)
            rows.append(known[prefix])
            prefix = (*prefix, token)
        return np.stack(rows)

    return score
