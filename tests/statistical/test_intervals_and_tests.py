"""Tests of the tests: size on the true law, power on a faulty one, coverage of intervals.

Counts of misses are compared with their binomial law at 1e-9, so each assertion has a stated
false-alarm rate; each has a control that must fail it.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sim.estimators import Interval, clopper_pearson, empirical_bernstein, normal, rounds_needed
from sim.losslessness.joint import exact_multinomial, finite_sample_bound, joint_test, pearson_p
from theory.power import noncentrality, power_against, sample_size

LAW = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
FAULTY = np.array([0.44, 0.22, 0.14, 0.1, 0.06, 0.04])
RUNS = 2000


def too_many(count: int, rate: float) -> bool:
    """Whether ``count`` of ``RUNS`` has probability below 1e-9 at this rate."""
    return bool(stats.binom.sf(count - 1, RUNS, rate) < 1e-9)


def test_size_of_the_joint_test() -> None:
    draws = np.random.default_rng(0).multinomial(500, LAW, RUNS)
    results = [joint_test(row, LAW, level=0.01) for row in draws]
    assert not too_many(sum(r.rejected for r in results), 0.013)
    assert not too_many(sum(r.p_bound < 0.01 for r in results), 0.01)
    # Control: subtracting three degrees of freedom that were never estimated.
    wrong = sum(pearson_p(r.statistic, r.df - 3) < 0.01 for r in results)
    assert too_many(wrong, 0.013)


def test_power_is_what_it_says() -> None:
    n, level = 3000, 1e-3
    expected = power_against(LAW, FAULTY, n, level)
    draws = np.random.default_rng(1).multinomial(n, FAULTY, RUNS)
    found = sum(joint_test(row, LAW, level).rejected for row in draws)
    assert 0.3 < expected < 0.9
    low, high = stats.binom.interval(1 - 1e-9, RUNS, expected)
    assert low - 0.02 * RUNS <= found <= high + 0.02 * RUNS


def test_sample_size_reaches_its_power() -> None:
    n = int(np.ceil(sample_size(LAW, FAULTY, level=1e-6, power=0.99)))
    assert power_against(LAW, FAULTY, n, 1e-6) == pytest.approx(0.99, abs=1e-3)
    draws = np.random.default_rng(2).multinomial(n, FAULTY, RUNS)
    missed = sum(not joint_test(row, LAW, 1e-6).rejected for row in draws)
    assert not too_many(missed, 0.015)


def test_exact_multinomial_has_the_right_size_for_tiny_samples() -> None:
    law = np.array([0.7, 0.2, 0.1])
    draws = np.random.default_rng(3).multinomial(12, law, RUNS)
    p_values = np.array([exact_multinomial(row, law) for row in draws])
    assert not too_many(int((p_values <= 0.05).sum()), 0.05)
    assert exact_multinomial([0, 0, 12], law) < 1e-9


def test_exact_multinomial_is_the_binomial_test() -> None:
    for successes in range(11):
        expected = stats.binomtest(successes, 10, 0.3).pvalue
        found = exact_multinomial([successes, 10 - successes], [0.3, 0.7])
        assert found == pytest.approx(expected, rel=1e-9)


def test_merging_looks_at_the_law_only() -> None:
    """Rare strings are pooled by expected counts; an impossible one is certain proof."""
    law = np.array([0.5, 0.4, 0.04, 0.03, 0.02, 0.01, 0.0])
    result = joint_test([50, 40, 4, 3, 2, 1, 0], law)
    assert result.df == 2  # 0.5, 0.4 and the rest (10 expected)
    broken = joint_test([50, 40, 4, 3, 2, 0, 1], law)
    assert broken.rejected
    assert broken.impossible == (6,)
    assert noncentrality([1.0, 0.0], [0.5, 0.5]) == np.inf
    # The rest alone (2 expected) is too small, so it takes in the next bin.
    assert joint_test([50, 50, 0, 0], [0.5, 0.48, 0.01, 0.01]).df == 1


def test_bound_dominates_the_limit_law() -> None:
    for df in (1, 5, 80):
        for g in (2.5 * df, 10 * df, 40 * df):
            assert finite_sample_bound(g, df) >= pearson_p(g, df)


def misses(make: str, scale: float = 1.0) -> int:
    """Intervals of error 0.05 for the mean 0.3 of skewed values that miss it."""
    rng, count = np.random.default_rng(4), 0
    for _ in range(RUNS):
        hits = rng.random(80) < 0.3
        interval: Interval = {
            "clopper-pearson": lambda h: clopper_pearson(int(h.sum()), h.size, 0.05),
            "empirical-bernstein": lambda h: empirical_bernstein(h, 0, 1, 0.05),
            "normal": lambda h: normal(h, 0.05),
        }[make](hits)
        half = scale * (interval.high - interval.low) / 2
        middle = (interval.high + interval.low) / 2
        count += not middle - half <= 0.3 <= middle + half
    return count


def test_coverage_of_intervals() -> None:
    assert not too_many(misses("clopper-pearson"), 0.05)
    assert not too_many(misses("empirical-bernstein"), 0.05)
    assert not too_many(misses("normal"), 0.07)
    assert too_many(misses("clopper-pearson", scale=0.7), 0.05)  # control


def test_interval_edges_and_errors() -> None:
    assert clopper_pearson(0, 10).low == 0.0
    assert clopper_pearson(10, 10).high == 1.0
    with pytest.raises(ValueError, match="11 successes of 10"):
        clopper_pearson(11, 10)
    with pytest.raises(ValueError, match="outside the stated range"):
        empirical_bernstein([0.0, 4.0], 0.0, 3.0)
    with pytest.raises(ValueError, match="at least two"):
        empirical_bernstein([1.0], 0.0, 3.0)
    with pytest.raises(ValueError, match="error is 0"):
        normal([1.0, 2.0], 0.0)


def test_rounds_needed_gives_the_width() -> None:
    n = rounds_needed(variance=1.0, span=3.0, width=0.05)
    values = np.tile([0.5, 2.5], n // 2 + 1)[:n]
    interval = empirical_bernstein(values, 0.0, 3.0)
    assert interval.high - interval.low <= 0.1 + 1e-6
    assert interval.high - interval.low > 0.099
