"""How much a clairvoyant window can gain over the best fixed one.

**Theorem** (i.i.d. acceptance, derived here). For all alpha < 1 and c > 0,

    max_gamma S_gamma >= (1 - 1/e) S_or ,   i.e.  oracle / best fixed < e/(e - 1) = 1.5820,

and the better of gamma = floor(Nbar) - 1 and ceil(Nbar) - 1, windows that do not look at c, already
attains it. Proof: with n = gamma + 1, n1 = floor(Nbar), n2 = ceil(Nbar), s = Nbar - n1, the larger
of the two values (1 - alpha^n)/(1 + c(n - 1)) is at least their mediant with weights 1 - s and s,
[1 - (1 - s) alpha^n1 - s alpha^n2] / (1 + c(Nbar - 1)), and alpha^n1 (1 - s/Nbar) <= e^(-n1/Nbar)
e^(-s/Nbar) = 1/e. It is tight: alpha -> 1 with c = (1 - alpha)/(e - 2) (:func:`extremal_cost`); in
that limit, with x = (1 - alpha) gamma*, the ratio is 1/(1 - x e^(-x)) at c/(1 - alpha) =
1/(e^x - x - 1), largest at x = 1.

So an oracle that is 1.4 times faster than the best fixed window shows nothing about how well the
best length can be predicted: a fair coin of constant bias does that. The same numbers against
S_vis, which only sees a doomed token after drafting it, are smaller (``ceiling="visible"``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from theory.windows import iid

BOUND = math.e / (math.e - 1)
"""oracle / best fixed stays below this for every alpha and c."""

Ceiling = Literal["oracle", "visible"]

_GRID = 1500
"""Points at which a curve in alpha is sampled before it is refined."""


def fixed_at_mean(alpha: float, c: float) -> float:
    """The better speed of the two windows around Nbar - 1, which ignore c.

    Raises:
        ValueError: alpha = 1.
    """
    if alpha == 1:
        raise ValueError("alpha 1: rounds never end and have no mean length")
    mean = 1 / (1 - alpha)
    return float(max(iid.fixed(alpha, n - 1, c) for n in (math.floor(mean), math.ceil(mean))))


def ratio(alpha: float, c: float, ceiling: Ceiling = "oracle") -> float:
    """Ceiling / best fixed window, for 0 < c < 1."""
    top = iid.oracle if ceiling == "oracle" else iid.visible
    return float(top(float(alpha), float(c)) / iid.best_fixed(float(alpha), float(c))[1])


def worst(c: float, ceiling: Ceiling = "oracle") -> tuple[float, float]:
    """The largest ratio over alpha, and the alpha where it stands."""
    alphas = _alphas(c)
    values = [ratio(alpha, c, ceiling) for alpha in alphas]
    best: tuple[float, float] = (0.0, 0.0)
    for i in np.argsort(values)[-8:]:  # the curve has a kink wherever the best gamma changes
        low, high = alphas[max(i - 1, 0)], alphas[min(i + 1, len(alphas) - 1)]
        found = minimize_scalar(
            lambda a: -ratio(a, c, ceiling), bounds=(low, high), options={"xatol": 1e-10}
        )
        best = max(best, (-float(found.fun), float(found.x)))
    return best


def region(c: float, level: float, ceiling: Ceiling = "oracle") -> tuple[float, float] | None:
    """Smallest and largest alpha at which the ratio reaches ``level``; None if none does."""
    alphas = _alphas(c)
    inside = np.flatnonzero([ratio(alpha, c, ceiling) >= level for alpha in alphas])
    if len(inside) == 0:
        return None

    def crossing(i: int, j: int) -> float:
        return _root(lambda a: ratio(a, c, ceiling) - level, alphas[i], alphas[j])

    first, last = int(inside[0]), int(inside[-1])
    return crossing(first - 1, first), crossing(last, last + 1)


def largest_cost(level: float, ceiling: Ceiling = "oracle") -> float:
    """The largest c at which some alpha makes the ratio reach ``level`` (below the bound)."""
    return _root(lambda c: worst(c, ceiling)[0] - level, 0.02, 0.98)


def extremal_cost(alpha: float, x: float = 1.0) -> float:
    """c = (1 - alpha)/(e^x - x - 1): the family along which the ratio tends to ``limit_ratio(x)``.

    With x = 1 it tends to the bound.
    """
    return (1 - alpha) / (math.exp(x) - x - 1)


def limit_ratio(x: float) -> float:
    """1/(1 - x e^(-x)): the ratio for alpha -> 1 along ``extremal_cost(alpha, x)``."""
    return 1 / (1 - x * math.exp(-x))


def _alphas(c: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A grid of alpha in (0, 1), finer towards 1 on the scale of c."""
    logs = np.geomspace(1e-3 * c, 1.0, _GRID)
    return np.sort(1 - logs[logs < 1])


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(f, low, high, xtol=1e-12))
