"""Every published claim: its verdict is the recorded one, and its command repeats its number."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from papers_check.claims import CLAIMS, Claim, Verdict, finding, table
from papers_check.cli import main
from papers_check.numbers import encode

ROOT = Path(__file__).parents[2]
NAMES = [claim.name for claim in CLAIMS]
WITH_COMMAND = [claim for claim in CLAIMS if claim.command]


@pytest.mark.parametrize("claim", CLAIMS, ids=NAMES)
def test_each_claim_has_its_recorded_verdict(claim: Claim) -> None:
    found = finding(claim)
    assert found.verdict == claim.expected, (found.numbers, found.note)
    assert found.note
    assert (found.verdict == Verdict.UNCHECKABLE) or found.numbers
    encode(found.numbers)


def test_claims_are_many_distinct_and_mostly_decided_exactly() -> None:
    assert len(set(NAMES)) == len(CLAIMS) >= 60
    assert len({claim.statement for claim in CLAIMS}) == len(CLAIMS)
    verdicts = Counter(claim.expected for claim in CLAIMS)
    assert set(verdicts) == set(Verdict)
    assert verdicts[Verdict.HOLDS] + verdicts[Verdict.FAILS] >= 40


def test_a_claim_that_fails_says_so_with_a_certificate() -> None:
    for claim in CLAIMS:
        found = finding(claim)
        if found.verdict == Verdict.FAILS:
            assert found.certificate is not None, claim.name
        if found.certificate is not None:
            assert found.certificate["name"] == claim.name


def numbers_in(text: str) -> set[float]:
    """The numbers of a JSON text, fractions among them, to twelve digits."""
    for mark in '",:{}[]':
        text = text.replace(mark, " ")
    found = set()
    for word in text.split():
        with contextlib.suppress(ValueError):
            found.add(rounded(Fraction(word)))
    return found


def rounded(value: Fraction) -> float:
    return float(f"{float(value):.12g}")


@pytest.mark.parametrize("claim", WITH_COMMAND, ids=[claim.name for claim in WITH_COMMAND])
def test_the_command_repeats_a_number_of_the_finding(claim: Claim) -> None:
    program, *arguments = shlex.split(claim.command)
    assert program == "specproof"
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        main([*arguments, "--json"])
    values = [v for v in finding(claim).numbers.values() if isinstance(v, Fraction)]
    assert numbers_in(output.getvalue()) & set(map(rounded, values))


def test_the_table_lists_every_claim() -> None:
    lines = table.markdown().splitlines()
    assert len(lines) == 2 + len(CLAIMS)
    assert all(line.count("|") - line.count("\\|") == len(table.HEADER) + 1 for line in lines)
    document = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    assert (
        table.filled(document) == f"before\n{table.BEGIN}\n{table.markdown()}\n{table.END}\nafter\n"
    )
    with pytest.raises(ValueError, match="no place for the table"):
        table.filled("no markers")


@pytest.mark.parametrize("name", ["README.md", "CLAIMS.md"])
def test_the_published_tables_are_fresh(name: str) -> None:
    document = ROOT / name
    assert table.refreshed(document) == document.read_text(), f"rerun: {table.BEGIN}"


def test_the_headline_is_about_the_four_systems() -> None:
    shown = table.headline()
    assert {claim.expected for claim in shown} == {Verdict.FAILS, Verdict.CONDITIONAL}
    assert all(claim.paper.startswith(table.SYSTEMS) for claim in shown)


def test_a_wrong_number_changes_the_verdict(monkeypatch: Any) -> None:
    """The verdict follows from computed numbers: another example, another verdict."""
    from papers_check.claims import hierarchical, spectr_gbv

    monkeypatch.setattr(spectr_gbv, "CROSSED", ("1/2,1/2", "1/2,1/2"))
    assert spectr_gbv.lossless().verdict == Verdict.HOLDS
    monkeypatch.setattr(hierarchical, "PRINTED", {"token": Fraction(2, 3), "block": Fraction(2, 3)})
    assert hierarchical.readme_lengths().verdict == Verdict.HOLDS
