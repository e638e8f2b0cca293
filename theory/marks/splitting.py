"""SPLIT: how a node of the prefix tree divides its label law among the tokens.

A node holds a label law mu (of its drafts). Tokens must share it: any laws mu_x with
sum_x q(x) mu_x = mu are allowed, and the winner's multiplier after token x becomes
T(vx) = E_(mu_x) z. The split that serves this level best follows from the wished ratios R(x) by
clipping (``theory.marks.clipping``); a coupling turns multipliers into label laws.

With ``histogram`` the only pass over the vocabulary sums q into a histogram of R over the label
values, each token linearly between its two neighbours. This preserves E_q(R - t)_+ at every label
value, hence the optimum, and what follows is of size B: tables of tau and of label laws on the
grid, between which each token interpolates by its own R. Without it every token is its own atom,
which is exact for its R and only practical for small vocabularies.

tau is always computed from the kernel itself, never taken from the wished levels: the law of the
winner that verification assumes is then the law that the sampler has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.fields import FLOAT, SYMBOLIC, Array, divide, field_of, maximum, minimum
from theory.laws import SUM_TOLERANCE, normalise
from theory.marks.clipping import clipped
from theory.marks.coupling import Coupling, mix
from theory.marks.labels import Cells


@dataclass(frozen=True)
class Placement:
    """Where tokens lie between the rows of a table: ``weight`` of the way from lower to upper.

    All of shape [..., V].
    """

    lower: NDArray[np.intp]
    upper: NDArray[np.intp]
    weight: Array

    def collect(self, masses: Array, size: int) -> Array:
        """Sum token masses [..., V] into table rows [..., size]."""
        batch = masses.shape[:-1]
        table = np.repeat(masses[..., :1] * 0, size, axis=-1).reshape(-1, size)
        nodes = np.arange(len(table))[:, None]
        for rows, part in (
            (self.lower, masses - masses * self.weight),
            (self.upper, masses * self.weight),
        ):
            np.add.at(table, (nodes, rows.reshape(len(table), -1)), part.reshape(len(table), -1))
        return table.reshape(*batch, size)

    def read(self, table: Array, tokens: NDArray[np.intp] | slice = slice(None)) -> Array:
        """Interpolate a table [..., n, width] at tokens: [..., tokens, width]."""
        lower, upper = self.lower[..., tokens], self.upper[..., tokens]
        low = np.take_along_axis(table, lower[..., None], axis=-2)
        high = np.take_along_axis(table, upper[..., None], axis=-2)
        return np.asarray(low + self.weight[..., tokens, None] * (high - low))


@dataclass(frozen=True)
class Split:
    """The shares of the tokens at a node (or at a batch of nodes).

    Attributes:
        means: [..., V] T(vx) of every token.
        kernel: [..., n, B] label laws on the rows of the table; a row for each label value, or
            for each token.
        tau: [..., n] their means.
        placement: where each token lies in the table.
        histogram: [..., n] draft mass on each row of the table.
    """

    means: Array
    kernel: Array
    tau: Array
    placement: Placement
    histogram: Array

    def laws(self, tokens: NDArray[np.intp] | slice = slice(None)) -> Array:
        """Label laws mu_vx [..., tokens, B] of the given tokens, by default of all."""
        return self.placement.read(self.kernel, tokens)


def split(
    wishes: Array,
    q: Array,
    marks: Array,
    cells: Cells,
    coupling: Coupling = mix,
    histogram: bool = True,
) -> Split:
    """Divide the label law of a node among its tokens.

    Args:
        wishes: [..., V] R(x): target mass over draft mass of each token, times whatever part of
            it earlier levels still allow. Entries with q = 0 are ignored, infinity is allowed.
        q: [..., V] draft rows.
        marks: [..., B] label laws mu.
        cells: the labels.
        coupling: how label laws follow from multipliers.
        histogram: see the module docstring.

    Raises:
        ValueError: symbols (which cannot be sorted), draft rows or label laws whose sum is not 1.
    """
    field = field_of(q)
    if field is SYMBOLIC:
        raise ValueError("a split sorts ratios, which symbols do not; use exact or float rows")
    _check_sums("draft row", q, field is FLOAT)
    _check_sums("label law", marks, field is FLOAT)
    z = cells.values
    wishes = minimum(maximum(np.where(q != 0, wishes, z[0]), z[0]), z[-1])
    if histogram:
        placement = _between(z, wishes)
        masses = placement.collect(q, len(z))
        atoms = np.broadcast_to(z, masses.shape)
    else:
        order = np.argsort(wishes, axis=-1, kind="stable")
        placement = _ranks(order, q)
        masses = np.take_along_axis(q, order, axis=-1)
        atoms = np.take_along_axis(wishes, order, axis=-1)
    if field is FLOAT:
        masses = normalise(masses)
    kernel = coupling(clipped(atoms, masses, marks, z), masses, marks, z)
    tau = kernel @ z
    means = placement.read(tau[..., None])[..., 0]
    return Split(means, kernel, tau, placement, masses)


def _between(grid: Array, points: Array) -> Placement:
    """Points between the neighbours of an ascending grid, inside its range."""
    lower = np.clip(np.searchsorted(grid, points, side="right") - 1, 0, None)
    upper = np.minimum(lower + 1, len(grid) - 1)
    return Placement(lower, upper, divide(points - grid[lower], grid[upper] - grid[lower]))


def _ranks(order: NDArray[np.intp], q: Array) -> Placement:
    """Each token on a row of its own, in the given order."""
    rank = np.argsort(order, axis=-1, kind="stable")
    return Placement(rank, rank, q * 0)


def _check_sums(what: str, laws: Array, rounded: bool) -> None:
    error = np.max(abs(laws.sum(axis=-1) - 1))
    if not error <= (SUM_TOLERANCE if rounded else 0):  # so that NaN fails
        raise ValueError(f"a {what} is off its sum 1 by {error}; divide it by its sum")
