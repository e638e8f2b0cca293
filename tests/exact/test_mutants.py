"""Exact laws of the mutants: known wrong answers, and distances that vanish where they should."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from sim.mutants import MUTANTS, Mutant
from sim.mutants.exact import correct_length, exact_distance, generation, laws
from theory.fields import EXACT, to_fraction
from theory.models import MarkovModel

P, Q = ("1/2", "3/10", "1/5"), ("3/5", "1/5", "1/5")


def first_token(name: str, p: tuple[str, ...], q: tuple[str, ...]) -> list[Fraction]:
    """Law of the first token of a full round of one draft."""
    mutant = replace(MUTANTS[name], gamma=1)
    law = generation(mutant, MarkovModel(p), MarkovModel(q), horizon=2).tokens
    first = [Fraction(0)] * len(p)
    for string, mass in law.items():
        first[string[0]] += to_fraction(mass)
    return first


@pytest.mark.parametrize(
    ("name", "p", "q", "wrong"),
    [
        ("residual_from_target", P, Q, ("11/20", "23/100", "11/50")),
        ("always_accept", P, Q, Q),
        ("argmax_draft_soft_law", P, Q, ("5/6", "1/6", "0")),
        (
            "residual_at_index",
            ("1/5", "3/10", "1/2"),
            ("1/2", "3/10", "1/5"),
            ("1/5", "33/80", "31/80"),
        ),
        ("ensemble_bonus", ("1/3", "2/3"), ("2/3", "1/3"), ("1/2", "1/2")),
        ("ensemble_unmarked", ("1/3", "2/3"), ("2/3", "1/3"), ("1/2", "1/2")),
    ],
)
def test_known_wrong_laws(
    name: str, p: tuple[str, ...], q: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    assert first_token(name, p, q) == [Fraction(x) for x in wrong]


def test_filter_after_recording() -> None:
    """Every draft is kept and the text follows the filtered q: TV 1/15."""
    law = first_token(
        "top_k_after_recording", ("3/5", "2/5", "0", "0"), ("2/5", "1/5", *["1/5"] * 2)
    )
    assert law == [Fraction(2, 3), Fraction(1, 3), 0, 0]


def test_argmax_rows_repeat_the_argmax_and_sample_the_bonus() -> None:
    law = generation(MUTANTS["argmax_rows"], MarkovModel(P), MarkovModel(["1", "0", "0"]), 3).tokens
    assert {string[:2] for string in law} == {(0, 0)}
    assert [to_fraction(law[0, 0, x]) for x in range(3)] == [Fraction(x) for x in P]


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_laws_are_laws_and_distances_tell_the_evidence(mutant: Mutant) -> None:
    correct, wrong = laws(mutant)
    total = sum(wrong.values())
    assert total == 1 if mutant.exact else total == pytest.approx(1, abs=1e-12)
    assert (exact_distance(mutant) > 0) == (mutant.found_by == "law")
    assert set(correct) <= set(wrong) | {s for s, mass in correct.items() if mass == 0} or (
        mutant.found_by == "law"
    )


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_without_its_fault_it_is_lossless(mutant: Mutant) -> None:
    assert exact_distance(replace(mutant.corrected(), exact=True)) == 0


def test_length_of_the_correct_rule() -> None:
    """Token verification on one row: sum of the first two powers of the overlap 7/10."""
    assert correct_length(MUTANTS["always_accept"], "flat") == pytest.approx(0.7 + 0.49, abs=1e-12)


def test_stale_rows_and_caches_hide_where_rows_are_equal() -> None:
    for name in ("stale_row", "cache_of_other_request", "cache_trimmed_too_far"):
        assert exact_distance(MUTANTS[name], "flat") == 0
        assert exact_distance(MUTANTS[name]) > Fraction(1, 4)
    assert EXACT.public(exact_distance(MUTANTS["token_residual_in_block"])) > 0
