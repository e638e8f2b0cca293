"""Estimates of expected lengths and of probabilities, with intervals of a stated error rate.

Every interval covers the true value except with probability at most ``error`` (two-sided, split
evenly):

* ``clopper_pearson``: exact for a probability (inversion of the binomial law).
* ``empirical_bernstein``: exact for the mean of independent values in a known range (Maurer and
  Pontil 2009, Theorem 4): |mean - mu| <= sqrt(2 v L / n) + 7 r L / (3 (n - 1)), where v is the
  sample variance, r the range and L = log(4/error).
* ``normal``: the central limit theorem; shorter, but only asymptotic, and far in the tail (error
  1e-9) only trustworthy for large n and bounded values.

The Rao-Blackwellised estimate of E[tau] replaces the coin of every round by the probability that
the drafted path is accepted to depth i (``sim.rounds.simulate_survival``): the same mean, a
smaller variance, and the same range.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


class Interval(NamedTuple):
    """An estimate and an interval that misses the truth with probability at most ``error``."""

    estimate: float
    low: float
    high: float
    error: float
    method: str

    def contains(self, value: float) -> bool:
        """Whether ``value`` lies in the closed interval."""
        return self.low <= value <= self.high


def clopper_pearson(successes: int, trials: int, error: float = 1e-9) -> Interval:
    """Exact interval for a probability.

    Raises:
        ValueError: no trials, successes outside 0..trials, or an error outside (0, 1).
    """
    _check_error(error)
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials; give 0 <= successes <= trials")
    failures, half = trials - successes, error / 2
    low = 0.0 if successes == 0 else float(stats.beta.ppf(half, successes, failures + 1))
    high = 1.0 if failures == 0 else float(stats.beta.isf(half, successes + 1, failures))
    return Interval(successes / trials, low, high, error, "clopper-pearson")


def empirical_bernstein(
    values: ArrayLike, low: float, high: float, error: float = 1e-9
) -> Interval:
    """Finite-sample interval for the mean of independent values in [low, high].

    Raises:
        ValueError: fewer than two values, values outside the range, an error outside (0, 1).
    """
    _check_error(error)
    sample = _sample(values)
    if sample.min() < low or sample.max() > high:
        raise ValueError(
            f"values lie in [{sample.min():.6g}, {sample.max():.6g}], outside the stated range "
            f"[{low:.6g}, {high:.6g}]; state the range that the values cannot leave"
        )
    n, mean, log_term = sample.size, float(sample.mean()), math.log(4 / error)
    variance = float(sample.var(ddof=1))
    width = math.sqrt(2 * variance * log_term / n) + 7 * (high - low) * log_term / (3 * (n - 1))
    return Interval(
        mean, max(low, mean - width), min(high, mean + width), error, "empirical-bernstein"
    )


def normal(values: ArrayLike, error: float = 1e-9) -> Interval:
    """Asymptotic interval for the mean of independent values.

    Raises:
        ValueError: fewer than two values, or an error outside (0, 1).
    """
    _check_error(error)
    sample = _sample(values)
    mean, spread = float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(sample.size)
    width = float(stats.norm.isf(error / 2)) * spread
    return Interval(mean, mean - width, mean + width, error, "normal")


def expected_accepted(accepted: ArrayLike, gamma: int, error: float = 1e-9) -> Interval:
    """E[tau] from accepted lengths [n] of independent rounds, empirical Bernstein on [0, gamma].

    Raises:
        ValueError: as ``empirical_bernstein``.
    """
    return empirical_bernstein(accepted, 0.0, float(gamma), error)


def expected_accepted_paths(survival: ArrayLike, error: float = 1e-9) -> Interval:
    """E[tau] from path probabilities P(tau >= i | drafts) [n, gamma] (Rao-Blackwell).

    Raises:
        ValueError: an array of another rank, or as ``empirical_bernstein``.
    """
    paths = np.asarray(survival, dtype=np.float64)
    if paths.ndim != 2:
        raise ValueError(f"survival has shape {paths.shape}; give [rounds, gamma]")
    gamma = float(paths.shape[1])
    return empirical_bernstein(np.clip(paths.sum(axis=1), 0.0, gamma), 0.0, gamma, error)


def rounds_needed(variance: float, span: float, width: float, error: float = 1e-9) -> int:
    """Rounds for an empirical Bernstein interval of half-width ``width``.

    Args:
        variance: variance of one value. span: length of its range (gamma for E[tau]).

    Raises:
        ValueError: a width that is not positive, or an error outside (0, 1).
    """
    _check_error(error)
    if width <= 0:
        raise ValueError(f"width is {width}; ask for a positive half-width")
    log_term = math.log(4 / error)
    a, b = math.sqrt(2 * variance * log_term), 7 * span * log_term / 3
    root = (a + math.sqrt(a * a + 4 * width * b)) / (2 * width)
    return math.ceil(root * root) + 1


def _sample(values: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    sample = np.asarray(values, dtype=np.float64).reshape(-1)
    if sample.size < 2:
        raise ValueError(f"{sample.size} values; an interval needs at least two")
    return sample


def _check_error(error: float) -> None:
    if not 0 < error < 1:
        raise ValueError(f"error is {error}; give a probability between 0 and 1, such as 1e-9")
