"""Counts and lists as users give them: refused in the same words at every entrance."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Set
from typing import Any

LARGEST = 10**9
"""Counts above this are refused: whatever loops over them would not end."""


def whole(value: Any, name: str, least: int = 1, most: int = LARGEST) -> int:
    """``value`` as an ``int`` between ``least`` and ``most``.

    Raises:
        ValueError: not a whole number (2.0 and "2" are none), or outside the range.
    """
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ValueError(
            f"{name} {value!r} is not a whole number; use an int of {least} or more"
        ) from error
    if number < least:
        raise ValueError(f"{name} {number} is too small; use {least} or more")
    if number > most:
        raise ValueError(f"{name} {number:.3g} is too large; use {most} or less")
    return number


def entries(values: Any, where: str) -> list[Any]:
    """The entries of an ordered collection.

    Raises:
        ValueError: a scalar, bytes, or a collection without an order; the message names ``where``.
    """
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Set, Mapping)):
        raise ValueError(
            f"{where}: {values!r} is not a list of probabilities; write ['1/3', '2/3']"
        )
    try:
        return list(values)
    except TypeError as error:  # an array without dimensions
        raise ValueError(f"{where}: {values!r} is a single number; write a list") from error
