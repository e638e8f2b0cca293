"""The public contract of the command line: keys of ``--json``, exit codes, clear errors."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers_check.cli import main
from sim.losslessness.sample_files import Header, write_samples
from sim.losslessness.samples import Sample
from sim.traces import read_trace

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


def test_pareto_over_whole_texts(capsys: pytest.CaptureFixture[str]) -> None:
    """p = (1/2, 1/2), q = (3/4, 1/4), four tokens, gamma 2: exact verification takes 139/64."""
    rows = ("--target", "1/2,1/2", "--draft", "3/4,1/4")
    found = run(capsys, "pareto", *rows, "--horizon", "4", "--steps", "2", "--json")
    curves = {curve["rule"]: curve["points"] for curve in found["curves"]}
    exact = curves["ensemble"][0]
    assert (exact["calls"], exact["quality"]) == ("139/64", "0")
    best = [(b["calls_float"], b["quality_float"]) for b in curves["best of all rules"]]
    for name, points in curves.items():
        for point in points:
            slower = [b for b in best if b[0] >= point["calls_float"]]
            assert not slower or min(slower)[1] <= point["quality_float"] + 1e-9, name


def test_exact_with_an_adaptive_window(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("--target", "1/2,1/3,1/6", "--draft", "1/6,1/3,1/2", "--horizon", "4")
    for verifier in ("token", "block", "greedy_block"):
        window = ("--verifier", verifier, "--window", "confidence", "--gamma", "3")
        assert run(capsys, "exact", *rows, *window, "--json")["lossless"] is True


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
    "window", ["fixed", "heuristic", "confidence", "svip", "adaedl", "optimal"]
)
def test_decode_with_a_window_and_a_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, window: str
) -> None:
    tiny = ("--target", "tiny", "--draft", "tiny-draft", "--max-new-tokens", "12", "--json")
    file = tmp_path / "trace.parquet"
    options = ("--window", window, "--gamma", "3", "--trace", str(file))
    told = run(capsys, "decode", *tiny, *options, "0 1")
    rows = read_trace(file).to_pylist()
    assert [row["accepted"] for row in rows] == told["accepted"]
    assert sum(row["emitted"] for row in rows) == 12
    assert max(row["drafted"] for row in rows) <= 3


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
        (("exact", *ROWS, "--gamma", "2.5"), "not a whole number"),
        (("exact", *ROWS, "--horizon", "50"), "lower the horizon"),
        (("exact", *ROWS, "--field", "symbolic"), "unknown field"),
        (("exact", *ROWS, "--window", "svp"), "did you mean 'svip'"),
        (("exact", *ROWS, "--verifier", "traversal", "--param", "branching=x"), "whole numbers"),
        (("exact", "--target", ".", "--draft", "1"), "neither a file nor a row"),
        (("bounds", *ROWS, "--gamma", "12"), "lower gamma or the vocabulary"),
        (("bounds", *ROWS, "--certificate", "no/folder/c.json"), "its folder is missing"),
        (("window", *ROWS, "--draft-cost", "1/0"), "not a number"),
        (("window", *ROWS, "--draft-cost", "1/0", "--field", "float"), "not a number"),
        (("window", *ROWS, "--draft-cost", "1/9", "--picture", "no/x.png"), "not a folder"),
        (("pareto", *ROWS, "--steps", "0"), "steps 0 is too small"),
        (("pareto", *ROWS, "--horizon", "40"), "lower the horizon"),
        (("pareto", *ROWS, "--horizon", "3", "--measure", "kl"), "texts take tv"),
        (("bounds", *ROWS, "--gamma", "0"), "gamma 0"),
        (("pareto", *ROWS, "--measure", "x"), "unknown measure"),
        (("pareto", *ROWS, "--picture", "x.pdf"), ".png or .svg"),
        (("decode", "--target", "./missing", "x"), "missing"),
        (("decode", "--dtype", "int3", "--target", "tiny", "0"), "unknown dtype"),
        (("decode", "--target", "tiny", "--draft", "tiny-draft", "9 9"), "no token of a tiny"),
        (("decode", "--target", "tiny", "--draft", "tiny-draft", "--gamma", "-1", "0"), "gamma"),
        (("decode", "--target", "tiny", "--window", "svp", "0"), "did you mean 'svip'"),
        (("decode", "--target", "tiny", "--gamma", "2.5", "0"), "not a whole number"),
        (("decode", "--target", "tiny", "--trace", "no/x.parquet", "0"), "its folder is missing"),
        (("check", "--output", "no/such/folder/report"), "not a folder"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in " ".join(failure(capsys, *arguments).split())


def test_audit_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "audit", "mutants", "stale_row", "closed_comparison", "--json")
    stale, ties = found["mutants"]
    assert (stale["name"], ties["name"]) == ("stale_row", "closed_comparison")
    assert Fraction(stale["distance"]) == pytest.approx(stale["distance_float"])
    assert ties["distance"] == "0"
    assert set(stale["found_by"]) == set(found["tests"])
    assert stale["found_by"]["audit"] is True
    assert not any(ties["found_by"].values())
    assert "no mutant 'nobody'" in failure(capsys, "audit", "mutants", "nobody")


def test_audit_of_samples(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, picture = tmp_path / "samples.jsonl", tmp_path / "evidence.svg"
    rng = np.random.default_rng(0)
    drawn = rng.choice(2, size=(300, 5), p=[1 / 3, 2 / 3])
    samples = [Sample((), tuple(row)) for row in drawn.tolist()]
    write_samples(path, Header(vocab_size=2, processor={}), samples)
    found = run(
        capsys,
        "audit",
        "samples",
        str(path),
        "--target",
        "1/3,2/3",
        "--picture",
        str(picture),
        "--json",
    )
    assert found["lossless"] is True
    assert found["tokens"] == 1500
    assert picture.stat().st_size > 1000
    with pytest.raises(SystemExit) as ended:
        main(["audit", "samples", str(path), "--target", "2/3,1/3"])
    assert ended.value.code == 1
    assert "NOT LOSSLESS" in capsys.readouterr().out
    refused = failure(capsys, "audit", "samples", str(path), "--target", "1/3,1/3,1/3")
    assert "another tokenizer" in refused
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert "is partial" in failure(capsys, "audit", "samples", str(path), "--target", "1/3,2/3")


def test_a_live_audit_is_taken_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, state = tmp_path / "samples.jsonl", tmp_path / "state.npz"
    options = ("audit", "run", "--target", "tiny", "--draft", "tiny-draft", "--dtype", "float64",
               "--max-new-tokens", "5", "--samples", "40", "--json")  # fmt: skip
    whole = run(capsys, *options)
    assert whole["tokens"] == 200
    run(capsys, *options, "--save", str(path), "--state", str(state))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:20]) + '{"prompt": [0], "ou')
    state.unlink()
    again = run(capsys, *options, "--save", str(path), "--state", str(state))
    assert again["curve"] == whole["curve"]
    assert path.read_text().splitlines(keepends=True) == lines
    assert "another audit" in failure(capsys, *options, "--seed", "1", "--state", str(state))
    other = failure(capsys, *options, "--seed", "1", "--save", str(path))
    assert "samples of another run" in other
    assert "unknown engine" in failure(capsys, "audit", "run", "--engine", "abacus")
