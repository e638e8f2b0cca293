"""Fixed-sample test of the joint law of the first N tokens against an exact law.

Counts of whole strings are compared, not of single positions: a faulty block rule can have every
marginal right. Strings are merged before the data are seen: all bins of expected count below
``MIN_EXPECTED`` become one, which absorbs further small bins until it is large enough.

* Pearson: X = sum (O - E)^2 / E; likelihood ratio: G = 2 sum O log(O/E); both are chi-square with
  bins - 1 degrees of freedom in the limit (nothing is estimated from the data).
* ``p_bound``: a finite-sample bound, P(G >= g) <= exp(-g/2) (e g / (2 k))^k for g > 2 k, where
  k = bins - 1 (Agrawal 2020, Theorem I.2); valid at every n, without any limit.
* An observed string of probability zero is a violation with certainty: p = 0.

The power of the test, and the sample size it needs, are in ``theory.power``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from theory.power import (
    LEVEL,
    Law,
    aligned,
    check_level,
    detectable_tv,
    hidden_mass,
    merge,
)

MAX_TABLES = 2_000_000
"""Most count tables that ``exact_multinomial`` enumerates."""


@dataclass(frozen=True)
class JointResult:
    """Outcome of a joint test; ``p_value`` belongs to ``statistic`` (Pearson).

    impossible: observed strings of probability zero. detectable_tv: every law at this total
    variation or more would have been rejected with probability ``POWER`` (merged bins included).
    """

    statistic: float
    df: int
    p_value: float
    g_statistic: float
    g_p_value: float
    p_bound: float
    level: float
    n: int
    impossible: tuple[Any, ...]
    detectable_tv: float

    @property
    def rejected(self) -> bool:
        """Whether the law is rejected at ``level``."""
        return bool(self.impossible) or self.p_value < self.level


def joint_test(counts: Law, law: Law, level: float = LEVEL) -> JointResult:
    """Test counts of strings against their exact law.

    Args:
        counts, law: both arrays over the same strings, or both mappings from strings.

    Raises:
        ValueError: shapes that differ, a law that does not sum to 1, no observation, or a level
            outside (0, 1).
    """
    check_level(level)
    observed, p, names = aligned(counts, law)
    n = int(observed.sum())
    if n < 1:
        raise ValueError("there are no observations; count at least one string")
    impossible = tuple(names[i] for i in np.flatnonzero((p == 0) & (observed > 0)))
    groups = merge(p, n)
    bins = int(groups.max()) + 1
    o = np.bincount(groups[p > 0], observed[p > 0], bins)
    e = n * np.bincount(groups[p > 0], p[p > 0], bins)
    statistic = float(((o - e) ** 2 / e).sum())
    g = float(2 * special.xlogy(o, o / e).sum())
    df = bins - 1
    certain = bool(impossible)
    return JointResult(
        statistic=math.inf if certain else statistic,
        df=df,
        p_value=0.0 if certain else pearson_p(statistic, df),
        g_statistic=math.inf if certain else g,
        g_p_value=0.0 if certain else pearson_p(g, df),
        p_bound=0.0 if certain else finite_sample_bound(g, df),
        level=level,
        n=n,
        impossible=impossible,
        detectable_tv=detectable_tv(n, df, level, hidden=hidden_mass(p, n)),
    )


def pearson_p(statistic: float, df: int) -> float:
    """P(chi-square with ``df`` degrees of freedom >= statistic); 1 for a single bin."""
    return float(stats.chi2.sf(statistic, df)) if df > 0 else 1.0


def finite_sample_bound(g: float, df: int) -> float:
    """Upper bound of P(G >= g) at every sample size (Agrawal 2020)."""
    if df == 0 or g <= 2 * df:
        return 1.0
    return min(1.0, math.exp(-g / 2 + df * (1 + math.log(g / (2 * df)))))


def exact_multinomial(counts: Law, law: Law) -> float:
    """Exact p-value for small samples: the probability of all tables no likelier than this one.

    Raises:
        ValueError: more than ``MAX_TABLES`` tables, or inputs as in ``joint_test``.
    """
    observed, p, _ = aligned(counts, law)
    if ((p == 0) & (observed > 0)).any():
        return 0.0
    observed, p = observed[p > 0], p[p > 0]
    n, bins = int(observed.sum()), p.size
    tables = math.comb(n + bins - 1, bins - 1)
    if tables > MAX_TABLES:
        raise ValueError(f"{tables} tables of {n} counts in {bins} bins; use joint_test")
    bars = np.array(list(combinations(range(n + bins - 1), bins - 1)), dtype=np.int64)
    ends = np.full((tables, 1), n + bins - 1)
    edges = np.concatenate([np.full((tables, 1), -1), bars.reshape(tables, -1), ends], axis=1)
    log_prob = _log_probability(np.diff(edges, axis=1) - 1, p)
    limit = float(_log_probability(observed[None, :], p)[0]) + 1e-9
    return min(1.0, float(np.exp(log_prob[log_prob <= limit]).sum()))


def _log_probability(tables: NDArray[Any], p: NDArray[np.float64]) -> NDArray[np.float64]:
    n = tables.sum(axis=1)
    logs = special.gammaln(n + 1) + (special.xlogy(tables, p) - special.gammaln(tables + 1)).sum(
        axis=1
    )
    return np.asarray(logs, dtype=np.float64)
