"""The entropic coupling (float64): the most mixed kernel with the wished means.

Among the plans with row sums m, column sums mu and row means t, the one closest to independence
has the rows

    kernel[g, b]  proportional to  exp(a_b + beta_g z_b) .

For given potentials a a bracketed Newton search finds every beta_g (Newton alone leaves its basin
where labels lie close together). The potentials serve the columns: they minimise a convex dual
whose gradient is held - mu, where held = sum_g m_g kernel[g], and whose Hessian is the mass-
weighted covariance of the labels in each row, given the row's mean. A few Sinkhorn corrections
a += log(mu/held) come close; damped Newton steps then converge quadratically, where Sinkhorn
alone would crawl because mu has little slack against the atoms.

Where there is no slack at all, E_mu(z - s)_+ = E(t - s)_+ at a label s, no plan crosses s: the
potentials would diverge. Rows are therefore confined to the labels between the tight points
around their mean. Tight points always exist at the ends of mu, and where the maximum in
``theory.marks.clipping`` is attained.

What the iteration leaves is repaired to exact marginals, so losslessness never depends on it. A
node where it does not converge (label masses of 1e-40 next to large ones) gets the ``mix``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theory.fields import FLOAT, Array, divide, field_of
from theory.marks.coupling import mix, repaired

SINKHORN, NEWTON = 5, 30
"""Corrections of the potentials: Sinkhorn's first, then at most so many Newton steps."""

CONVERGED = 1e-13
"""Largest error of a column or a mean that ends an iteration."""

ACCURATE = 1e-10
"""Mean error of the row means that is accepted in the end."""

SEARCH = 100
"""Largest number of Newton or bisection steps for a beta; four or so when warm."""

TIGHT = 1e-12
"""Slack below which a label counts as a point that no plan crosses."""

FLATTEST = 1e-200
"""Smallest slope that Newton's step divides by."""

RIDGE = 1e-13
"""Added to the Hessian, whose null directions (1 and z, between tight points) change nothing."""

STEEPEST = 1e8
"""Bound on |beta|; only bisection ever goes near it."""


def entropic(levels: Array, masses: Array, marks: Array, values: Array) -> Array:
    """The kernel; see ``theory.marks.coupling.Coupling``.

    Raises:
        ValueError: rational numbers, for which the iteration has no end.
    """
    if field_of(masses) is not FLOAT:
        raise ValueError("the entropic coupling iterates in floats; use coupling='mix'")
    allowed = reachable(levels, masses, marks, values)
    potential = np.log(np.where(marks > 0, marks, 1.0))
    beta = np.zeros(levels.shape)
    for step in range(SINKHORN + NEWTON):
        weights = np.where(allowed, potential[..., None, :], -np.inf)
        beta = _tilt(weights, values, levels, beta)
        kernel = _tilted(weights, values, beta)
        held = (masses[..., None] * kernel).sum(axis=-2)
        if abs(held - marks).max() < CONVERGED:
            break
        if step < SINKHORN:
            potential = potential + np.log(np.where(held > 0, divide(marks, held), 1.0))
        else:
            potential = potential + _newton(kernel, values, masses, marks - held)
    kernel = repaired(kernel, masses, marks)
    strayed = (masses * abs(kernel @ values - levels)).sum(axis=-1) > ACCURATE
    if strayed.any():
        kernel = np.where(strayed[..., None, None], mix(levels, masses, marks, values), kernel)
    return kernel


def reachable(levels: Array, masses: Array, marks: Array, values: Array) -> NDArray[np.bool_]:
    """[..., n, B]: the labels between the tight points around each atom's mean."""
    offered = (marks[..., None] * np.maximum(values[:, None] - values, 0)).sum(axis=-2)
    taken = (masses[..., None] * np.maximum(levels[..., None] - values, 0)).sum(axis=-2)
    tight = ((offered - taken <= TIGHT) & (marks > 0))[..., None, :]
    level = levels[..., None]
    low = np.where(tight & (values <= level + TIGHT), values, -np.inf).max(axis=-1)
    high = np.where(tight & (values >= level - TIGHT), values, np.inf).min(axis=-1)
    live = marks[..., None, :] > 0
    allowed = live & (values >= low[..., None]) & (values <= high[..., None])
    return np.asarray(np.where(allowed.any(axis=-1, keepdims=True), allowed, live))


def _tilted(weights: Array, values: Array, beta: Array) -> Array:
    """Rows proportional to exp(weights + beta values)."""
    exponent = weights + beta[..., None] * values
    row = np.exp(exponent - exponent.max(axis=-1, keepdims=True))
    return np.asarray(row / row.sum(axis=-1, keepdims=True))


def _tilt(weights: Array, values: Array, levels: Array, beta: Array) -> Array:
    """The beta that give the rows means ``levels``: Newton's step where it stays in the bracket."""
    low, high = np.full(beta.shape, -STEEPEST), np.full(beta.shape, STEEPEST)
    for _ in range(SEARCH):
        row = _tilted(weights, values, beta)
        mean = (row * values).sum(axis=-1)
        if abs(mean - levels).max() < CONVERGED:
            break
        spread = (row * (values - mean[..., None]) ** 2).sum(axis=-1)
        low = np.where(mean < levels, beta, low)
        high = np.where(mean > levels, beta, high)
        newton = beta + (levels - mean) / np.maximum(spread, FLATTEST)
        inside = (newton > low) & (newton < high)
        beta = np.where(inside, newton, np.where(mean == levels, beta, (low + high) / 2))
    return beta


def _newton(kernel: Array, values: Array, masses: Array, missing: Array) -> Array:
    """Newton's step of the potentials, shortened to length 1 in every coordinate."""
    mean = (kernel * values).sum(axis=-1, keepdims=True)
    lean = kernel * (values - mean)
    spread = (lean * (values - mean)).sum(axis=-1, keepdims=True)
    weighted = masses[..., None] * kernel
    hessian = -np.swapaxes(weighted, -1, -2) @ kernel
    hessian -= np.swapaxes(masses[..., None] * divide(lean, spread), -1, -2) @ lean
    index = np.arange(len(values))
    hessian[..., index, index] += weighted.sum(axis=-2) + RIDGE
    step = np.linalg.solve(hessian, missing[..., None])[..., 0]
    return np.asarray(step / np.maximum(1.0, abs(step).max(axis=-1, keepdims=True)))
