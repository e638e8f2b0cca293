"""Next-token laws ("rows") and the operations on them.

A row is a non-negative array that sums to one over its last axis; every function broadcasts over
leading axes and works in any field (see ``theory.fields``). ``p`` is the target, ``q`` the draft.

Sources: Leviathan, Kalman, Matias 2023 (overlap, residual); Csiszar 1967 (f-divergences).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import sympy

from theory.fields import (
    FLOAT,
    SYMBOLIC,
    Array,
    Field,
    Number,
    field_of,
    get_field,
    is_zero,
    minimum,
    positive_part,
)
from theory.inputs import entries

SUM_TOLERANCE = 1e-9
"""Largest deviation of a float row's sum from 1 that is taken as rounding and renormalised."""


def as_row(values: Iterable[Any] | str, field: Field | str = "exact", where: str = "row") -> Array:
    """A validated row. A string is read as ``"1/3,2/3"``.

    Raises:
        ValueError: negative or NaN entries, or a sum other than 1; the message names ``where``.
    """
    field = get_field(field)
    listed = values.split(",") if isinstance(values, str) else entries(values, where)
    if not listed:
        raise ValueError(f"{where}: a law needs at least one token")
    try:
        row = field.array(listed)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if row.ndim != 1:
        raise ValueError(f"{where}: expected one list of numbers, got shape {row.shape}")
    if field is SYMBOLIC:
        return row
    for token, value in enumerate(row):
        if value < 0:
            raise ValueError(f"{where}: token {token} has negative probability {value}")
    total = float(row.sum()) if field is FLOAT else row.sum()
    if abs(total - 1) > (SUM_TOLERANCE if field is FLOAT else 0):
        raise ValueError(f"{where}: probabilities sum to {total}, not 1; divide by the sum")
    return np.asarray(row / total) if field is FLOAT else row


def normalise(weights: Array, fallback: Array | None = None) -> Array:
    """``weights`` divided by their sum; ``fallback`` (default: unchanged) where the sum is zero."""
    total = weights.sum(axis=-1, keepdims=True)
    if field_of(weights) is SYMBOLIC:
        if is_zero(total.flat[0]):
            return weights if fallback is None else fallback
        return np.asarray(weights / total)
    empty = total == 0
    if not empty.any():
        return np.asarray(weights / total)
    scaled = weights / np.where(empty, 1, total)
    return np.asarray(np.where(empty, weights if fallback is None else fallback, scaled))


def overlap(p: Array, q: Array) -> Any:
    """``sum min(p, q)``: the acceptance probability alpha of token verification."""
    return minimum(p, q).sum(axis=-1)


def total_variation(p: Array, q: Array) -> Any:
    """``sum (p - q)_+``: total variation of two laws of equal mass."""
    return positive_part(p - q).sum(axis=-1)


def residual(p: Array, q: Array, scale: Number = 1) -> Array:
    """``norm((scale p - q)_+)``, and ``p`` itself where that mass is zero (it is then not used)."""
    return normalise(positive_part(scale * p - q), fallback=p)


def mixture(weight: Number, p: Array, q: Array) -> Array:
    """``w p + (1 - w) q``; ``weight`` is the weight of the target."""
    return np.asarray(weight * p + (1 - weight) * q)


def point_mass(token: int, vocab: int, field: Field | str = "exact") -> Array:
    """The law that gives ``token`` with certainty."""
    row = get_field(field).array([0] * vocab)
    row[token] = get_field(field).one
    return row


def f_divergence(p: Array, nu: Array, f: Callable[[Array], Array], slope: float = np.inf) -> Any:
    """``sum p f(nu/p)`` in float64; ``slope`` is ``lim f(t)/t``, the price of mass where p = 0."""
    p, nu = np.asarray(p, dtype=np.float64), np.asarray(nu, dtype=np.float64)
    ratio = np.divide(nu, p, out=np.ones_like(nu), where=p > 0)
    outside = np.where(p > 0, 0.0, nu).sum(axis=-1)
    charge = np.where(outside > 0, slope * np.where(outside > 0, outside, 1.0), 0.0)
    return np.where(p > 0, p * f(ratio), 0.0).sum(axis=-1) + charge


def kl(p: Array, nu: Array) -> Any:
    """``KL(p || nu)`` in nats; infinite where nu misses part of p."""

    def minus_log(t: Array) -> Array:
        with np.errstate(divide="ignore"):
            return -np.log(t)

    return f_divergence(p, nu, minus_log, slope=0.0)


def entropy(p: Array) -> Any:
    """Entropy in nats (float64, or a sympy expression)."""
    if field_of(p) is SYMBOLIC:
        return -sum(x * sympy.log(x) for x in p)
    p = np.asarray(p, dtype=np.float64)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


def temperature(row: Array, temp: Number) -> Array:
    """The row sharpened by ``p**(1/temp)``; ``temp`` 0 is a point mass at the first argmax.

    Exact when ``1/temp`` is an integer; other temperatures need a float row.

    Raises:
        ValueError: negative temperature, or an irrational power of exact numbers.
    """
    if temp < 0:
        raise ValueError(f"temperature {temp} is negative; use 0 (greedy) or more")
    if temp == 0:
        return point_mass(int(np.argmax(row)), row.shape[-1], field_of(row))
    if field_of(row) is FLOAT:
        return normalise((row / row.max()) ** (1 / float(temp)))
    power = 1 / field_of(row).number(temp)
    if power != int(power):
        raise ValueError(f"temperature {temp} is not 1/integer; use a float row for it")
    return normalise(row ** int(power))


def top_k(row: Array, k: int) -> Array:
    """The ``k`` likeliest tokens (ties in token order), renormalised.

    Raises:
        ValueError: ``k`` below 1.
    """
    if k < 1:
        raise ValueError(f"top_k {k} keeps no token; use 1 or more")
    order = sorted(range(len(row)), key=lambda token: -row[token])
    return _keep(row, order[:k])


def top_p(row: Array, mass: Number) -> Array:
    """Nucleus: the smallest set in order of decreasing probability whose mass is >= ``mass``.

    Raises:
        ValueError: ``mass`` outside (0, 1].
    """
    if not 0 < mass <= 1:
        raise ValueError(f"top_p {mass} is outside (0, 1]")
    mass = field_of(row).number(mass)
    kept: list[int] = []
    total: Number = 0
    for token in sorted(range(len(row)), key=lambda token: -row[token]):
        kept.append(token)
        total = total + row[token]
        if total >= mass:
            break
    return _keep(row, kept)


def min_p(row: Array, ratio: Number) -> Array:
    """Tokens of probability at least ``ratio`` times the largest, renormalised."""
    floor = field_of(row).number(ratio) * row.max()
    return _keep(row, [token for token, value in enumerate(row) if value >= floor])


def _keep(row: Array, tokens: list[int]) -> Array:
    kept = row * 0
    kept[tokens] = row[tokens]
    return normalise(kept)
