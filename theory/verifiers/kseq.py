"""K-SEQ, the sequential selection of SpecTr (Sun et al. 2023, arXiv 2310.15141).

At each position the k drafts that agree with the accepted prefix are tried in order: x is kept
with probability min(1, p(x)/(rho q(x))), the first success wins. With

    beta(rho) = sum_x min(q(x), p(x)/rho),   G = (1 - (1 - beta)^k) / beta,

the rule is lossless iff G <= rho, with residual norm(p - G min(q, p/rho)). The smallest such rho
accepts most; every larger one is lossless too, so rho is always rounded up. The number of
survivors k, and with it rho, changes from position to position.

Slots: ``i * K + j`` for the test of draft j (original index) at position i + 1, ``gamma * K`` for
the emitted token.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from theory.effects import Effects
from theory.fields import EXACT, FLOAT, Array, Number, field_of, is_zero, minimum, to_fraction
from theory.laws import normalise
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round

HALVINGS = 48
"""Bisection steps for an exact rho: at most (k - 1) 2^-48 above the smallest valid value."""


def accepted_once(p: Array, q: Array, rho: Number) -> Any:
    """beta(rho): the probability that one draft passes its test (rows ``[..., V]``)."""
    return minimum(q, p / rho).sum(axis=-1)


def gain(beta: Number, k: int) -> Any:
    """G = (1 - (1 - beta)^k)/beta; k at beta = 0. As a sum of powers, so nothing cancels."""
    return sum(((1 - beta) ** j for j in range(1, k)), start=0 * beta + 1)


def smallest_rho(p: Array, q: Array, k: int) -> Any:
    """The smallest valid rho in [1, k], exactly where it is a small rational, else rounded up.

    Float rows may have leading axes, ``[..., V] -> [...]``; exact rows are one-dimensional.
    """
    if field_of(p) is FLOAT:
        return _smallest_float(p, q, k)
    return EXACT.number(_smallest_exact(tuple(map(to_fraction, p)), tuple(map(to_fraction, q)), k))


def _smallest_float(p: Array, q: Array, k: int) -> Any:
    """Newton's method on G(rho) - rho, then rounded up until valid."""
    rho = _newton(*_merged(p, q, k), k) if p.ndim == 1 else _newton(p, q, k)
    nudge = 2.0**-46
    while True:
        invalid = gain(accepted_once(p, q, rho[..., None]), k) > rho
        if not invalid.any():
            return np.minimum(rho, k)
        rho = np.where(invalid, rho * (1 + nudge), rho)
        nudge *= 8


def _merged(p: Array, q: Array, k: int) -> tuple[Array, Array]:
    """The same problem on fewer tokens: all with p <= q act as one, and all with p >= k q."""
    above = np.flatnonzero(p > q)
    p_above, q_above = p[above], q[above]
    moving = np.flatnonzero(p_above < k * q_above)
    p_moving, q_moving = p_above[moving], q_above[moving]
    p_high, q_high = p_above.sum() - p_moving.sum(), q_above.sum() - q_moving.sum()
    p_low, q_low = p.sum() - p_above.sum(), q.sum() - q_above.sum()
    return (
        np.concatenate([np.maximum([p_low, p_high], 0), p_moving]),
        np.concatenate([np.maximum([q_low, q_high], 0), q_moving]),
    )


def _newton(p: Array, q: Array, k: int) -> Array:
    """The root of G(rho) = rho to rounding, by Newton's method inside a bracket."""
    low, high = np.ones(p.shape[:-1]), np.full(p.shape[:-1], float(k))
    rho = high.copy()
    for _ in range(60):
        beta = accepted_once(p, q, rho[..., None])
        excess = gain(beta, k) - rho
        low, high = np.where(excess > 0, rho, low), np.where(excess > 0, high, rho)
        falling = np.where(p < q * rho[..., None], p, 0.0).sum(axis=-1) / rho**2
        slope = sum((j * (1 - beta) ** (j - 1) for j in range(1, k)), start=0.0) * falling - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            step = rho - excess / slope
        inside = (step >= low) & (step <= high)
        update = np.where(inside, step, (low + high) / 2)
        moved = np.abs(update - rho).max(initial=0.0)
        rho = update
        if moved <= 4 * np.finfo(float).eps * k:
            break
    return rho


@lru_cache(maxsize=4096)
def _smallest_exact(p: tuple[Fraction, ...], q: tuple[Fraction, ...], k: int) -> Fraction:
    def excess(rho: Fraction) -> Any:
        beta = sum((min(b, a / rho) for a, b in zip(p, q, strict=True)), Fraction(0))
        return gain(beta, k) - rho

    low, high = Fraction(1), Fraction(k)
    if excess(low) <= 0:
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
    for size in (10, 100, 1000, 10**4, 10**5):
        root = high.limit_denominator(size)
        if excess(root) == 0:
            return root
    return high


def position(p: Array, q: Array, k: int) -> tuple[Array, Array]:
    """Acceptance probability of each token under k drafts, and the residual law.

    Entries with q = 0 are never drafted; their acceptance is reported as 1.
    """
    rho = smallest_rho(p, q, k)
    kept = minimum(q, p / rho)
    accept = np.array([1 if is_zero(b) else a / b for a, b in zip(kept, q, strict=True)])
    return accept, normalise(p - gain(kept.sum(), k) * kept, fallback=p)


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round of K-SEQ on K drafts of equal length."""
    gamma, num_drafts = len(drafts[0]), len(drafts)
    survivors = list(range(num_drafts))
    path: Prefix = ()
    for i in range(gamma):
        accept, rest = position(target(path), draft(path), len(survivors))
        for j in survivors:
            x = drafts[j][i]
            if fx.flip(accept[x], i * num_drafts + j):
                break
        else:
            return Round(i, (*path, fx.choose(rest, gamma * num_drafts)))
        path = (*path, x)
        survivors = [j for j in survivors if drafts[j][i] == x]
    return Round(gamma, (*path, fx.choose(target(path), gamma * num_drafts)))
