"""Number fields: the same formula over rationals, float64 or symbols.

A *field* owns the number type of a computation. Formulas are written once, over numpy arrays
whose last axis is the vocabulary, with the operations below; the field of an array is read off
the array itself (:func:`field_of`), so formulas take no extra argument.

* ``EXACT``: rationals in object arrays (``fmpq`` of python-flint when it is installed, else
  ``fractions.Fraction``). Floats are refused: one ``0.1`` would silently poison every equality.
* ``FLOAT``: float64.
* ``SYMBOLIC``: sympy expressions in object arrays. Comparisons of symbols are undecidable, so
  formulas use ``minimum``/``positive_part`` and never branch on a value.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

Number = Any
"""A number of some field: a rational, a float or a sympy expression."""

Array = NDArray[Any]


LARGEST_EXPONENT = 4000
"""Largest power of ten of a number that is read from text: 1e-400000 is a typing error."""


def _rational_type() -> Any:
    """``fmpq`` when python-flint is installed (and not switched off), else ``Fraction``."""
    if os.environ.get("SPECPROOF_RATIONALS") == "fractions":
        return Fraction
    try:
        return importlib.import_module("flint").fmpq
    except ImportError:  # keeps bare and browser installs working
        return Fraction


Rational = _rational_type()
"""The type of exact numbers."""


def to_fraction(value: Number) -> Fraction:
    """The ``Fraction`` equal to a rational number, whatever type carries it."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str):
        return _read(value)
    if isinstance(value, (int, np.integer)):
        return Fraction(int(value))
    if hasattr(value, "p") and hasattr(value, "q"):  # fmpq and sympy.Rational
        return Fraction(int(value.p), int(value.q))
    raise TypeError(f"{value!r} is not a rational number; write it as 'a/b'")


def _read(text: str) -> Fraction:
    """The number that a text such as "1/3" or "2.5e-3" writes."""
    _, _, exponent = text.lower().partition("e")
    if exponent.strip("+-").isdecimal() and abs(int(exponent)) > LARGEST_EXPONENT:
        raise ValueError(f"exponents beyond {LARGEST_EXPONENT} are not read")
    return Fraction(text.strip())


@dataclass(frozen=True)
class Field:
    """A number type with the few operations that verification formulas need."""

    name: str

    def number(self, value: Number) -> Number:
        """Convert ``value`` (number or ``"a/b"``) into this field.

        Raises:
            ValueError: the value is not a number of this field (a float in EXACT, a NaN).
        """
        try:
            if self.name == "exact":
                return _exact_number(value)
            if self.name == "symbolic":
                return (
                    sympy.Rational(_read(value)) if isinstance(value, str) else sympy.sympify(value)
                )
            number = float(_read(value) if isinstance(value, str) else value)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            raise ValueError(f"{value!r} is not a number: {error}") from error
        if not math.isfinite(number):
            raise ValueError(f"{value!r} is not a finite number")
        return number

    def array(self, values: Iterable[Any]) -> Array:
        """An array of this field's numbers from (nested) values."""
        raw = np.asarray(values, dtype=object)
        converted = np.frompyfunc(self.number, 1, 1)(raw)
        if self.name == "float":
            return np.asarray(converted, dtype=np.float64)
        return np.asarray(converted, dtype=object)

    def to_float(self, value: Number) -> float:
        """The float nearest to a number of this field (symbols must be free of variables)."""
        return float(to_fraction(value)) if self.name == "exact" else float(value)

    def public(self, value: Number) -> Number:
        """The number as users see it: ``Fraction``, ``float`` or a sympy expression."""
        if self.name == "exact":
            return to_fraction(value)
        return float(value) if self.name == "float" else value

    @property
    def zero(self) -> Number:
        return self.number(0)

    @property
    def one(self) -> Number:
        return self.number(1)


def _exact_number(value: Number) -> Number:
    if type(value) is Rational:
        return value
    if isinstance(value, (float, np.floating)):
        raise ValueError("exact arithmetic refuses floats; write 'a/b', or choose field='float'")
    fraction = to_fraction(value)
    return fraction if Rational is Fraction else Rational(fraction.numerator, fraction.denominator)


EXACT = Field("exact")
FLOAT = Field("float")
SYMBOLIC = Field("symbolic")
FIELDS = {field.name: field for field in (EXACT, FLOAT, SYMBOLIC)}


def get_field(field: Field | str) -> Field:
    """Look up a field by name.

    Raises:
        ValueError: unknown name.
    """
    if isinstance(field, Field):
        return field
    if field not in FIELDS:
        raise ValueError(f"unknown field {field!r}; choose one of {', '.join(FIELDS)}")
    return FIELDS[field]


def field_of(values: Number | Array) -> Field:
    """The field that a number or a non-empty array belongs to."""
    first = values.flat[0] if isinstance(values, np.ndarray) else values
    if isinstance(first, (float, np.floating)):
        return FLOAT
    return SYMBOLIC if isinstance(first, sympy.Basic) else EXACT


_symbolic_minimum = np.frompyfunc(sympy.Min, 2, 1)
_symbolic_maximum = np.frompyfunc(sympy.Max, 2, 1)


def minimum(a: Number | Array, b: Number | Array) -> Any:
    """Elementwise minimum in the field of the operands."""
    symbolic = SYMBOLIC in (field_of(a), field_of(b))
    return _symbolic_minimum(a, b) if symbolic else np.minimum(a, b)


def maximum(a: Number | Array, b: Number | Array) -> Any:
    """Elementwise maximum in the field of the operands."""
    symbolic = SYMBOLIC in (field_of(a), field_of(b))
    return _symbolic_maximum(a, b) if symbolic else np.maximum(a, b)


def positive_part(a: Number | Array) -> Any:
    """``max(a, 0)``, elementwise."""
    return maximum(a, 0)


def is_zero(value: Number) -> bool:
    """Whether a number is zero for certain (an undecidable symbol counts as not zero)."""
    if isinstance(value, sympy.Basic):
        return bool(value.is_zero)
    return bool(value == 0)


def divide(a: Array, b: Array) -> Array:
    """``a / b`` elementwise, with 0 where ``b`` is zero (for ratios on a zero-mass branch)."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.frompyfunc(lambda x, y: 0 * x if is_zero(y) else x / y, 2, 1)
    if field_of(b) is FLOAT:
        return np.divide(a, b, out=np.zeros(b.shape), where=b != 0)
    return np.asarray(safe(a, b), dtype=object)
