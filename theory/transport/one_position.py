"""The one-position optimum alpha* of K i.i.d. drafts, and the law that attains it.

A rule that keeps one of K drafted tokens accepts a token outside a set C with at most its target
mass, and one inside C only if some draft lies in C; so for every C

    alpha* <= p(not C) + phi_K(q(C)) ,      phi_K(a) = 1 - (1 - a)^K .

The best C attains alpha* (max-flow min-cut), and it is an upper set of p/q because phi_K is
concave: one sort by p/q and prefix sums. With A = not C it reads 1 + min_A [p(A) - q(A)^K]; the
form above is a sum of non-negative terms, which keeps floats accurate.

The optimum is attained by the *clipped law* g = q T, T = min(max(p/q, low), high), the two scalars
being the solutions of sum (p - high q)_+ = 1 - alpha* - p(q = 0) over q > 0, and of
sum (low q - p)_+ = 1 - alpha*. It is the law of a winning draft: g(A) <= phi_K(q(A)) for all A.

Sources: the value, Khisti et al. 2024 (2410.18234) and Hu et al. 2025 (2502.18779); the clipped
law and the merging of tokens (:func:`_merged`) are derived here.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np

from theory.fields import EXACT, FLOAT, SYMBOLIC, Array, Number, divide, field_of, minimum
from theory.inputs import whole
from theory.laws import SUM_TOLERANCE, as_row

CELLS = 2048
"""About how many ratio cells a long row is merged into before it is sorted."""

BLOCK = 16384
"""Tokens handled at a time, so that temporary arrays stay in the cache."""


def hit_probability(mass: Any, num_drafts: int) -> Any:
    """phi_K(mass): that one of K drafts falls in a set of this draft mass, in any field.

    Written as a (1 + (1 - a)(1 + ...)), so that a small mass cancels nothing.
    """
    total = 0 * mass + 1
    for _ in range(num_drafts - 1):
        total = 1 + (1 - mass) * total
    return mass * total


def alpha_star(p: Iterable[Any] | str, q: Iterable[Any] | str, num_drafts: int) -> Number:
    """The largest acceptance probability of one position with K i.i.d. drafts.

    Args:
        p, q: target and draft row of V tokens: float arrays, or rationals (also ``"a/b"``).
        num_drafts: K.

    Returns:
        A float for float rows, a ``Fraction`` for rational ones, a sympy ``Min`` over all sets
        for symbols.

    Raises:
        ValueError: rows that are no laws or differ in length, or K below 1.
    """
    p, q = check_rows(p, q, num_drafts)
    return field_of(p).public(optimum(p, q, num_drafts))


def optimum(p: Array, q: Array, num_drafts: int) -> Number:
    """:func:`alpha_star` of valid rows, as a number of their field."""
    if SYMBOLIC in (field_of(p), field_of(q)):
        return alpha_star_subsets(p, q, num_drafts)
    if p.dtype != object and len(p) > 8 * CELLS:
        p, q = _merged(p, q, num_drafts)
    outside, inside, _ = _cuts(p, q)
    return min((outside + hit_probability(inside, num_drafts)).min(), field_of(p).one)


def alpha_star_subsets(p: Array, q: Array, num_drafts: int) -> Number:
    """alpha* as the minimum over all 2^V sets: the definition, for tests and for symbols."""
    values = []
    for chosen in product((0, 1), repeat=len(p)):
        inside = np.array(chosen, dtype=object)
        mass = (inside * q).sum()
        values.append(((1 - inside) * p).sum() + hit_probability(mass, num_drafts))
    best = values[0]
    for value in values[1:]:
        best = minimum(best, value)
    return best


def best_set(p: Array, q: Array, num_drafts: int) -> Array:
    """Booleans of the tokens in a minimising set C (of large p/q)."""
    outside, inside, order = _cuts(p, q)
    chosen = np.zeros(len(p), dtype=bool)
    chosen[order[int((outside + hit_probability(inside, num_drafts)).argmin()) :]] = True
    return chosen


def clipped_law(p: Array, q: Array, num_drafts: int) -> tuple[Array, Number, Number]:
    """The law g of a winning draft with ``sum min(p, g) = alpha*``, and its ``(low, high)``.

    Among the optimal laws its ratio T = g/q is the least spread (in convex order).
    """
    drafted = q > 0
    a, b = p[drafted], q[drafted]
    outside, inside, order = _cuts(a, b)
    missed = 1 - optimum(p, q, num_drafts)
    below, above = np.cumsum(b[order]), inside[:-1]
    low = ((missed + outside[1:]) / below).min()
    lost = missed - p[~drafted].sum()
    high = max(((outside[-1] - outside[:-1] - lost) / above).max(), low)
    ratio = np.minimum(np.maximum(a / b, low), high)
    law = 0 * q
    law[drafted] = b * ratio
    return law, low, high


def _cuts(p: Array, q: Array) -> tuple[Array, Array, Array]:
    """p(not C) and q(C) of the V + 1 sets C of tokens from position j on, in order of p/q."""
    if p.dtype == object:
        never = [b == 0 for b in q]
        ratio = divide(p, q)
        order = np.array(sorted(range(len(p)), key=lambda x: (never[x], ratio[x])), dtype=np.intp)
    else:
        ratio = np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0)
        order = np.argsort(ratio)
    return sums_before(p[order]), sums_from(q[order]), order


def sums_before(values: Array) -> Array:
    """Sums of the entries before position 0..n."""
    return np.concatenate([values[:1] * 0, np.cumsum(values)])


def sums_from(values: Array) -> Array:
    """Sums of the entries from position 0..n on."""
    return sums_before(values[::-1])[::-1]


def ratio_cells(p: Array, q: Array, num_drafts: int) -> tuple[Array, Array, Array, int]:
    """Count float tokens by cells of p/q; one pass.

    Returns:
        The cell of every token, the masses of p and of q by cell, and the number of cells to a
        unit of p/q. The last cell holds all ratios of K and more.
    """
    scale = max(CELLS // num_drafts, 1)
    last = scale * num_drafts
    cell = np.empty(len(p), dtype=np.intp)
    mass_p, mass_q = np.zeros(last + 1), np.zeros(last + 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for start in range(0, len(p), BLOCK):
            part = slice(start, start + BLOCK)
            ratio = p[part] / q[part]
            cell[part] = np.fmin(np.multiply(ratio, scale, out=ratio), last, out=ratio)
            mass_p += np.bincount(cell[part], p[part], last + 1)
            mass_q += np.bincount(cell[part], q[part], last + 1)
    return cell, mass_p, mass_q, scale


def tokens_in(chosen: Array, cell: Array) -> Array:
    """Indices of the tokens whose cell is chosen (``take`` with clipping is the fast gather)."""
    return np.flatnonzero(chosen.take(cell, mode="clip"))


def _merged(p: Array, q: Array, num_drafts: int) -> tuple[Array, Array]:
    """The rows with all tokens merged that fall into a ratio cell without a possible optimum.

    Inside a cell [s, t) the curve (q(C), p(not C)) lies above its tangents of slope s and t from
    the two ends; as phi_K is concave, its smallest value there is at an end of the cell or above
    the two bounds ``from_left`` and ``from_right``. Cells that cannot beat the best end are merged
    into one token each, and so is the last (ratios of K and more are in C without loss). Exact, in
    O(V) plus a short sort.
    """
    cell, mass_p, mass_q, scale = ratio_cells(p, q, num_drafts)
    outside, hit = sums_before(mass_p), hit_probability(sums_from(mass_q), num_drafts)
    best = (outside + hit).min()
    edge = np.arange(len(outside)) / scale
    from_left = outside[:-1] + edge[:-1] * mass_q + hit[1:]
    from_right = outside[1:] - edge[1:] * mass_q + hit[:-1]
    alive = (from_left < best) & (from_right < best)
    alive[-1] = False
    single = tokens_in(alive, cell)
    return (
        np.concatenate([mass_p[~alive], p[single]]),
        np.concatenate([mass_q[~alive], q[single]]),
    )


def check_rows(p: Any, q: Any, num_drafts: int) -> tuple[Array, Array]:
    """Two valid rows of one field from any kind of sequences.

    Raises:
        ValueError: see :func:`alpha_star`.
    """
    num_drafts = whole(num_drafts, "num_drafts")
    target, draft = _row(p, "target"), _row(q, "draft")
    if len(target) != len(draft):
        raise ValueError(f"target has {len(target)} tokens, draft has {len(draft)}; use one size")
    if field_of(target) is not field_of(draft) and SYMBOLIC not in map(field_of, (target, draft)):
        raise ValueError("one row is exact and the other is float; use one kind of number")
    return target, draft


def _row(values: Any, where: str) -> Array:
    if not isinstance(values, np.ndarray):
        values = values.split(",") if isinstance(values, str) else list(values)
        floating = any(isinstance(value, (float, np.floating)) for value in values)
        return as_row(values, FLOAT if floating else EXACT, where)
    if values.dtype.kind != "f" or values.size == 0:
        return as_row(values, field_of(values) if values.size else EXACT, where)
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"{where}: expected one row, got shape {row.shape}; pass rows one by one")
    total = float(row.sum())
    if not (row.min() >= 0 and abs(total - 1) <= SUM_TOLERANCE):  # also refuses NaN
        raise ValueError(
            f"{where}: smallest entry {row.min()}, sum {total!r}; need non-negative numbers that "
            "sum to 1: divide by the sum"
        )
    return row
