"""The marked verifiers emit the target's law: whole generations, rationals, every kernel."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from theory.drafting import Window, draw_path, fixed
from theory.effects import Effects
from theory.fields import FLOAT, Array, positive_part, to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.marks.coupling import conditional, curtain
from theory.models import MarkovModel, Model, Prefix, Rows, TableModel, load_model, prefixes
from theory.verifiers.block import judge
from theory.verifiers.common import Round, load_program

F = Fraction
RULES = ["marked_block", "marked_greedy_block"]

PAIRS = {
    "mirror": ("1/3,2/3", "2/3,1/3"),
    "peaked": ("3/4,1/4", "1/4,3/4"),
    "equal": ("1/2,1/2", "1/2,1/2"),
    "target misses a token": ("0,1", "1/2,1/2"),
    "draft misses a token": ("1/2,1/2", "0,1"),
    "draft misses one of three": ("1/2,1/4,1/4", "0,1/3,2/3"),
    "target misses one of three": ("0,1/2,1/2", "1/2,1/6,1/3"),
    "each misses another": ("1/2,1/2,0", "0,1/3,2/3"),
}


def off(
    target: Model,
    draft: Model,
    verifier: Any,
    window: Window | int,
    horizon: int,
    num_drafts: int = 2,
    **params: Any,
) -> Any:
    """Total variation between what is generated and the target's own law."""
    program = load_program(verifier) if isinstance(verifier, str) else verifier
    window = fixed(window) if isinstance(window, int) else window
    decoder = Decoder(target, draft, program, window, num_drafts, params)
    return distance(generate(decoder, horizon).tokens, autoregressive(target, horizon))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("gamma", [1, 2])
@pytest.mark.parametrize("pair", PAIRS)
def test_fixed_rows(pair: str, gamma: int, rule: str) -> None:
    """Several rounds: five tokens of two, four of three."""
    target, draft = (load_model(row) for row in PAIRS[pair])
    assert (
        off(target, draft, rule, gamma, 7 - target.vocab, cells=3 if target.vocab == 2 else 2) == 0
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("gamma", "num_drafts", "cells"), [(1, 3, 3), (2, 3, 2), (3, 2, 2)])
def test_more_drafts_and_longer_blocks(rule: str, gamma: int, num_drafts: int, cells: int) -> None:
    target, draft = (load_model(row) for row in PAIRS["peaked"])
    assert off(target, draft, rule, gamma, gamma + 2, num_drafts, cells=cells) == 0


def random_table(rng: np.random.Generator, vocab: int, depth: int) -> TableModel:
    rows = {}
    for length in range(depth):
        for prefix in prefixes(vocab, length):
            raw = rng.integers(0, 4, vocab)
            raw[rng.integers(vocab)] += 1
            rows[prefix] = [F(int(x), int(raw.sum())) for x in raw]
    return TableModel(rows)


@pytest.mark.parametrize("histogram", [True, False])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_depend_on_the_prefix(seed: int, rule: str, histogram: bool) -> None:
    """Zeros in both models, and layers of the greedy rule that reach over two rounds."""
    rng = np.random.default_rng(seed)
    target, draft = random_table(rng, 2, 5), random_table(rng, 2, 5)
    assert off(target, draft, rule, 3, 5, cells=2, histogram=histogram) == 0
    assert off(target, draft, rule, 2, 5, cells=3, histogram=histogram) == 0


def backwards(levels: Array, masses: Array, marks: Array, values: Array) -> Array:
    """The highest labels go to the tokens that wish least."""
    flipped = masses[..., ::-1]
    last, end = flipped.cumsum(axis=-1)[..., None], marks.cumsum(axis=-1)[..., None, :]
    overlap = np.minimum(last, end) - np.maximum(
        last - flipped[..., None], end - marks[..., None, :]
    )
    plan = positive_part(overlap)[..., ::-1, :]
    return conditional(plan, np.arange(levels.shape[-1]), masses, marks)


def arbitrary(levels: Array, masses: Array, marks: Array, values: Array) -> Array:
    """Atoms served in a shuffled order with windows of the wrong means."""
    order = np.random.default_rng(len(levels)).permutation(len(levels))
    plan = curtain(levels[::-1], masses, marks, values, order)
    return conditional(plan, np.arange(len(levels)), masses, marks)


def blind(levels: Array, masses: Array, marks: Array, values: Array) -> Array:
    """Labels that say nothing about tokens."""
    return np.repeat(marks[None, :], len(levels), axis=0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("coupling", [backwards, arbitrary, blind])
def test_every_kernel_is_lossless(coupling: Any, rule: str) -> None:
    target = MarkovModel(["1/4", "3/4"], [["1/3", "2/3"], ["1", "0"]])
    draft = MarkovModel(["1/2", "1/2"], [["2/3", "1/3"], ["1/5", "4/5"]])
    assert off(target, draft, rule, 2, 4, cells=3, coupling=coupling) == 0
    target, draft = (load_model(row) for row in PAIRS["peaked"])
    assert off(target, draft, rule, 2, 5, cells=3, coupling=coupling) == 0


def test_stopping_windows() -> None:
    """Drafts of unequal length: each may stop where its own path says so."""

    def window(fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
        return draw_path(fx, draft, lambda path: len(path) == 2 or path[-1:] == (1,), cap, k)

    target = MarkovModel(["1/4", "3/4"], [["1/3", "2/3"], ["1/2", "1/2"]])
    draft = MarkovModel(["1/2", "1/2"], [["2/3", "1/3"], ["1/5", "4/5"]])
    assert off(target, draft, "marked_block", window, 4, cells=3) == 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("coupling", ["mix", "entropic", "entmix"])
def test_float_kernels(rule: str, coupling: str) -> None:
    target, draft = (load_model(row, FLOAT) for row in PAIRS["target misses one of three"])
    assert off(target, draft, rule, 2, 3, cells=4, coupling=coupling) < 1e-14


def test_controls() -> None:
    """What breaks losslessness is seen: a wrong winner law, and a forgotten carry."""

    def unaware(
        fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Any = ()
    ) -> Round:
        """Selects the draft of the better first token, but judges it as if it were any draft."""
        winner = max(drafts, key=lambda path: target(())[path[0]] if path else 0)
        tau, rest = judge(fx, target, draft, winner, 0)
        return Round(tau, (*winner[:tau], fx.choose(rest, len(winner))))

    def forgetful(*args: Any, **kwargs: Any) -> Round:
        outcome = load_program("marked_greedy_block")(*args, **kwargs)
        return Round(outcome.accepted, outcome.tokens)

    target, draft = (load_model(row) for row in PAIRS["mirror"])
    assert to_fraction(off(target, draft, unaware, 2, 3)) > F(1, 100)
    assert to_fraction(off(target, draft, forgetful, 2, 4, cells=3)) > F(1, 1000)
