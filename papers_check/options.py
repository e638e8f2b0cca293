"""Options that several commands share, checked in one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

FIELDS = ("exact", "float")


def _whole(kind: Any, tokens: Sequence[Any]) -> int:
    """The number that a word writes; 2.5 is refused instead of cut off."""
    del kind
    word = tokens[0].value
    try:
        return int(word)
    except ValueError as error:
        raise ValueError(f"{word!r} is not a whole number") from error


Count = Annotated[int, Parameter(converter=_whole)]
"""A whole number."""


def number_field(name: str) -> str:
    """``name`` if it is a field that commands compute in.

    Raises:
        ValueError: another name.
    """
    if name not in FIELDS:
        raise ValueError(f"unknown field {name!r}; choose exact (rationals) or float")
    return name
