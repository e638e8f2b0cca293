"""Scalars that arrive as text, fractions, floats or symbols, brought into one field."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import sympy

from theory.fields import EXACT, FLOAT, SYMBOLIC, Field, Number, field_of, to_fraction


def common(*values: Number) -> tuple[Field, list[Number]]:
    """The values in one field: symbolic if any is, else float if any is, else exact.

    Raises:
        ValueError: a value that is no number.
    """
    field = EXACT
    if any(isinstance(value, (float, np.floating)) for value in values):
        field = FLOAT
    if any(isinstance(value, sympy.Basic) for value in values):
        field = SYMBOLIC
    return field, [field.number(value) for value in values]


def threshold(value: Number, name: str = "threshold") -> Fraction:
    """A setting as the decimal or fraction that was written: ``0.4`` is 2/5.

    Raises:
        ValueError: not a finite number.
    """
    try:
        return Fraction(str(value)) if isinstance(value, float) else to_fraction(value)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"{name} {value!r} is not a number: {error}") from error


def probability(value: Number, name: str) -> Fraction:
    """A setting in [0, 1].

    Raises:
        ValueError: outside [0, 1], or not a number.
    """
    number = threshold(value, name)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} {value!r} is outside [0, 1]")
    return number


def below(value: Number, limit: Fraction) -> bool:
    """``value < limit`` in the field of ``value``."""
    field = field_of(value)
    return bool(field.number(value) < field.number(limit))
