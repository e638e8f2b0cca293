"""The entropic coupling (float64): the most mixed kernel with the wished means.

Among the plans with row sums m, column sums mu and row means t, the one closest to independence
has the rows

    kernel[g, b]  proportional to  mu_b exp(a_b + beta_g z_b) ,

where a_b serves the columns and beta_g the mean of row g. Sinkhorn's alternation finds both: a
bracketed Newton search for every beta_g, then a correction of a_b. (Newton alone leaves the
basin where labels lie close together.)

Where mu has no slack against the atoms, E_mu(z - s)_+ = E(t - s)_+ at a label s, no plan crosses
s: the potentials would diverge there. Rows are therefore confined to the labels between the tight
points around their mean, which restores fast convergence; tight points always exist at the ends
of mu, and at the level where theorem D of ``theory.marks.clipping`` attains its maximum.

What the iteration leaves is repaired to exact marginals, so losslessness never depends on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theory.fields import FLOAT, Array, field_of
from theory.marks.coupling import repaired

ROUNDS = 30
"""Sinkhorn rounds."""

FIRST_STEPS, LATER_STEPS = 64, 6
"""Newton steps for the row parameters: from scratch, and when warm."""

TIGHT = 1e-12
"""Slack below which a label counts as a point that no plan crosses."""

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
    safe = np.where(marks > 0, marks, 1.0)
    potential = np.where(marks > 0, np.log(safe), -np.inf)
    beta = np.zeros(levels.shape)
    for step in range(ROUNDS):
        weights = np.where(allowed, potential[..., None, :], -np.inf)
        beta = _tilt(weights, values, levels, beta, LATER_STEPS if step else FIRST_STEPS)
        kernel = _tilted(weights, values, beta)
        held = (masses[..., None] * kernel).sum(axis=-2)
        scale = np.where((held > 0) & (marks > 0), safe / np.where(held > 0, held, 1.0), 1.0)
        potential = potential + np.log(scale)
    return repaired(kernel, masses, marks)


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


def _tilt(weights: Array, values: Array, levels: Array, beta: Array, steps: int) -> Array:
    """The beta that give the rows means ``levels``: Newton's step where it stays in the bracket."""
    low, high = np.full(beta.shape, -STEEPEST), np.full(beta.shape, STEEPEST)
    for _ in range(steps):
        row = _tilted(weights, values, beta)
        mean = (row * values).sum(axis=-1)
        spread = (row * (values - mean[..., None]) ** 2).sum(axis=-1)
        low = np.where(mean < levels, beta, low)
        high = np.where(mean > levels, beta, high)
        newton = beta + (levels - mean) / np.where(spread > 0, spread, 1.0)
        inside = (spread > 0) & (newton > low) & (newton < high)
        beta = np.where(inside, newton, np.where(mean == levels, beta, (low + high) / 2))
    return beta
