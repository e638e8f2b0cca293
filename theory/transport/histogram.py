"""alpha* from a histogram of p/q: the acceptance that selection with B labels attains.

With the labels of ``theory.marks`` (masses w_b, values z_b) the best winner law accepts

    min_j [ sum_x min(p(x), z_j q(x)) + H(z_j) ] ,      H(t) = sum_b w_b (z_b - t)_+ ,

so only the masses of p and q between neighbouring z_j matter: one pass, no sort. The value lies
in [alpha* - gap, alpha*], gap = ``theory.marks.Cells.gap``, about (K - 1)/(2 K B^2). Derived here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from theory.fields import FLOAT, Array, field_of
from theory.marks.labels import cells as label_cells
from theory.transport.one_position import (
    check_rows,
    ratio_cells,
    sums_before,
    sums_from,
    tokens_in,
)


def histogram_gap(num_drafts: int, cells: int) -> float:
    """How far below alpha* the histogram value can be, whatever the rows."""
    return label_cells(num_drafts, cells).gap()


def alpha_star_histogram(
    p: Iterable[Any] | str, q: Iterable[Any] | str, num_drafts: int, cells: int = 64
) -> float:
    """The acceptance probability attained with ``cells`` labels, in float64.

    It lies in ``[alpha* - histogram_gap(num_drafts, cells), alpha*]``; exact for one draft.

    Raises:
        ValueError: rows that are no float laws or differ in length, fewer than one draft or cell.
    """
    p, q = check_rows(p, q, num_drafts)
    if field_of(p) is not FLOAT:
        raise ValueError("the histogram form works in float64; use alpha_star for exact rows")
    labels = label_cells(num_drafts, cells)
    z = labels.values
    offered = sums_from(labels.masses * z)[:-1] - z * (1 - labels.edges[:-1])
    return float(min(_smallest(p, q, num_drafts, z, offered), 1.0))


def _smallest(p: Array, q: Array, num_drafts: int, z: Array, offered: Array) -> float:
    """The minimum over j of sum min(p, z_j q) + offered_j.

    The part of the sum in one cell of ratios is concave in z_j, hence above its chord: that leaves
    few j for which the tokens in the cell of z_j must be looked at one by one.
    """
    cell, mass_p, mass_q, scale = ratio_cells(p, q, num_drafts)
    home = np.minimum(z * scale, len(mass_p) - 1).astype(np.intp)
    share = z * scale - home
    chord = (1 - share) * home / scale * mass_q[home] + share * mass_p[home]
    rest = sums_before(mass_p)[home] + z * sums_from(mass_q)[home + 1] + offered
    best = (rest + np.minimum(mass_p[home], z * mass_q[home])).min()
    near = np.flatnonzero(rest + chord < best)
    mixed = np.zeros(len(mass_p), dtype=bool)
    mixed[home[near]] = True
    single = tokens_in(mixed, cell)
    for j in near:
        here = single[cell[single] == home[j]]
        best = min(best, rest[j] + np.minimum(p[here], z[j] * q[here]).sum())
    return float(best)
