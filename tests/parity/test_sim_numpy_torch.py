"""One tape, two array libraries: equal verdicts in float64, and in float32 away from ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.testing import Inputs, random_inputs
from sim.verifiers import VERIFIERS, ArrayVerifier, Verdict

torch = pytest.importorskip("torch")

RULES = list(VERIFIERS.values())
SHAPES = [(0, 3), (1, 2), (3, 3), (4, 8)]  # gamma, vocabulary


def inputs_for(
    rule: ArrayVerifier, gamma: int, vocab: int, seed: int, equal: float = 0.3
) -> Inputs:
    drafts = 3 if rule.multi_draft else 1
    slots = rule.slots(gamma, drafts)
    ragged = not rule.stateful
    rng = np.random.default_rng(seed)
    return random_inputs(rng, slots, 200, drafts, gamma, vocab, equal=equal, ragged=ragged)


def as_torch(inputs: Inputs) -> tuple[Any, ...]:
    return tuple(None if part is None else torch.from_numpy(np.array(part)) for part in inputs)


def assert_equal(verdict: Verdict, other: Verdict) -> None:
    for name in ("accepted", "branch", "token"):
        np.testing.assert_array_equal(
            np.asarray(getattr(verdict, name)), np.asarray(getattr(other, name)), err_msg=name
        )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize(("gamma", "vocab"), SHAPES)
def test_float64_verdicts_are_equal(rule: ArrayVerifier, gamma: int, vocab: int) -> None:
    inputs = inputs_for(rule, gamma, vocab, seed=gamma)
    from_numpy = rule.verify(*inputs)
    from_torch = rule.verify(*as_torch(inputs))
    assert isinstance(from_torch.token, torch.Tensor)
    assert_equal(from_numpy, from_torch)
    if gamma:
        survival = rule.survival(*inputs[:3], inputs.lengths)
        again = rule.survival(*as_torch(inputs)[:3], as_torch(inputs)[4])
        np.testing.assert_allclose(survival, again.numpy(), rtol=0, atol=1e-12)


def test_carries_are_equal_over_rounds() -> None:
    rule = VERIFIERS["greedy_block"]
    carry: Any = None
    torch_carry: Any = None
    layers = 0
    for seed in range(4):
        inputs = inputs_for(rule, 4, 3, seed)
        verdict = rule.verify(*inputs, carry)
        other = rule.verify(*as_torch(inputs), torch_carry)
        assert_equal(verdict, other)
        carry, torch_carry = verdict.carry, other.carry
        np.testing.assert_array_equal(carry.left, torch_carry.left.numpy())
        np.testing.assert_allclose(carry.log_ratio, torch_carry.log_ratio.numpy(), rtol=1e-9)
        layers = max(layers, int((carry.left > 0).sum(axis=1).max()))
    assert layers >= 2  # nested layers did occur


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_float32_agrees_away_from_ties(rule: ArrayVerifier, library: str) -> None:
    inputs = inputs_for(rule, 3, 8, seed=7)
    shifts = [
        rule.verify(*inputs._replace(uniforms=np.clip(inputs.uniforms + shift, 0, 1 - 2**-53)))
        for shift in (0.0, 2e-4, -2e-4)
    ]
    clear = np.ones(200, dtype=bool)
    for moved in shifts[1:]:
        clear &= (moved.accepted == shifts[0].accepted) & (moved.token == shifts[0].token)
    assert clear.mean() > 0.95
    single = inputs._replace(
        log_p=inputs.log_p.astype(np.float32), log_q=inputs.log_q.astype(np.float32)
    )
    args = single if library == "numpy" else as_torch(single)
    verdict = rule.verify(*args)
    for name in ("accepted", "token"):
        found, expected = np.asarray(getattr(verdict, name)), getattr(shifts[0], name)
        np.testing.assert_array_equal(found[clear], expected[clear], err_msg=name)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_inputs_are_left_alone(rule: ArrayVerifier) -> None:
    inputs = inputs_for(rule, 3, 4, seed=3)
    before = [None if part is None else part.copy() for part in inputs]
    rule.verify(*inputs)
    for part, copy in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(part, copy)
