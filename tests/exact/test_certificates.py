"""Certificates of counter-examples: a stand-alone script verifies each, no corruption passes."""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from papers_check import recheck
from papers_check.claims import CLAIMS, Certificate, certificates, finding
from papers_check.claims.certificates import Recorder
from papers_check.claims.tools import SUN, model
from theory.analysis import analyse
from theory.fields import to_fraction

SCRIPT = Path(recheck.__file__)
PROOFS = [proof for claim in CLAIMS if (proof := finding(claim).certificate) is not None]
LAWS = [proof for proof in PROOFS if proof["kind"] == "law"]
VALUES = [proof for proof in PROOFS if proof["kind"] == "value"]
ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


def names(proofs: list[Certificate]) -> list[str]:
    return [proof["name"] for proof in proofs]


def verified(proof: Certificate) -> bool:
    """Whether the stand-alone script accepts a certificate, after a trip through JSON."""
    read = json.loads(certificates.document([proof]))[0]
    try:
        {"law": recheck.check_law, "value": recheck.check_value}[read["kind"]](read)
    except ERRORS:
        return False
    return True


def changed(proof: Certificate, change: Callable[[Any], object]) -> Certificate:
    broken = json.loads(json.dumps(proof))
    change(broken)
    return dict(broken)


def test_both_kinds_are_there() -> None:
    assert len(LAWS) >= 10
    assert len(VALUES) >= 10
    assert len(set(names(PROOFS))) == len(PROOFS)


@pytest.mark.parametrize("proof", PROOFS, ids=names(PROOFS))
def test_every_certificate_is_verified(proof: Certificate) -> None:
    assert verified(proof)
    assert proof["refutes"]


def drop_a_path(proof: Any) -> None:
    del proof["paths"][0]


def repeat_a_path(proof: Any) -> None:
    proof["paths"].append(copy.deepcopy(proof["paths"][0]))


def emit_something_else(proof: Any) -> None:
    first = proof["paths"][0]["emits"]
    proof["paths"][0]["emits"] = "1" + first[1:] if first[0] == "0" else "0" + first[1:]


def emit_too_little(proof: Any) -> None:
    proof["paths"][-1]["emits"] = ""


def accept_more(proof: Any) -> None:
    proof["paths"][0]["accepted"] += 1


def claim_another_distance(proof: Any) -> None:
    proof["distance"] = str(Fraction(proof["distance"]) + Fraction(1, 1000))


def state_another_law(proof: Any) -> None:
    pair = next(iter(proof["law"].values()))
    pair[0] = str(Fraction(pair[0]) + Fraction(1, 97))


def claim_another_mean(proof: Any) -> None:
    proof["mean"] = str(Fraction(proof["mean"]) + Fraction(1, 1000))


def change_a_row(proof: Any) -> None:
    row = next(iter(proof["rows"]["reference"].values()))
    giver = max(range(len(row)), key=lambda x: Fraction(row[x]))
    taker = (giver + 1) % len(row)
    part = Fraction(row[giver]) / 7
    row[giver] = str(Fraction(row[giver]) - part)
    row[taker] = str(Fraction(row[taker]) + part)


def no_law(proof: Any) -> None:
    row = next(iter(proof["rows"]["reference"].values()))
    row[0] = str(Fraction(row[0]) + Fraction(1, 10))


BREAKS = [drop_a_path, repeat_a_path, emit_something_else, emit_too_little, accept_more,
          claim_another_distance, state_another_law, claim_another_mean, change_a_row,
          no_law]  # fmt: skip


@pytest.mark.parametrize("change", BREAKS, ids=[change.__name__ for change in BREAKS])
@pytest.mark.parametrize("proof", LAWS, ids=names(LAWS))
def test_a_broken_law_fails(proof: Certificate, change: Callable[[Any], None]) -> None:
    assert not verified(changed(proof, change))


@pytest.mark.parametrize("proof", LAWS, ids=names(LAWS))
def test_every_stated_chance_matters(proof: Certificate) -> None:
    stated = [
        (i, j)
        for i, path in enumerate(proof["paths"])
        for j, step in enumerate(path["steps"])
        if isinstance(step[2], str)
    ]
    for i, j in stated:

        def halve(broken: Any, i: int = i, j: int = j) -> None:
            step = broken["paths"][i]["steps"][j]
            step[2] = str(Fraction(step[2]) / 2)

        assert not verified(changed(proof, halve))


def test_a_lossless_rule_that_accepts_no_more_than_claimed_refutes_nothing() -> None:
    exact = [proof for proof in LAWS if Fraction(proof["distance"]) == 0]
    assert exact
    for proof in exact:
        assert not verified(proof | {"claimed": proof["mean"]})


def leaves(formula: Any, at: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if isinstance(formula, str):
        yield at
    else:
        for i, part in enumerate(formula[1:], start=1):
            yield from leaves(part, (*at, i))


@pytest.mark.parametrize("proof", VALUES, ids=names(VALUES))
def test_a_broken_value_fails(proof: Certificate) -> None:
    for side in ("left", "right"):
        moved = str(Fraction(proof[side]) + 1)
        assert not verified(changed(proof, lambda p, s=side, m=moved: p.update({s: m})))
    noticed = 0
    for side in (0, 1):
        before = recheck.evaluate(proof["formulas"][side])
        for at in leaves(proof["formulas"][side]):

            def nudge(broken: Any, side: int = side, at: tuple[int, ...] = at) -> None:
                holder, key = broken["formulas"], side
                for i in at:
                    holder, key = holder[key], i
                holder[key] = str(Fraction(holder[key]) + Fraction(1, 97))

            broken = changed(proof, nudge)
            if recheck.evaluate(broken["formulas"][side]) != before:
                assert not verified(broken)
                noticed += 1
    assert noticed
    equal = {"formulas": [proof["formulas"][0]] * 2, "right": proof["left"]}
    assert not verified(proof | equal)


def run(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(SCRIPT), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=path.parent)


def test_the_script_stands_alone(tmp_path: Path) -> None:
    tree = ast.parse(SCRIPT.read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"fractions", "json", "math", "sys", "typing"}
    good = tmp_path / "good.json"
    good.write_text(certificates.document(PROOFS))
    ran = run(good)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith(f"{len(PROOFS)} of {len(PROOFS)} certificates verified\n")


def test_the_script_fails_on_one_broken_certificate_and_on_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(certificates.document([*PROOFS[:3], changed(LAWS[0], drop_a_path)]))
    ran = run(broken)
    assert ran.returncode == 1
    assert f"NOT VERIFIED  {LAWS[0]['name']}" in ran.stdout
    broken.write_text("[]")
    assert run(broken).returncode == 1


def test_recorded_paths_are_the_enumerated_law() -> None:
    decoder = analyse("3/4,1/4", "1/4,3/4", "spectr_gbv", 1, 2, 2).decoder
    paths = certificates.round_tree(decoder, 1)
    law: dict[Any, Fraction] = {}
    for path in paths:
        law[path.outcome] = law.get(path.outcome, Fraction(0)) + path.chance
    assert law == {out: to_fraction(m) for out, m in decoder.round_law((), (), 1).items()}


def test_drafted_tokens_are_looked_up_only_where_they_follow_the_row() -> None:
    recorder = Recorder(model(SUN[1]), ())
    recorder.choose(model(SUN[1]).row(()), ("draft", 0, 0))
    recorder.choose(model(SUN[0]).row((0,)), ("draft", 0, 1))
    assert recorder.steps[0] == ("draft", "", 0)
    assert recorder.steps[1][2] == "1/3"
