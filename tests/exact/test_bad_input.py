"""Nonsense at the public entrances: always a ValueError that names the value, never a crash."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theory import MarkovModel, analyse, bounds, load_model
from theory.fields import EXACT
from theory.transport import alpha_star

P, Q = "1/3,2/3", "2/3,1/3"
HALF = ["1/2", "1/2"]
CHAIN = {"kind": "markov", "initial": HALF, "transition": [HALF, HALF]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 2.0}, r"gamma 2\.0 is not a whole number"),
        ({"gamma": "2"}, "gamma '2' is not a whole number"),
        ({"gamma": None}, "gamma None"),
        ({"gamma": 10**9}, "paths a round"),
        ({"gamma": 10**40}, "is too large"),
        ({"verifier": "kseq", "num_drafts": 2.5}, "num_drafts 2.5"),
        ({"verifier": "kseq", "num_drafts": 10**9}, "paths a round"),
        ({"horizon": "3"}, "horizon '3'"),
        ({"horizon": -1}, "horizon -1 is too small"),
        ({"horizon": 40}, "40 tokens from a vocabulary of 2 take more than 2e"),
        ({"horizon": 10**9}, "lower the horizon"),
        ({"eos": 2}, r"eos 2 is no token of 0\.\.1"),
        ({"eos": "1"}, "eos '1'"),
        ({"verifier": None}, "unknown verifier None"),
        ({"verifier": ["block"]}, "did you mean 'block'"),
        ({"field": "double"}, "unknown field 'double'"),
        ({"window": 3}, "window 3 is no name"),
        ({"window": "svp"}, "did you mean 'svip'"),
        ({"window": "optimal"}, "needs .'rate', 'costs'.*Stopping"),
        ({"window": "svip", "verifier": "kseq", "num_drafts": 2}, "drafts of equal length"),
        ({"target": None}, "target: .*None is not a list"),
        ({"target": 3}, "target: .*3 is not a list"),
        ({"target": {"1/3", "2/3"}}, "not a list"),
        ({"target": b"1/3,2/3"}, "not a list"),
        ({"target": np.array(1)}, "single number"),
        ({"target": ""}, "neither a file nor a row"),
        ({"target": "."}, "neither a file nor a row"),
        ({"target": "1e400000,1"}, "exponents beyond"),
        ({"target": MarkovModel([0.5, 0.5], field="float")}, "give both the same field"),
        ({"verifier": "ensemble", "w": "x"}, "w: 'x' is not a number"),
        ({"verifier": "marked_block", "num_drafts": 2, "gamma": 1, "cells": "3"}, "cells '3'"),
        ({"verifier": "marked_block", "num_drafts": 2, "histogram": 1}, "histogram 1 is no switch"),
        ({"verifier": "traversal", "num_drafts": 2, "branching": "21"}, "branching '21'"),
        ({"verifier": "traversal", "num_drafts": 2, "branching": (2, 0)}, r"children 0 is too sm"),
        ({"verifier": "traversal", "num_drafts": 2, "branching": (2,)}, "1 levels; use gamma"),
    ],
)
def test_analyse(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _ = analyse(**{"target": P, "draft": Q, **options}).expected_calls


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "kind None"),
        ({"kind": ["table"]}, "kind .* is unknown"),
        ({"kind": "table"}, "a table model has"),
        ({"kind": "table", "rows": [HALF]}, "map no prefix"),
        ({"kind": "table", "rows": {}}, "without rows"),
        ({"kind": "table", "rows": {"": 3}}, "3 is not a list"),
        ({"kind": "table", "rows": {"": [["1/2"], ["1/2"]]}}, "expected one list"),
        ({"kind": "table", "rows": {"": [None, 1]}}, "None is not a number"),
        ({"kind": "table", "rows": {"": HALF, "a": HALF}}, "'a' is no list of tokens"),
        ({"kind": "table", "rows": {"": HALF, "2": HALF}}, "outside 0..1"),
        ({"kind": "table", "rows": {"0": HALF, "0 ": HALF}}, "listed twice"),
        ({"kind": "table", "rows": {"": HALF}, "default": 5}, "default row: 5"),
        ({"kind": "markov"}, "a markov model has"),
        ({"kind": "markov", "initial": HALF, "transitions": [HALF, HALF]}, "got .*transitions"),
        ({"kind": "markov", "initial": HALF, "order": 1}, "needs its 'transition'"),
        ({**CHAIN, "order": "1"}, "order '1' is not a whole number"),
        ({**CHAIN, "order": None}, "order None"),
        ({**CHAIN, "order": -1}, "order -1 is too small"),
        ({**CHAIN, "order": 0}, "leave the transition out"),
        ({**CHAIN, "order": 9}, "needs 10 axes of length 2"),
        ({**CHAIN, "transition": [HALF, ["1"]]}, "needs 2 axes"),
        ({**CHAIN, "transition": {"0": HALF}}, "needs 2 axes"),
        ({**CHAIN, "initial": {"": HALF, "0": ["1"]}}, "different lengths"),
        ({**CHAIN, "initial": {"0": HALF}}, "empty prefix is missing"),
    ],
)
def test_models(source: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(source)
    file = tmp_path / "model.json"
    file.write_text(json.dumps(source))
    with pytest.raises(ValueError, match=message):
        load_model(file)


@pytest.mark.parametrize("text", ["[1, 2]", "3", "null", '"x"'])
def test_files_without_a_model(text: str, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="expected a JSON object with a 'kind'"):
        load_model(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not valid JSON"):
        load_model(file)


def test_a_law_over_one_token_can_be_written_like_any_other() -> None:
    assert analyse("1", "1", gamma=3).expected_accepted == 3
    with pytest.raises(ValueError, match="sum to 1/2"):
        load_model("1/2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": "2"}, "gamma '2'"),
        ({"num_drafts": 2.0}, "num_drafts 2.0"),
        ({"num_drafts": 10**6}, "num_drafts 1e.06 is too large"),
        ({"gamma": 60}, "a row tree of depth 60"),
        ({"field": "symbolic"}, "use field='exact' or 'float'"),
        ({"target": None}, "target: .*None"),
    ],
)
def test_bounds(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bounds(**{"target": P, "draft": Q, **options})
    with pytest.raises(ValueError, match=r"num_drafts 2\.0"):
        alpha_star(P, Q, 2.0)  # type: ignore[arg-type]


def test_numbers_of_any_kind_are_read() -> None:
    rows = (
        "0.5, 5e-1",
        ("1/2", Fraction(1, 2)),
        np.array([1, 1], dtype=object) * Fraction(1, 2),
        [EXACT.number("1/2"), "0.50"],
    )
    assert {analyse(row, Q).expected_accepted for row in rows} == {Fraction(55, 36)}
    floats = (np.array([0.5, 0.5], dtype=np.float32), [np.float64(0.5), Fraction(1, 2)], (0.5, 0.5))
    for row in floats:
        found = analyse(row, [2 / 3, 1 / 3], field="float")
        assert found.expected_accepted == pytest.approx(55 / 36, abs=1e-12)
