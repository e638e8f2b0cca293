"""The f-divergences D_f(nu, p) = sum p f(nu/p) as measures of faithfulness.

All are convex with f(1) = 0, and zero at nu = p. ``slope`` is lim f(t)/t for large t: what a unit
of mass costs where p = 0. Values and slopes in float64; TV and chi2 are exact on exact rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from theory.fields import Array, Number, divide
from theory.laws import f_divergence, total_variation


@dataclass(frozen=True)
class Divergence:
    """One f-divergence.

    Attributes:
        f: the convex function, on arrays of ratios nu/p.
        derivative: f', on arrays; -inf at 0 where f has no finite slope there.
        slope: lim f(t)/t.
    """

    f: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    slope: float

    def __call__(self, p: Array, nu: Array) -> float:
        """D_f(nu, p) in float64."""
        return float(f_divergence(p, nu, self.f, self.slope))


def _log(t: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(t))


def _entropy_term(t: Array) -> Array:
    return np.asarray(t * np.log(np.where(t > 0, t, 1.0)))


def _inverse(t: Array) -> Array:
    blank = np.full(np.shape(t), np.inf)
    return np.asarray(np.divide(1.0, t, out=blank, where=np.asarray(t) > 0))


DIVERGENCES: dict[str, Divergence] = {
    "tv": Divergence(lambda t: abs(t - 1) / 2, lambda t: np.sign(t - 1) / 2, 0.5),
    "kl": Divergence(lambda t: -_log(t), lambda t: -_inverse(t), 0.0),
    "reverse_kl": Divergence(_entropy_term, lambda t: _log(t) + 1, np.inf),
    "chi2": Divergence(lambda t: (t - 1) ** 2, lambda t: 2 * (t - 1), np.inf),
    "hellinger": Divergence(
        lambda t: (np.sqrt(t) - 1) ** 2, lambda t: 1 - np.sqrt(_inverse(t)), 1.0
    ),
    "js": Divergence(
        lambda t: (_entropy_term(t) - (1 + t) * np.log((1 + t) / 2)) / 2,
        lambda t: (_log(t) - np.log((1 + t) / 2)) / 2,
        np.log(2) / 2,
    ),
}
"""By name: ``kl`` is KL(p || nu), ``reverse_kl`` KL(nu || p); ``hellinger`` is sum (sqrt - sqrt)^2,
``js`` the Jensen-Shannon divergence, both logarithms in nats."""


def chi2(p: Array, nu: Array) -> Number:
    """sum (nu - p)^2 / p in the field of the rows (nu must live on the support of p)."""
    return divide((nu - p) ** 2, p).sum()


def measure(name: str, p: Array, nu: Array) -> Number:
    """The divergence called ``name``: TV in the field of the rows, the others in float64.

    Raises:
        ValueError: unknown name.
    """
    if name == "tv":
        return total_variation(p, nu)
    if name not in DIVERGENCES:
        raise ValueError(f"unknown divergence {name!r}; choose one of {', '.join(DIVERGENCES)}")
    return DIVERGENCES[name](p, nu)
