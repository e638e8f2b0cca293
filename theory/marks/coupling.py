"""Kernels: which labels a token draws from, given the multiplier it should get.

A coupling distributes a label law mu among atoms of masses m_g so that atom g receives label laws
of mean t_g: a plan k[g, b] with row sums m_g, column sums mu_b and row means t_g. One exists iff
the atoms are below mu in convex order. Every plan with the right column sums keeps verification
lossless; plans that mix widely leave more for later levels to decide.

A *curtain* serves the atoms one after another. Each takes the window of quantiles of what is left
of mu that has its mass and its mean (the "shadow" of the atom), after which the remaining atoms
can still be served, in any order (Beiglboeck and Juillet 2016). Windows of equal atoms served in
a row add up to the window of their sum, so atoms of equal level may be pooled afterwards. The
``mix`` of the ascending and the descending curtain is exact and needs no iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from theory.fields import FLOAT, Array, divide, field_of, maximum, minimum, positive_part
from theory.laws import normalise

Coupling = Callable[[Array, Array, Array, Array], Array]
"""``coupling(levels, masses, marks, values) -> kernel``.

``levels`` [..., n] t_g ascending, ``masses`` [..., n] m_g, ``marks`` [..., B] mu, ``values`` [B]
z; the kernel [..., n, B] has rows k[g] / m_g, laws that average to mu under the masses.
"""


def mix(levels: Array, masses: Array, marks: Array, values: Array) -> Array:
    """The average of the ascending and the descending curtain, as a kernel."""
    order = range(levels.shape[-1])
    up = curtain(levels, masses, marks, values, order)
    down = curtain(levels, masses, marks, values, reversed(order))
    half = field_of(masses).number("1/2")
    return conditional(half * (up + down), levels, masses, marks)


def curtain(
    levels: Array, masses: Array, marks: Array, values: Array, order: Iterable[int]
) -> Array:
    """The plan [..., n, B] that serves atoms in the given order, each with its window."""
    plan = np.repeat(masses[..., None] * 0, marks.shape[-1], axis=-1)
    left = marks
    for atom in order:
        mass = masses[..., atom]
        if np.any(mass != 0):
            plan[..., atom, :] = window(left, values, mass, levels[..., atom])
            left = positive_part(left - plan[..., atom, :])
    return plan


def window(left: Array, values: Array, mass: Array, level: Array) -> Array:
    """The part of ``left`` between two quantiles that has the given mass and mean.

    Args:
        left: [..., B] masses at ascending ``values`` [B].
        mass, level: [...] mass and mean wanted.

    The moment of the window that starts at quantile s is nondecreasing and piecewise linear in s,
    with kinks where either end of the window meets the end of a label.
    """
    mass, level = np.asarray(mass)[..., None], np.asarray(level)[..., None]
    ends = left.cumsum(axis=-1)
    starts = ends - left

    def content(start: Array) -> Array:
        first, last = start[..., None], (start + mass)[..., None]
        inside = minimum(ends[..., None, :], last) - maximum(starts[..., None, :], first)
        return np.asarray(positive_part(inside))

    kinks = np.concatenate([starts, ends - mass], axis=-1)
    kinks = np.sort(minimum(positive_part(kinks), positive_part(ends[..., -1:] - mass)), axis=-1)
    moments = (content(kinks) * values).sum(axis=-1)
    wanted = mass * level
    before = (moments <= wanted).sum(axis=-1, keepdims=True) - 1
    before = np.clip(before, 0, kinks.shape[-1] - 2)
    kink, moment = _at(kinks, before), _at(moments, before)
    step = divide(wanted - moment, _at(moments, before + 1) - moment)
    start = kink + minimum(positive_part(step), 1) * (_at(kinks, before + 1) - kink)
    return np.asarray(content(start)[..., 0, :])


def _at(table: Array, index: Array) -> Array:
    return np.take_along_axis(table, index, axis=-1)


def conditional(plan: Array, levels: Array, masses: Array, marks: Array) -> Array:
    """The kernel of a plan, pooled over atoms of equal level; ``marks`` where there is no mass."""
    equal = (levels[..., :, None] == levels[..., None, :]).astype(masses.dtype)
    pooled, weight = equal @ plan, (equal @ masses[..., None])
    kernel = np.where(weight > 0, divide(pooled, weight), marks[..., None, :])
    return repaired(kernel, masses, marks) if field_of(marks) is FLOAT else kernel


def repaired(kernel: Array, masses: Array, marks: Array) -> Array:
    """A float kernel with rounding errors removed: rows sum to 1 and average to ``marks``.

    Columns that hold too much are scaled down, and what the rows then miss is filled up from what
    the columns miss. Row means move by as much as the defects repaired: take them from the result.
    """
    kernel = normalise(kernel, fallback=np.broadcast_to(marks[..., None, :], kernel.shape))
    plan = masses[..., None] * kernel
    held = plan.sum(axis=-2)
    plan = plan * divide(minimum(held, marks), held)[..., None, :]
    rows = positive_part(masses - plan.sum(axis=-1))
    columns = normalise(positive_part(marks - plan.sum(axis=-2)))
    plan = plan + rows[..., None] * columns[..., None, :]
    return normalise(np.where(masses[..., None] > 0, plan, kernel), fallback=kernel)
