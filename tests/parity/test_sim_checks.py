"""Broken inputs are refused with the place, the value and a remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.rows import log
from sim.testing import random_inputs
from sim.verifiers import VERIFIERS, get
from sim.verifiers.greedy_block import start

LIBRARIES = ["numpy", "torch"]


def good(gamma: int = 2, drafts: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    inputs = random_inputs(rng, gamma * drafts + 1, 3, drafts, gamma, 4, awkward=0.0)
    return {**inputs._asdict(), "lengths": np.full(3, gamma)}


def set_at(name: str, place: Any, value: Any) -> Any:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return change


def replace(name: str, function: Any) -> Any:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name] = function(arrays[name])

    return change


BROKEN = {
    "nan": (set_at("log_p", (1, 0, 2), np.nan), r"target row.*\[1, 0, 2\] is nan"),
    "logits": (replace("log_p", lambda a: a + 3.0), r"target row.*log-softmax"),
    "empty row": (set_at("log_q", (2, 0, 1), -np.inf), r"draft row.*\[2, 0, 1\] is 0"),
    "token": (set_at("drafts", (0, 0, 1), 4), r"drafted token.*\[0, 0, 1\] is 4.*0\.\.3"),
    "padding": (set_at("drafts", (0, 0, 1), -1), r"drafted token.*\[0, 0, 1\] is -1"),
    "one": (set_at("uniforms", (2, 1), 1.0), r"uniform \[2, 1\] is 1"),
    "negative": (set_at("uniforms", (2, 1), -0.1), r"uniform \[2, 1\] is -0.1"),
    "length": (set_at("lengths", 1, 3), r"lengths \[1\] is 3"),
    "tape": (replace("uniforms", lambda a: a[:, 1:]), r"uniforms has shape \(3, 2\), expected"),
    "rows": (replace("log_p", lambda a: a[:, :, 1:]), r"log_p has shape \(3, 1, 2, 4\), expected"),
    "rank": (replace("log_p", lambda a: a[:, 0]), r"use \[B, K, g\+1, V\]"),
    "lengths": (replace("lengths", lambda a: a[1:]), r"lengths has shape \(2,\)"),
    "half": (replace("log_p", lambda a: a.astype(np.float16)), r"float16.*float32"),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fault", list(BROKEN))
@pytest.mark.parametrize("rule", list(VERIFIERS))
def test_broken_inputs_are_refused(rule: str, fault: str, library: str) -> None:
    arrays = good()
    change, message = BROKEN[fault]
    change(arrays)
    if library == "torch":
        torch = pytest.importorskip("torch")
        arrays = {name: torch.from_numpy(array) for name, array in arrays.items()}
    with pytest.raises(ValueError, match=message):
        get(rule).verify(**arrays)


@pytest.mark.parametrize("rule", list(VERIFIERS))
def test_draft_of_probability_zero_is_refused(rule: str) -> None:
    arrays = good()
    token = arrays["drafts"][1, 0, 0]
    row = np.full(4, 1 / 3)
    row[token] = 0
    set_at("log_q", (1, 0, 0), log(row))(arrays)
    with pytest.raises(ValueError, match=r"\[1, 0, 0\] is \d; it must have q > 0"):
        get(rule).verify(**arrays)


def test_paddings_beyond_the_length_are_fine() -> None:
    arrays = good()
    set_at("drafts", (1, 0, 1), -1)(arrays)
    set_at("lengths", 1, 1)(arrays)
    get("token").verify(**arrays)


@pytest.mark.parametrize("rule", ["token", "block", "greedy_block"])
def test_single_draft_rules_refuse_two(rule: str) -> None:
    with pytest.raises(ValueError, match="K=2"):
        get(rule).verify(**good(drafts=2))


def test_greedy_block_refuses_a_carry_that_does_not_fit() -> None:
    arrays = good()
    carry = start(arrays["log_p"], 3, 2)
    rule = get("greedy_block")
    with pytest.raises(ValueError, match=r"carry.left has shape \(3, 1\).*one gamma"):
        rule.verify(**arrays, carry=carry._replace(left=carry.left[:, 1:]))
    arrays["lengths"] = np.array([2, 0, 2])
    with pytest.raises(ValueError, match="fewer tokens than a layer"):
        rule.verify(**arrays, carry=carry._replace(left=carry.left + 1))


def test_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="greedy_block"):
        get("greedyblock")
