"""Joint law of the first tokens over several rounds, on context-dependent models.

Every test has a false-alarm probability of 1e-9 and power 0.999 against its negative control, a
mutant: the sample size comes from the mutant's exact distance to the target. A pass therefore says
something.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sim.estimators import expected_accepted, expected_accepted_paths
from sim.losslessness.joint import joint_test
from sim.mutants import MUTANTS, Mutant
from sim.mutants.simulate import simulate
from sim.mutants.table import fixed_sizes, string_laws
from sim.rounds import simulate_generations, simulate_rounds, simulate_survival
from sim.rows import RowTable, string_law, string_numbers
from sim.testing import random_pair
from sim.verifiers import VERIFIERS, ArrayVerifier
from theory.power import LEVEL, POWER

GAMMA, HORIZON, VOCAB = 3, 4, 3
STRINGS = VOCAB**HORIZON

LAW_MUTANTS = [mutant for mutant in MUTANTS.values() if mutant.found_by == "law"]


@cache
def pair() -> tuple[RowTable, RowTable]:
    return random_pair(np.random.default_rng(5), VOCAB, HORIZON - 1 + GAMMA)


@cache
def target_law() -> np.ndarray:
    return string_law(pair()[0], HORIZON)


@cache
def counts(rule: ArrayVerifier, n: int, seed: int) -> np.ndarray:
    drafts = 2 if rule.multi_draft else 1
    rng = np.random.default_rng(seed)
    run = simulate_generations(*pair(), rule, GAMMA, drafts, HORIZON, n, rng, workers=2)
    return np.bincount(string_numbers(run.tokens, VOCAB), minlength=STRINGS)


def rejected(mutant: Mutant, n: int, law: np.ndarray, seed: int) -> bool:
    tokens = simulate(mutant, n, np.random.default_rng(seed), workers=2).tokens
    found = np.bincount(string_numbers(tokens, VOCAB), minlength=STRINGS)
    return joint_test(found, law, LEVEL).rejected


@pytest.mark.parametrize("mutant", LAW_MUTANTS, ids=lambda mutant: mutant.name)
def test_rule_is_lossless_and_its_mutant_is_found(mutant: Mutant) -> None:
    n, law = fixed_sizes(mutant)["joint"], string_laws(mutant)[0].reshape(-1)
    assert rejected(mutant, n, law, 2), f"not found with {n} samples at power {POWER}"
    right = string_laws(mutant.corrected())[0].reshape(-1)
    assert not rejected(mutant.corrected(), max(n, 20_000), right, 3)


@pytest.mark.parametrize("rule", list(VERIFIERS.values()), ids=lambda rule: rule.name)
def test_rules_are_lossless_at_two_percent(rule: ArrayVerifier) -> None:
    """Every fault of total variation 0.022 would be found (power 0.999 at level 1e-9)."""
    result = joint_test(counts(rule, 100_000, 4), target_law(), LEVEL)
    assert result.detectable_tv < 0.022
    assert not result.rejected


def test_rows_with_zeros_and_equal_rows() -> None:
    """Losslessness where supports differ; a string of probability zero would be certain proof."""
    models = random_pair(np.random.default_rng(9), 3, HORIZON - 1 + GAMMA, awkward=0.5, equal=0.2)
    law = string_law(models[0], HORIZON)
    assert (law == 0).sum() > 10
    for index, rule in enumerate(VERIFIERS.values()):
        drafts = 3 if rule.multi_draft else 1
        rng = np.random.default_rng(20 + index)
        run = simulate_generations(*models, rule, GAMMA, drafts, HORIZON, 60_000, rng)
        found = np.bincount(string_numbers(run.tokens, VOCAB), minlength=STRINGS)
        result = joint_test(found, law, LEVEL)
        assert result.impossible == ()
        assert not result.rejected, (rule.name, result.p_value)


def test_length_mutant_keeps_the_law_and_loses_length() -> None:
    """The law test must pass it; the length, pinned by two intervals, must expose it."""
    mutant, n = MUTANTS["draft_as_point_mass"], 50_000
    assert not joint_test(counts(mutant.verifier, n, 6), target_law(), LEVEL).rejected
    rng = np.random.default_rng(7)
    paths = simulate_survival(*pair(), "token", GAMMA, 1, n, rng)
    exact = expected_accepted_paths(paths)
    good = expected_accepted(simulate_rounds(*pair(), "token", GAMMA, 1, n, rng), GAMMA)
    bad = expected_accepted(simulate_rounds(*pair(), mutant.verifier, GAMMA, 1, n, rng), GAMMA)
    assert good.low < exact.high
    assert exact.low < good.high
    assert bad.high < exact.low


def test_tie_mutant_needs_a_forced_uniform() -> None:
    """p(x) = 0 and u = 0: the closed comparison accepts a token that the target cannot emit."""
    args = (
        np.log([[[[0.5, 0.5, 1e-300], [0.2, 0.4, 0.4]]]]),
        np.log([[[[0.5, 0.25, 0.25]]]]),
        np.array([[[2]]]),
        np.zeros((1, 2)),
    )
    args[0][0, 0, 0, 2] = -np.inf
    assert VERIFIERS["token"].verify(*args).accepted[0] == 0
    assert MUTANTS["closed_comparison"].verifier.verify(*args).accepted[0] == 1


def test_stale_rows_are_invisible_when_all_rows_are_equal() -> None:
    """Why the models depend on the context: with one row everywhere the mutant is exact."""
    from sim.rows import tabulate
    from sim.testing import Levels, random_rows

    rng = np.random.default_rng(3)
    flat = [tabulate(Levels((random_rows(rng, 1, VOCAB),)), 0, order=0) for _ in range(2)]
    mutant = MUTANTS["stale_row"].verifier
    runs = [
        simulate_generations(*flat, rule, GAMMA, 1, HORIZON, 20_000, np.random.default_rng(1))
        for rule in (mutant, VERIFIERS["block"])
    ]
    np.testing.assert_array_equal(runs[0].tokens, runs[1].tokens)
