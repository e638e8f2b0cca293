"""Mutants as arrays against their exact laws, and the table of what each test sees."""

from __future__ import annotations

import numpy as np
import pytest

from sim.losslessness.joint import joint_test
from sim.mutants import MUTANTS, Mutant
from sim.mutants.pairs import HORIZON, VOCAB, pair
from sim.mutants.simulate import simulate
from sim.mutants.table import OURS, TESTS, fixed_sizes, string_laws, table
from sim.rows import string_numbers

TEXTS = 30_000
INDEPENDENT = [m for m in MUTANTS.values() if m.found_by != "dependence"]


def counts(mutant: Mutant, n: int, seed: int) -> np.ndarray:
    tokens = simulate(mutant, n, np.random.default_rng(seed)).tokens
    return np.bincount(string_numbers(tokens, VOCAB), minlength=VOCAB**HORIZON)


@pytest.mark.parametrize("mutant", INDEPENDENT, ids=lambda mutant: mutant.name)
def test_array_follows_the_exact_law(mutant: Mutant) -> None:
    """Level 1e-9; another law at TV 0.05 or more would be found with power 0.999."""
    law = string_laws(mutant)[1].reshape(-1)
    result = joint_test(counts(mutant, TEXTS, 1), law)
    assert not result.rejected, result
    assert result.detectable_tv < 0.1


@pytest.mark.parametrize(
    "mutant", [m for m in INDEPENDENT if m.found_by == "law"], ids=lambda mutant: mutant.name
)
def test_found_at_the_predicted_size(mutant: Mutant) -> None:
    """Power 0.999 at the size that the exact distance gives; 60 seeds, at most 3 misses."""
    correct, wrong = string_laws(mutant)
    n = fixed_sizes(mutant)["joint"]
    draws = np.random.default_rng(2).multinomial(n, wrong.reshape(-1), 60)
    missed = sum(not joint_test(row, correct.reshape(-1)).rejected for row in draws)
    assert missed <= 3  # more have probability 5e-7
    half = np.random.default_rng(3).multinomial(max(n // 4, 1), wrong.reshape(-1), 60)
    if n > 400:  # control: a quarter of the sample is not enough
        assert sum(not joint_test(row, correct.reshape(-1)).rejected for row in half) > 3


def test_table_of_a_hidden_fault() -> None:
    """A stale row: every public design is blind, the library's tests are not."""
    (line,) = table(["stale_row"])
    assert list(line.found_by) == list(TESTS)
    assert [test for test, found in line.found_by.items() if found] == ["joint", "audit"]
    assert line.fixed is not None
    assert line.audited is not None
    assert line.audited <= 3 * line.fixed[1]


def test_table_of_a_coarse_fault_and_of_a_length_fault() -> None:
    always, length = table(["always_accept", "draft_as_point_mass"])
    assert all(always.found_by[test] for test in OURS)
    assert not always.found_by["mean_length"]  # it accepts more, not less
    assert [test for test, found in length.found_by.items() if found] == ["length", "mean_length"]
    assert length.samples is None


def test_texts_that_share_their_stream_are_found_by_repetition() -> None:
    (line,) = table(["shared_stream"])
    assert line.distance == 0
    assert line.found_by["audit"]
    assert line.audited is not None
    assert line.audited < 100


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="no mutant 'nobody'"):
        table(["nobody"])
    with pytest.raises(ValueError, match="choose dense, sparse, flat or greedy"):
        pair("round")
