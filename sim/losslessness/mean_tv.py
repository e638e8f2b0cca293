"""A confidence sequence for the mean conditional total variation, from below.

For a set (or fuzzy set) f_t of tokens chosen before the token is seen,

    E[f_t(x_t) | past] - E_p f_t  <=  TV(law of x_t, p_t),

so the mean of these differences bounds the mean conditional TV from below. With
Y_t = f_t(x_t), D_t = Y_t - E_p f_t and V = sum D_t^2 the process

    exp(lambda sum (Y_t - E[Y_t | past]) - psi(lambda) V),  psi(x) = -log(1 - x) - x

is a supermartingale for 0 <= lambda < 1 (Howard, Ramdas, McAuliffe, Sekhon 2021, Theorem 4, with
the prediction E_p f_t). By a union over lambdas, sets and signs, all these bounds hold at all
sample sizes at once, except with probability ``error``:

    mean TV  >=  mean D - (log(M/error) + psi(lambda) V) / (lambda n),   M = sets * signs * lambdas.

There is no upper bound without assumptions: a fault may hide between the sets. What the sample
would have shown is stated per set instead (:meth:`MeanTV.detectable`).

The sets: the likeliest tokens of mass tau, the k likeliest tokens, and {q > p} with draft rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from sim.losslessness.observations import EDGES, Floats, Summary, covered, inside

MASSES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
LAMBDAS = 2.0 ** -np.arange(1, 13)


def sets(draft: bool) -> tuple[str, ...]:
    """Names of the sets."""
    names = [f"likeliest tokens of mass {mass:g}" for mass in MASSES]
    names += ["the likeliest token" if k == 1 else f"the {k} likeliest tokens" for k in EDGES]
    return (*names, "tokens with q > p") if draft else tuple(names)


def differences(summary: Summary) -> Floats:
    """D of every token, [n, sets]."""
    columns = [covered(summary, MASSES) - MASSES, inside(summary) - summary.heads]
    if summary.wins is not None:
        columns.append(summary.wins[:, :1] - summary.wins[:, 1:])
    return np.concatenate(columns, axis=1)


@dataclass
class MeanTV:
    """Running sums of the sets: names, n, sum D and sum D^2."""

    names: tuple[str, ...] = ()
    n: int = 0
    total: Floats = field(default_factory=lambda: np.zeros(0))
    squares: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, summary: Summary) -> None:
        """Add tokens."""
        if not self.n:
            self.names = sets(summary.wins is not None)
            self.total, self.squares = np.zeros(len(self.names)), np.zeros(len(self.names))
        found = differences(summary)
        self.n += len(found)
        self.total = self.total + found.sum(axis=0)
        self.squares = self.squares + (found**2).sum(axis=0)

    def widths(self, error: float) -> Floats:
        """How far below its mean difference the bound of each set lies, [sets]."""
        tests = 2 * max(len(self.names), 1) * len(LAMBDAS)
        psi = -np.log1p(-LAMBDAS) - LAMBDAS
        spent = math.log(tests / error) + psi * self.squares[:, None]
        return np.asarray((spent / (LAMBDAS * max(self.n, 1))).min(axis=1), dtype=np.float64)

    def lower(self, error: float) -> tuple[float, str]:
        """The lower bound of the mean conditional TV, and the set that gives it."""
        if not self.n:
            return 0.0, ""
        bounds = np.abs(self.total) / self.n - self.widths(error)
        best = int(np.argmax(bounds))
        return (float(bounds[best]), self.names[best]) if bounds[best] > 0 else (0.0, "")

    def detectable(self, error: float, power: float) -> dict[str, float]:
        """Mean mass moved into or out of each set that would have shown with this power.

        The bound would have risen above 0; the chance of missing it is by the normal law.
        """
        if not self.n:
            return {}
        spread = np.sqrt(self.squares) / self.n
        shift = self.widths(error) + float(stats.norm.isf(1 - power)) * spread
        varied = self.squares > 0  # a set that holds every token tells nothing
        names = zip(self.names, shift, varied, strict=True)
        return {name: min(1.0, float(x)) for name, x, used in names if used}
