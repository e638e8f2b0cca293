"""Non-centrality, critical values, power and sample sizes of the test of losslessness."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import MarkovModel
from theory.drafting import fixed
from theory.effects import Effects
from theory.fields import minimum, to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.models import Prefix, Rows
from theory.power import (
    critical_value,
    detectable_tv,
    false_alarm,
    hidden_mass,
    merge,
    needed_ncp,
    noncentrality,
    passes_any,
    pearson_mean,
    power_against,
    power_at,
    same_string,
    sample_size,
)
from theory.verifiers.common import Carry, Round, load_program

F = Fraction
EXACT_LAW = {0: F(1, 2), 1: F(3, 10), 2: F(1, 5)}
TARGET = MarkovModel(
    ["1/2", "1/4", "1/4"],
    [["1/5", "2/5", "2/5"], ["1/3", "1/3", "1/3"], ["1/2", "1/3", "1/6"]],
)
DRAFT = MarkovModel(
    ["1/4", "1/4", "1/2"],
    [["1/2", "1/4", "1/4"], ["1/6", "1/3", "1/2"], ["1/5", "1/5", "3/5"]],
)


def test_two_percent_fault() -> None:
    law, faulty = {0: 0.5, 1: 0.3, 2: 0.2}, {0: 0.52, 1: 0.28, 2: 0.2}
    assert abs(critical_value(2, 1e-6) - 27.631021115928547) < 1e-9
    assert abs(noncentrality(law, faulty) - 0.0021333333333333334) < 1e-12
    assert abs(sample_size(law, faulty, 1e-6, 0.99) - 26390.539257479675) < 1e-6
    assert abs(power_against(law, faulty, 2000, 1e-6) - 0.0011729632941939528) < 1e-12
    as_arrays = [list(law.values()), list(faulty.values())]
    assert sample_size(*as_arrays, 1e-6, 0.99) == sample_size(law, faulty, 1e-6, 0.99)


def test_five_percent_fault_is_a_negative_control() -> None:
    faulty = {0: F(11, 20), 1: F(51, 200), 2: F(39, 200)}
    n = 20000
    assert distance(EXACT_LAW, faulty) == F(1, 20)  # type: ignore[arg-type]
    assert 2 + n * noncentrality(EXACT_LAW, faulty) == F(479, 2)
    assert pearson_mean(EXACT_LAW, faulty, n) == F(239413125, 10**6)
    assert power_against(EXACT_LAW, faulty, n, 1e-6) > 1 - 1e-12
    floats = [{x: float(value) for x, value in law.items()} for law in (EXACT_LAW, faulty)]
    assert abs(pearson_mean(*floats, n) - 239.413125) < 1e-9


def test_the_mean_of_the_statistic_is_the_multinomial_one() -> None:
    """Every table of 4 draws, in rationals."""
    faulty, n = {0: F(1, 3), 1: F(1, 3), 2: F(1, 3)}, 4
    total = F(0)
    for a in range(n + 1):
        for b in range(n + 1 - a):
            table = (a, b, n - a - b)
            ways = F(math.factorial(n), math.prod(math.factorial(x) for x in table))
            weight = ways * math.prod(faulty[x] ** count for x, count in enumerate(table))
            total += weight * sum(
                (count - n * EXACT_LAW[x]) ** 2 / (n * EXACT_LAW[x])
                for x, count in enumerate(table)
            )
    assert pearson_mean(EXACT_LAW, faulty, n) == total


@pytest.mark.parametrize(
    ("df", "rate", "samples"), [(80, 1e-3, 185_000), (80, 1e-2, 18_500), (2, 1e-3, 89_600)]
)
def test_sample_sizes_at_the_default_rates(df: int, rate: float, samples: int) -> None:
    assert abs(needed_ncp(df) / rate / samples - 1) < 1e-3


def _reference_power(ncp: float, df: int, level: float) -> float:
    """Poisson mixture of central chi-square tails in 50 digits; no scipy."""
    with mpmath.workdps(50):

        def tail(k: float, x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.gammainc(mpmath.mpf(k) / 2, x / 2, regularized=True)

        start = df + 8 * math.sqrt(2 * df * math.log(1 / level)) / 2
        critical = mpmath.findroot(lambda x: mpmath.log(tail(df, x) / level), start)
        half, total, weight = mpmath.mpf(ncp) / 2, mpmath.mpf(0), mpmath.exp(-mpmath.mpf(ncp) / 2)
        for j in range(int(half + 12 * mpmath.sqrt(half) + 60)):
            total += weight * tail(df + 2 * j, critical)
            weight *= half / (j + 1)
        return float(total)


@pytest.mark.parametrize(("df", "level"), [(1, 1e-9), (2, 1e-9), (80, 1e-9), (80, 1e-12)])
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_power_against_a_high_precision_sum(df: int, level: float, share: float) -> None:
    ncp = share * needed_ncp(df, level)
    assert power_at(ncp, df, level) == pytest.approx(_reference_power(ncp, df, level), rel=1e-7)


@pytest.mark.parametrize("df", [1, 3, 80, 1000, 20_000])
@pytest.mark.parametrize("level", [1e-3, 1e-9, 1e-15])
def test_power_is_sane_at_the_ends(df: int, level: float) -> None:
    assert power_at(0.0, df, level) == pytest.approx(level, rel=1e-6)
    ncp = needed_ncp(df, level)
    assert power_at(ncp, df, level) == pytest.approx(0.999, abs=1e-9)
    curve = [power_at(share * ncp, df, level) for share in np.linspace(0, 2, 21)]
    assert all(a <= b for a, b in pairwise(curve))
    assert 1 - curve[-1] < 1e-6


probabilities = st.lists(st.integers(1, 40), min_size=3, max_size=8)


@settings(max_examples=15)
@given(probabilities, st.data())
def test_detectable_tv_is_detectable(weights: list[int], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.integers(1, 40), min_size=len(weights), max_size=len(weights)))
    law = {x: F(w, sum(weights)) for x, w in enumerate(weights)}
    faulty = {x: F(w, sum(other)) for x, w in enumerate(other)}
    gap = distance(law, faulty)  # type: ignore[arg-type]
    assert noncentrality(law, faulty) >= 4 * gap**2
    if gap == 0:
        return
    assert power_against(law, faulty, math.ceil(sample_size(law, faulty))) >= 0.999 * (1 - 1e-12)
    p = np.array([float(mass) for mass in law.values()])
    n = math.ceil(needed_ncp(len(p) - 1) / (4 * float(gap) ** 2))
    found = detectable_tv(n, int(merge(p, n).max()), hidden=hidden_mass(p, n))
    assert gap < found or power_against(law, faulty, n) >= 0.999 * (1 - 1e-12)
    unmerged = math.ceil(max(n, 5 / p.min() + 1))
    assert hidden_mass(p, unmerged) == 0
    assert detectable_tv(unmerged, len(p) - 1) <= gap
    assert power_against(law, faulty, unmerged) >= 0.999 * (1 - 1e-12)


def test_merging_hides_faults() -> None:
    """At n = 37 all three strings share one bin, so a fault of TV 47/60 passes."""
    law, faulty = [1 / 15, 1 / 15, 13 / 15], [1 / 12, 5 / 6, 1 / 12]
    bins = np.array([1 / 15, 14 / 15])
    assert merge(np.array(law), 37).tolist() == [0, 0, 0]
    assert power_against(law, faulty, 37) == 1e-9
    assert detectable_tv(37, 0) == 1
    assert hidden_mass(np.array(law), 37) == pytest.approx(1)
    assert hidden_mass(bins, 100) == 0
    assert detectable_tv(100, 1, hidden=0.25) == pytest.approx(0.25 + detectable_tv(100, 1))


def test_sample_size_takes_merging_into_account() -> None:
    """A fault among strings so rare that they stay one bin: what counts is that bin."""
    rare = 2**-18
    law = np.array([0.5 - 2**-12, 0.5, *[rare] * 64])
    moved = law.copy()
    moved[2:34] += rare / 4
    moved[34:] -= rare / 4
    n = sample_size(law, moved)
    assert merge(law, math.ceil(n)).max() == law.size - 1  # no smaller sample sees the fault
    assert power_against(law, moved, math.ceil(n) // 20) < 1e-3
    lifted = law.copy()
    lifted[2:] *= 3
    lifted[0] -= 128 * rare
    n = sample_size(law, lifted)
    assert merge(law, math.ceil(n)).max() < law.size - 1
    assert power_against(law, lifted, math.ceil(n)) >= 0.999
    assert power_against(law, lifted, int(0.9 * n)) < 0.999


def test_merged_bins_are_large_enough() -> None:
    law = np.array([0.4, 0.3, 0.2, 0.06, 0.03, 0.0099, 0.0001, 0.0])
    groups = merge(law, 100)
    sizes = np.bincount(groups[law > 0], 100 * law[law > 0])
    assert sizes.min() >= 5
    assert len(sizes) == 4  # 3 + 0.99 + 0.01 are not enough, so 6 joins them
    everything = merge(law, 3)
    assert everything.max() == 0


def test_unreachable_strings_are_found_by_sight() -> None:
    law, outside = {0: F(1), 1: F(0)}, {0: F(9, 10), 1: F(1, 10)}
    assert noncentrality(law, outside) == math.inf
    assert power_against(law, outside, 10) == pytest.approx(1 - 0.9**10)
    n = sample_size(law, outside, power=0.99)
    assert 0.9**n == pytest.approx(0.01)
    assert sample_size({0: F(1)}, {1: F(1)}) == 1
    with pytest.raises(ValueError, match="inf"):
        pearson_mean(law, outside, 10)


def test_rules_about_repeated_runs() -> None:
    assert abs(passes_any(0.9, 3) - 0.271) < 1e-12
    assert abs(false_alarm(0.01, 3) - 0.029700999999999977) < 1e-15
    assert same_string(EXACT_LAW) ** 4 == F(130321, 6250000)


def unscaled_block(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """Block verification whose correction forgets the running ratio: norm((p - q)_+)."""
    outcome = load_program("block")(fx, target, draft, drafts, carry)
    tau = outcome.accepted
    if tau in (0, len(drafts[0])):
        return outcome
    kept = outcome.tokens[:tau]
    p, q = target(kept), draft(kept)
    rest = p - minimum(p, q)
    if not rest.any():
        return outcome
    return Round(tau, (*kept, fx.choose(rest / rest.sum(), "again")))


def test_a_faulty_block_rule_needs_the_joint_law() -> None:
    """Its first token is right, its pairs are not; the sample size follows exactly."""
    faulty = generate(Decoder(TARGET, DRAFT, unscaled_block, fixed(2)), 3).tokens
    truth = autoregressive(TARGET, 3)
    first = [{x: F(0) for x in range(3)} for _ in range(2)]
    for law, marginal in zip((faulty, truth), first, strict=True):
        for string, weight in law.items():
            marginal[string[0]] += to_fraction(weight)
    assert first[0] == first[1]
    rate = noncentrality(truth, faulty)
    assert isinstance(rate, Fraction)
    assert rate > 0
    n = math.ceil(sample_size(truth, faulty))
    assert n == math.ceil(needed_ncp(len(truth) - 1) / rate)
    correct = generate(Decoder(TARGET, DRAFT, load_program("block"), fixed(2)), 3).tokens
    assert noncentrality(truth, correct) == 0
    with pytest.raises(ValueError, match="no sample size"):
        sample_size(truth, correct)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: critical_value(2, 0.0), "level is 0.0"),
        (lambda: needed_ncp(0), "df=0"),
        (lambda: needed_ncp(3, 0.5, 0.4), "power=0.4"),
        (lambda: power_against({0: 1}, [1.0], 5), "both as mappings"),
        (lambda: power_against([0.5, 0.5], [1.0], 5), "shapes differ"),
        (lambda: power_against([0.5, 0.6], [0.5, 0.5], 5), "sums to 1.1"),
    ],
)
def test_errors_name_the_value(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
