"""Numbers as programs and people read them: "a/b" strings beside floats."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any

from theory.fields import Rational, to_fraction

Json = dict[str, Any]


def encode(value: Any) -> Any:
    """A JSON-ready copy: rationals become ``"a/b"`` strings, token tuples ``"0 1"`` keys."""
    if isinstance(value, (Fraction, Rational)):
        return str(to_fraction(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_key(key): encode(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return encode(float(value)) if hasattr(value, "__float__") else str(value)


def with_floats(fields: Json) -> Json:
    """``fields`` encoded, with ``<name>_float`` beside every rational number."""
    out: Json = {}
    for name, value in fields.items():
        out[name] = encode(value)
        if isinstance(value, Fraction):
            out[f"{name}_float"] = float(value)
    return out


def show(value: Any, digits: int = 6) -> str:
    """A number for a table: short rationals as they are, with the decimal beside them."""
    if value is None:
        return "—"
    if isinstance(value, (Fraction, Rational)):
        value = to_fraction(value)
        if value.denominator == 1:
            return str(value)
        text = f"{float(value):.{digits}g}"
        return f"{value} = {text}" if len(str(value)) <= 15 else text
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def dumps(value: Any) -> str:
    """Indented JSON text of :func:`encode`; lists of numbers stay on one line."""
    text = json.dumps(encode(value), indent=2)
    return re.sub(r"\[[^][{}\"]*\]", lambda found: " ".join(found.group().split()), text)


def _key(key: Any) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
