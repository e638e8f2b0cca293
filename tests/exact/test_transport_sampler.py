"""The optimal transport verifier: alpha* attained exactly, lossless over rounds, its E[tau]."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import MarkovModel, RowTree, analyse
from theory.accepted_length.optimal_transport import optimal_transport
from theory.fields import to_fraction
from theory.laws import overlap
from theory.random_models import draft_row, random_row, random_tables
from theory.transport import alpha_star
from theory.verifiers import optimal_transport as rule

F = Fraction


def random_pair(rng: Random, vocab: int) -> tuple[Any, Any]:
    row = random_row(rng, vocab)
    return MarkovModel(row).row(()), MarkovModel(draft_row(rng, row)).row(())


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5))
def test_selection_favours_the_clipped_law(seed: int, vocab: int, count: int) -> None:
    p, q = random_pair(Random(seed), vocab)
    kernel, law = rule.selection(p, q, count)
    assert law.sum() == 1
    assert to_fraction(overlap(p, law)) == alpha_star(p, q, count)
    assert all(entry >= 0 for entry in kernel.flat)
    assert all(row.sum() == (1 if b else 0) for row, b in zip(kernel, q, strict=True))
    masses = q[q > 0]
    assert sorted((q[:, None] * kernel).sum(axis=0)) == sorted(masses)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_law_of_the_winner_by_enumeration(seed: int, count: int) -> None:
    p, q = random_pair(Random(seed), 3)
    kernel, law = rule.selection(p, q, count)
    holding = q[:, None] * kernel
    winners = 0 * q
    for drafts in product(np.ndindex(*holding.shape), repeat=count):
        tokens, labels = zip(*drafts, strict=True)
        winners[tokens[labels.index(max(labels))]] += prod(holding[draft] for draft in drafts)
    assert (winners == law).all()


CASES = [
    ("3/4,1/4", "1/4,3/4", 2, F(11, 16)),
    ("3/4,1/4", "1/4,3/4", 3, F(53, 64)),
    ("0,1/2,1/2", "1/2,1/6,1/3", 2, F(3, 4)),
    ("1/2,1/2,0", "1/3,1/3,1/3", 2, F(8, 9)),
    ("1/2,1/2", "1/2,1/2", 2, 1),
    ("1/5,3/10,1/2", "1/2,0,1/2", 3, F(7, 10)),
    ("0,1", "1,0", 2, 0),
]


@pytest.mark.parametrize(("target", "draft", "num_drafts", "value"), CASES)
def test_one_position_is_optimal_and_lossless(
    target: str, draft: str, num_drafts: int, value: Fraction
) -> None:
    a = analyse(target, draft, "optimal_transport", 1, num_drafts, horizon=3)
    assert a.expected_accepted == value
    assert a.lossless


MODELS = [(2, 2, 2, 4), (2, 2, 3, 3), (3, 2, 2, 3), (2, 3, 2, 4)]


@pytest.mark.parametrize(("vocab", "gamma", "num_drafts", "horizon"), MODELS)
def test_blocks(vocab: int, gamma: int, num_drafts: int, horizon: int) -> None:
    models = random_tables(Random(7 * vocab + gamma), vocab, horizon)
    a = analyse(*models, "optimal_transport", gamma, num_drafts, horizon)
    assert a.lossless
    trees = [RowTree.of(model, gamma) for model in models]
    closed = to_fraction(optimal_transport(*trees, gamma, num_drafts))
    assert a.expected_accepted == closed


def test_a_wrong_winner_law_is_not_lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: labels of the right kernel judged as if the winner had law q."""

    def forgetful(p: Any, q: Any, count: int) -> tuple[Any, Any]:
        kernel, _ = selection(p, q, count)
        return kernel, q

    selection = rule.selection
    monkeypatch.setattr(rule, "selection", forgetful)
    assert not analyse("3/4,1/4", "1/4,3/4", "optimal_transport", 1, 2, horizon=2).lossless
