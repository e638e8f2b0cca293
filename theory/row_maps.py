"""Rows listed prefix by prefix, as tables and Markov models are given: read and checked."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from theory.fields import Array, Field
from theory.laws import as_row


def _prefix(key: Any) -> tuple[int, ...]:
    try:
        if isinstance(key, str):
            return tuple(int(token) for token in key.split())
        return tuple(operator.index(token) for token in key)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"prefix {key!r} is no list of tokens; write '0 1', or '' for the root"
        ) from error


def rows_by_prefix(rows: Any, field: Field, what: str) -> dict[tuple[int, ...], Array]:
    """Validated rows by prefix; ``what`` names one of them.

    Raises:
        ValueError: no mapping, a key that is no list of tokens or comes twice, an invalid row.
    """
    if not isinstance(rows, Mapping):
        raise ValueError(f"{what}s {rows!r:.40} map no prefix; write {{'': ['1/3', '2/3']}}")
    found: dict[tuple[int, ...], Array] = {}
    for key, values in rows.items():
        prefix = _prefix(key)
        if prefix in found:
            raise ValueError(f"{what}s: prefix {list(prefix)} is listed twice; keep one")
        found[prefix] = as_row(values, field, f"{what} after {list(prefix)}")
    return found


def vocabulary(rows: Iterable[Array], prefixes: Iterable[tuple[int, ...]]) -> int:
    """The size that all rows share.

    Raises:
        ValueError: no rows, rows of different lengths, or a prefix with a token beyond them.
    """
    sizes = {len(row) for row in rows}
    if not sizes:
        raise ValueError("a model without rows; give the row after the empty prefix")
    if len(sizes) != 1:
        raise ValueError(f"rows have different lengths {sorted(sizes)}; use one vocabulary")
    vocab = sizes.pop()
    for prefix in prefixes:
        if any(not 0 <= token < vocab for token in prefix):
            raise ValueError(f"prefix {list(prefix)} has a token outside 0..{vocab - 1}")
    return vocab
