"""The public contract of the command line: keys of ``--json``, exit codes, clear errors."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from papers_check.cli import main

ROWS = ["--target", "1/3,2/3", "--draft", "2/3,1/3"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code in (0, None)
    return json.loads(capsys.readouterr().out)


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_exact(capsys: pytest.CaptureFixture[str]) -> None:
    facts = run(capsys, "exact", *ROWS, "--verifier", "block", "--horizon", "5", "--json")
    assert facts["expected_accepted"] == "11/9"
    assert facts["tokens_per_call"] == "20/9"
    assert facts["expected_calls"] == "215/81"
    assert facts["distance"] == "0"
    assert facts["lossless"] is True
    assert facts["expected_accepted_float"] == pytest.approx(11 / 9)
    assert facts["iid_prediction"]["tokens_per_call"] == "19/9"
    law = {key: Fraction(value) for key, value in facts["output_law"].items()}
    assert sum(law.values()) == 1
    assert law["0 0 0 0 0"] == Fraction(1, 243)


def test_exact_takes_the_parameters_of_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    ensemble = ("exact", *ROWS, "--verifier", "ensemble", "--json")
    half = run(capsys, *ensemble)
    assert half["expected_accepted"] == "55/36"
    assert half["declared_distance"] == "0"
    assert run(capsys, *ensemble, "--param", "w=1")["lossless"] is True
    assert "sets nothing" in failure(capsys, *ensemble, "--param", "v=1")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    listed = run(capsys, "list", "--json")
    assert set(listed) == {"verifiers", "drafters", "windows"}
    named = {entry["name"]: entry for entry in listed["verifiers"]}
    assert named["block"]["lossless"] is True
    assert named["spectr_gbv"]["kind"] == "biased"
    assert named["ensemble"]["kind"] == "lossy"
    assert {"theory", "sim"} <= set(named["token"]["faces"])


def test_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("--target", "3/4,1/4", "--draft", "1/4,3/4", "--gamma", "1")
    found = run(capsys, "bounds", *rows, "--json")
    assert (found["cic"], found["alpha_star"], found["block_optimum"]) == ("2/3", "11/16", "11/16")
    for key in ("stateless_optimum", "level_wise", "marginal", "certificates"):
        assert key in found


def test_window(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "window", *ROWS, "--draft-cost", "1/10", "--json")
    assert found["visible"] == "30/13"
    assert found["oracle"] == "5/2"
    assert found["autoregressive"] == 1
    assert Fraction(found["fixed"]) <= Fraction(str(found["optimal"])) + Fraction(1, 10**9)


def test_pareto(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "pareto", *ROWS, "--steps", "4", "--json")
    curves = {curve["rule"]: curve["points"] for curve in found["curves"]}
    best = curves["best"]
    assert (best[0]["acceptance"], best[0]["quality"]) == ("2/3", "0")
    assert (best[-1]["acceptance"], best[-1]["quality"]) == ("1", "1/3")


def test_decode(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ("--target", "tiny", "--draft", "tiny-draft", "--max-new-tokens", "12", "--json")
    one = run(capsys, "decode", *tiny, "--temperature", "0", "--verifier", "block", "0 1")
    assert len(one["tokens"]) == 12
    assert sum(one["emitted"]) == 12
    assert one["text"] == " ".join(map(str, one["tokens"]))
    for key in ("accepted", "tokens_per_call", "seconds", "finish"):
        assert key in one
    two = run(
        capsys, "decode", *tiny, "--temperature", "0", "--verifier", "autoregressive", "0 1", "2"
    )
    assert two[0]["tokens"] == one["tokens"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("exact", "--target", "1/3,1/3", "--draft", "1/2,1/2"), "sum to 2/3"),
        (("exact", "--target=-1/3,4/3", "--draft", "1/2,1/2"), "negative probability"),
        (("exact", "--target", "nan,1", "--draft", "1/2,1/2"), "not a number"),
        (("exact", *ROWS[:2], "--draft", "1/2,1/4,1/4"), "target has 2 tokens, draft has 3"),
        (("exact", *ROWS, "--verifier", "blok"), "did you mean 'block'"),
        (("exact", *ROWS, "--gamma", "0"), "gamma 0"),
        (("exact", *ROWS, "--drafts", "0", "--verifier", "kseq"), "num_drafts 0"),
        (("exact", "--target", "missing.json", "--draft", "1"), "neither a file nor a row"),
        (("exact", *ROWS, "--gamma", "30"), "paths a round"),
        (("bounds", *ROWS, "--gamma", "0"), "gamma 0"),
        (("pareto", *ROWS, "--measure", "x"), "unknown measure"),
        (("pareto", *ROWS, "--picture", "x.pdf"), ".png or .svg"),
        (("decode", "--target", "./missing", "x"), "missing"),
        (("decode", "--dtype", "int3", "--target", "tiny", "0"), "unknown dtype"),
        (("decode", "--target", "tiny", "--draft", "tiny-draft", "9 9"), "no token of a tiny"),
        (("decode", "--target", "tiny", "--draft", "tiny-draft", "--gamma", "-1", "0"), "gamma"),
        (("check", "--output", "no/such/folder/report"), "not a folder"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in " ".join(failure(capsys, *arguments).split())
