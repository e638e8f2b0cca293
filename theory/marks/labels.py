"""The cells of a mark: how finely the K drafts compare themselves.

Give each of K i.i.d. drafts an independent uniform mark U and let the highest mark win. Given its
mark u, a draft wins with density K u^(K-1) relative to being a draft at all, so a winner has law
G = Q T with T(x) = E[Z | x], Z = K U^(K-1), when marks depend on tokens. Marks are kept only up to
a cell of [0, 1]: the *label* b of a mark in [u_b, u_(b+1)) has probability w_b and the value

    z_b = E[Z | label b] = (u_(b+1)^K - u_b^K) / w_b .

Coarse labels lose at most :meth:`Cells.gap` acceptance at one position, and never correctness.
Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from theory.fields import EXACT, FLOAT, Array, Field, Number, get_field
from theory.inputs import whole


@dataclass(frozen=True, eq=False)
class Cells:
    """Labels 0..B-1 of a mark under K drafts.

    Attributes:
        num_drafts: K.
        edges: [B + 1] ascending from 0 to 1.
        masses: [B] w_b, the law of a label; the label law at the root.
        values: [B] z_b, ascending from near 0 to near K, with mean 1 under ``masses``.
    """

    num_drafts: int
    edges: Array
    masses: Array
    values: Array

    def gap(self) -> float:
        """Largest loss of acceptance at one position against a continuous mark.

        It is the largest distance between u^K and its chord over a cell: at most
        K(K-1)/(8 B^2) for equal cells, about (K-1)/(2 K B^2) for edges (j/B)^(2/K).
        """
        k = self.num_drafts
        if k == 1:
            return 0.0
        low = np.asarray(self.edges[:-1], dtype=np.float64)
        slope = np.asarray(self.values, dtype=np.float64)
        touch = (slope / k) ** (1 / (k - 1))
        return float((low**k + slope * (touch - low) - touch**k).max())


@lru_cache(maxsize=64)
def cells(num_drafts: int, count: int, field: Field | str = FLOAT) -> Cells:
    """``count`` cells for ``num_drafts`` drafts; equal arguments give the same object.

    Edges are j/B in EXACT, which has no roots, and (j/B)^(2/K) in FLOAT, which nearly minimises
    the gap.

    Raises:
        ValueError: fewer than one draft or cell, or a symbolic field.
    """
    field = get_field(field)
    num_drafts, count = whole(num_drafts, "num_drafts"), whole(count, "cells")
    if field is EXACT:
        edges = field.array([f"{j}/{count}" for j in range(count + 1)])
    elif field is FLOAT:
        edges = np.linspace(0.0, 1.0, count + 1) ** (2 / num_drafts)
    else:
        raise ValueError("labels are compared with numbers; use field='exact' or 'float'")
    return cells_between(num_drafts, edges)


def cells_between(num_drafts: int, edges: Array) -> Cells:
    """The cells with the given edges, ascending from 0 to 1.

    A winner law G is attained without any loss by cells whose edges are the draft masses of the
    sets {G/Q <= t}: the labels then allow exactly what a continuous mark allows.
    """
    values = [_power_slope(low, high, num_drafts) for low, high in pairwise(edges)]
    return Cells(num_drafts, edges, np.diff(edges), np.array(values, dtype=edges.dtype))


def _power_slope(low: Number, high: Number, k: int) -> Number:
    """``(high^k - low^k) / (high - low)`` without the cancellation."""
    return sum(high**i * low ** (k - 1 - i) for i in range(k))
