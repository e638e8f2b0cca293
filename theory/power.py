"""Power of a test of losslessness: what a sample can find, and how large a sample has to be.

A verifier that should emit strings by the law p but emits them by p' is found by Pearson's test on
n strings: its statistic is nearly non-central chi-square with df = bins - 1 and non-centrality
n lambda, where

    lambda = sum over strings of (p' - p)^2 / p          (exact when both laws are rational).

Laws are those of whole strings (``theory.generation``), because a faulty block rule can have every
marginal right. By Cauchy-Schwarz lambda >= 4 TV(p', p)^2, so every law at total variation
sqrt(ncp / (4 n)) or more is found with the power that belongs to ``ncp``: the *detectable TV* of
the sample. Strings of small expected count are merged before the data are seen (:func:`merge`),
which the test itself must do in the same way. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from theory.fields import FLOAT, Number, field_of, to_fraction

Floats = NDArray[np.float64]
Law = Mapping[Any, Any] | ArrayLike
"""Probabilities (or counts) by string, or an array over all strings."""

LEVEL = 1e-9
"""Default false-alarm probability of one test."""
POWER = 0.999
"""Default power: the test misses with probability 1 - POWER."""
MIN_EXPECTED = 5.0
"""Smallest expected count of a bin."""


def noncentrality(law: Law, alternative: Law) -> Number:
    """lambda = sum (p' - p)^2 / p per sample; infinite if p' reaches a string p cannot.

    A ``Fraction`` when both are mappings to rationals, else a float.
    """
    other, p, names = aligned(alternative, law)
    if (other[p == 0] > 0).any():
        return math.inf
    if not _rational(law, alternative):
        return float(((other[p > 0] - p[p > 0]) ** 2 / p[p > 0]).sum())
    pairs = _fractions(law, alternative, names)
    return sum(((b - a) ** 2 / a for a, b in pairs if a), start=to_fraction(0))


def pearson_mean(law: Law, alternative: Law, n: int) -> Number:
    """The exact mean of Pearson's statistic of ``n`` samples of the alternative, without merging.

    sum p'(1 - p')/p + n lambda, which df + n lambda approximates; exact as ``noncentrality`` is.

    Raises:
        ValueError: the alternative reaches a string of probability zero.
    """
    rate = noncentrality(law, alternative)
    if rate == math.inf:
        raise ValueError("the alternative reaches a string of probability zero; the mean is inf")
    other, p, names = aligned(alternative, law)
    if not _rational(law, alternative):
        kept = p > 0
        return float((other[kept] * (1 - other[kept]) / p[kept]).sum()) + n * rate
    pairs = _fractions(law, alternative, names)
    return sum((b * (1 - b) / a for a, b in pairs if a), start=n * rate)


def critical_value(df: int, level: float = LEVEL) -> float:
    """The value that a chi-square statistic exceeds with probability ``level``."""
    check_level(level)
    return float(stats.chi2.isf(level, df))


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
    rate, df = _merged(p, other, n)
    return power_at(n * rate, df, level)


def sample_size(law: Law, alternative: Law, level: float = LEVEL, power: float = POWER) -> float:
    """Samples (a real number) at which the alternative is rejected with the given power.

    Strings are merged as they will be at that size, so that the next integer really has the power.

    Raises:
        ValueError: the alternative equals the law, or rates outside (0, 1).
    """
    least = needed_ncp(1, level, power)
    rate = float(noncentrality(law, alternative))
    if rate == 0:
        raise ValueError("the alternative equals the law; no sample size tells them apart")
    other, p, _ = aligned(alternative, law)
    if math.isinf(rate):
        outside = float(other[p == 0].sum())
        return math.log1p(-power) / math.log1p(-outside) if outside < 1 else 1.0
    n = least / rate  # merging lowers both df and lambda, so no smaller sample is enough
    while True:
        merged_rate, df = _merged(p, other, math.ceil(n))
        enough = needed_ncp(df, level, power) / merged_rate if df and merged_rate else math.inf
        if enough <= n:
            return n
        n = min(enough, 2 * n)


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
    while power_at(high, df, level) < power:
        high *= 2
    root = optimize.brentq(lambda ncp: power_at(ncp, df, level) - power, 0.0, high, xtol=1e-10)
    return float(root)


def power_at(ncp: float, df: int, level: float = LEVEL) -> float:
    """Power of a chi-square test of ``level`` at a non-centrality; ``level`` for a single bin."""
    if df < 1:
        return level
    return float(stats.ncx2.sf(stats.chi2.isf(level, df), df, ncp))


def detectable_tv(
    n: int, df: int, level: float = LEVEL, power: float = POWER, hidden: float = 0.0
) -> float:
    """Total variation from which on every alternative is found with the given power.

    Args:
        hidden: mass of the strings that share a bin (:func:`hidden_mass`). Faults inside a bin are
            invisible, and TV(p', p) is at most their mass more than the distance of the binned
            laws; with 0 the answer is about the binned laws.

    1 where there is nothing to compare (a single bin).
    """
    if df < 1:
        return 1.0
    return min(1.0, hidden + math.sqrt(needed_ncp(df, level, power) / (4 * n)))


def passes_any(single_power: float, runs: int) -> float:
    """Probability that a fault passes a rule "green if any of ``runs`` runs is green"."""
    return float(1 - single_power**runs)


def false_alarm(level: float, seeds: int) -> float:
    """False-alarm rate of a rule "red if any of ``seeds`` independent tests is red"."""
    return -math.expm1(seeds * math.log1p(-level))


def same_string(law: Law) -> Number:
    """Probability that two independent correct runs give the same string: sum p^2."""
    _, p, names = aligned(law, law)
    if not _rational(law):
        return float((p**2).sum())
    return sum((a * b for a, b in _fractions(law, law, names)), start=to_fraction(0))


def merge(p: Floats, n: int) -> NDArray[np.int64]:
    """Bin number of every string; bins of expected count below ``MIN_EXPECTED`` become one.

    That one absorbs further small bins until it is large enough. Strings of probability zero get
    bin 0 and are left out by the caller.
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


def hidden_mass(p: Floats, n: int) -> float:
    """Probability of the strings that :func:`merge` puts into one bin with others."""
    groups = merge(p, n)[p > 0]
    shared = np.bincount(groups)[groups] > 1
    return float(p[p > 0][shared].sum())


def aligned(first: Law, law: Law) -> tuple[Floats, Floats, list[Any]]:
    """Two arrays over the same strings, with the strings' names.

    Raises:
        ValueError: a mapping beside an array, shapes that differ, or a law that sums to no 1.
    """
    if isinstance(law, Mapping) != isinstance(first, Mapping):
        raise ValueError("give both as mappings from strings, or both as arrays")
    if isinstance(law, Mapping) and isinstance(first, Mapping):
        names = sorted(set(law) | set(first))
        p = np.array([_float(law.get(name, 0)) for name in names])
        values = np.array([_float(first.get(name, 0)) for name in names])
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
    """Check a false-alarm probability.

    Raises:
        ValueError: not in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; give a probability between 0 and 1, such as 1e-9")


def _merged(p: Floats, other: Floats, n: int) -> tuple[float, int]:
    """lambda and the degrees of freedom that are left once strings are merged for ``n``."""
    groups = merge(p, n)
    bins = int(groups.max()) + 1
    merged, shifted = np.bincount(groups, p, bins), np.bincount(groups, other, bins)
    return float(((shifted - merged) ** 2 / merged).sum()), bins - 1


def _float(value: Number) -> float:
    return float(value) if field_of(value) is FLOAT else float(to_fraction(value))


def _rational(*laws: Law) -> bool:
    """Whether all laws are mappings without floats."""
    return all(
        isinstance(law, Mapping) and all(field_of(value) is not FLOAT for value in law.values())
        for law in laws
    )


def _fractions(law: Law, alternative: Law, names: list[Any]) -> list[tuple[Any, Any]]:
    assert isinstance(law, Mapping)
    assert isinstance(alternative, Mapping)
    return [(to_fraction(law.get(x, 0)), to_fraction(alternative.get(x, 0))) for x in names]
