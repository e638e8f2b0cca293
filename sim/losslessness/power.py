"""Power of the joint test: what a sample can find, and how large a sample has to be.

Under a law p' the Pearson statistic of n strings is nearly non-central chi-square with
non-centrality n lambda, lambda = sum (p' - p)^2 / p, and bins - 1 degrees of freedom. By
Cauchy-Schwarz lambda >= 4 TV(p', p)^2, so every law at total variation sqrt(ncp / (4 n)) or more
is found with the power that belongs to ``ncp``: the *detectable TV* of the sample. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

Floats = NDArray[np.float64]
Law = Mapping[Any, Any] | ArrayLike

LEVEL = 1e-9
"""Default false-alarm probability of one test."""
POWER = 0.999
"""Default power: the test misses with probability 1 - POWER."""
MIN_EXPECTED = 5.0
"""Smallest expected count of a bin."""


def noncentrality(law: Law, alternative: Law) -> float:
    """lambda = sum (p' - p)^2 / p per sample; infinite if p' reaches a string p cannot."""
    other, p, _ = aligned(alternative, law)
    if (other[p == 0] > 0).any():
        return math.inf
    return float(((other[p > 0] - p[p > 0]) ** 2 / p[p > 0]).sum())


def power_against(law: Law, alternative: Law, n: int, level: float = LEVEL) -> float:
    """Probability that ``n`` samples of the alternative are rejected (non-central chi-square).

    An alternative with strings of probability zero is counted as found only with the chance that
    one of them is seen.
    """
    check_level(level)
    other, p, _ = aligned(alternative, law)
    outside = float(other[p == 0].sum())
    if outside > 0:
        return -math.expm1(n * math.log1p(-outside)) if outside < 1 else 1.0
    groups = merge(p, n)
    bins = int(groups.max()) + 1
    merged_p, merged_other = np.bincount(groups, p, bins), np.bincount(groups, other, bins)
    ncp = n * float(((merged_other - merged_p) ** 2 / merged_p).sum())
    return _power_at(ncp, bins - 1, level)


def sample_size(law: Law, alternative: Law, level: float = LEVEL, power: float = POWER) -> float:
    """Samples (a real number) at which the alternative is rejected with the given power.

    Raises:
        ValueError: the alternative equals the law, or rates outside (0, 1).
    """
    _, p, _ = aligned(alternative, law)
    rate = noncentrality(law, alternative)
    if rate == 0:
        raise ValueError("the alternative equals the law; no sample size tells them apart")
    if math.isinf(rate):
        other, p, _ = aligned(alternative, law)
        outside = float(other[p == 0].sum())
        return math.log1p(-power) / math.log1p(-outside) if outside < 1 else 1.0
    return needed_ncp(int((p > 0).sum()) - 1, level, power) / rate


@cache
def needed_ncp(df: int, level: float = LEVEL, power: float = POWER) -> float:
    """Non-centrality at which a chi-square test of ``level`` has the given power.

    Raises:
        ValueError: no degree of freedom, or rates outside (0, 1) or with power <= level.
    """
    check_level(level)
    if df < 1 or not level < power < 1:
        raise ValueError(f"df={df}, level={level}, power={power}; use df >= 1, level < power < 1")
    high = 1.0
    while _power_at(high, df, level) < power:
        high *= 2
    root = optimize.brentq(lambda ncp: _power_at(ncp, df, level) - power, 0.0, high, xtol=1e-10)
    return float(root)


def detectable_tv(n: int, df: int, level: float = LEVEL, power: float = POWER) -> float:
    """Total variation from which on every alternative is found with the given power.

    1 where there is nothing to compare (a single bin).
    """
    return min(1.0, math.sqrt(needed_ncp(df, level, power) / (4 * n))) if df > 0 else 1.0


def passes_any(single_power: float, runs: int) -> float:
    """Probability that a fault passes a rule "green if any of ``runs`` runs is green"."""
    return float(1 - single_power**runs)


def false_alarm(level: float, seeds: int) -> float:
    """False-alarm rate of a rule "red if any of ``seeds`` independent tests is red"."""
    return -math.expm1(seeds * math.log1p(-level))


def same_string(law: Law) -> float:
    """Probability that two independent correct runs give the same string: sum p^2."""
    _, p, _ = aligned(law, law)
    return float((p**2).sum())


def _power_at(ncp: float, df: int, level: float) -> float:
    if df < 1:
        return level
    return float(stats.ncx2.sf(stats.chi2.isf(level, df), df, ncp))


def merge(p: Floats, n: int) -> NDArray[np.int64]:
    """Bin number of every string; bins of expected count below ``MIN_EXPECTED`` become one.

    Strings of probability zero get bin 0 and are left out by the caller.
    """
    order = np.argsort(p, kind="stable")
    order = order[p[order] > 0]
    cumulative = np.cumsum(p[order]) * n
    small = int((n * p[order] < MIN_EXPECTED).sum())
    if small:
        enough = int(np.searchsorted(cumulative, MIN_EXPECTED * (1 - 1e-12))) + 1
        small = min(max(small, enough), order.size)
    groups = np.zeros(p.size, dtype=np.int64)
    first = 1 if small else 0
    groups[order[small:]] = np.arange(order.size - small) + first
    return groups


def aligned(first: Law, law: Law) -> tuple[Floats, Floats, list[Any]]:
    """Two arrays over the same strings, with the strings' names."""
    if isinstance(law, Mapping) != isinstance(first, Mapping):
        raise ValueError("give both as mappings from strings, or both as arrays")
    if isinstance(law, Mapping) and isinstance(first, Mapping):
        names = sorted(set(law) | set(first))
        p = np.array([float(law.get(name, 0)) for name in names])
        values = np.array([float(first.get(name, 0)) for name in names])
    else:
        p = np.asarray(law, dtype=np.float64)
        values = np.asarray(first, dtype=np.float64)
        if p.shape != values.shape:
            raise ValueError(f"shapes differ: {values.shape} against the law's {p.shape}")
        p, values = p.reshape(-1), values.reshape(-1)
        names = list(range(p.size))
    if (p < 0).any() or not abs(p.sum() - 1) < 1e-9:
        raise ValueError(f"the law sums to {p.sum():.12g} with smallest entry {p.min():.3g}")
    return values, p, names


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; give a probability between 0 and 1, such as 1e-9")
