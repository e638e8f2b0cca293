"""alpha* from a histogram of p/q: the value that selection with B labels attains.

In selection by labels every draft draws one of B labels and the largest wins
(``theory.transport.selection``). Label cells [u_j, u_{j+1}) of [0, 1], u_j = (j/B)^(2/K), have
masses w_j = u_{j+1} - u_j and values z_j = (u_{j+1}^K - u_j^K)/w_j; the best winner law then
accepts

    1 - max_j [ sum (p - z_j q)_+ - H(z_j) ] ,      H(t) = sum_b w_b (z_b - t)_+ ,

so only the masses of p and q between neighbouring z_j are needed: one pass, no sort. The value
lies in [alpha* - gap, alpha*], gap being the largest distance of phi_K from its chord over a cell,
about (K - 1)/(2 K B^2). Derived here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from theory.fields import FLOAT, Array, field_of
from theory.transport.one_position import (
    check_rows,
    ratio_cells,
    sums_before,
    sums_from,
    tokens_in,
)


def label_cells(num_drafts: int, cells: int) -> tuple[Array, Array]:
    """Edges ``u`` (cells + 1) and values ``z`` (cells) of the label grid.

    Raises:
        ValueError: fewer than one draft or cell.
    """
    if num_drafts < 1 or cells < 1:
        raise ValueError(f"num_drafts {num_drafts} and cells {cells} must be 1 or more")
    u = (np.arange(cells + 1) / cells) ** (2 / num_drafts)
    powers = [u[1:] ** i * u[:-1] ** (num_drafts - 1 - i) for i in range(num_drafts)]
    return u, np.sum(powers, axis=0)


def histogram_gap(num_drafts: int, cells: int) -> float:
    """How far below alpha* the histogram value can be, whatever the rows."""
    if num_drafts == 1:
        return 0.0
    u, z = label_cells(num_drafts, cells)
    touching = (z / num_drafts) ** (1 / (num_drafts - 1))
    chord = u[:-1] ** num_drafts + z * (touching - u[:-1])
    return float((chord - touching**num_drafts).max())


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
    u, z = label_cells(num_drafts, cells)
    lost = sums_from(np.diff(u) * z)[:-1] - z * (1 - u[:-1])
    return float(min(_smallest(p, q, num_drafts, z, lost), 1.0))


def _smallest(p: Array, q: Array, num_drafts: int, z: Array, lost: Array) -> float:
    """The minimum over j of sum min(p, z_j q) + lost_j.

    The sum over one cell of ratios is concave in z_j, hence above its chord: that leaves few j for
    which the tokens in the cell of z_j must be looked at one by one.
    """
    cell, mass_p, mass_q, scale = ratio_cells(p, q, num_drafts)
    home = np.minimum(z * scale, len(mass_p) - 1).astype(np.intp)
    share = z * scale - home
    low = (1 - share) * home / scale * mass_q[home] + share * mass_p[home]
    rest = sums_before(mass_p)[home] + z * sums_from(mass_q)[home + 1] + lost
    best = (rest + np.minimum(mass_p[home], z * mass_q[home])).min()
    mixed = np.zeros(len(mass_p), dtype=bool)
    near = np.flatnonzero(rest + low < best)
    mixed[home[near]] = True
    single = tokens_in(mixed, cell)
    for j in near:
        here = single[cell[single] == home[j]]
        best = min(best, rest[j] + np.minimum(p[here], z[j] * q[here]).sum())
    return float(best)
