"""The interval for E[tau]: the truth inside, nested, tight at the end, bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import MarkovModel, TableModel
from theory.accepted_length import expected_accepted
from theory.drafting import fixed
from theory.enclosure import RULES, Enclosure, PairRows, enclose, model_rows
from theory.fields import EXACT, FLOAT, Array, to_fraction
from theory.generation import Decoder
from theory.models import Prefix, RowTree, prefixes
from theory.verifiers.common import load_program

F = Fraction
Trees = tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]


def random_trees(rng: np.random.Generator, vocab: int, gamma: int, kind: str) -> Trees:
    """Float rows of every prefix; ``kind`` says which trouble they make."""

    def level(i: int) -> np.ndarray[Any, Any]:
        sharp = {"flat": 5.0, "sharp": 0.05, "mixed": 0.6}.get(kind, 0.6)
        rows = rng.gamma(sharp, size=(vocab**i, vocab)) + 1e-300
        if kind == "zeros":
            rows[rng.random(rows.shape) < 0.4] = 0
            rows[np.arange(len(rows)), rng.integers(vocab, size=len(rows))] += 0.5
        if kind == "tiny":
            rows **= 40
        return rows / rows.sum(axis=1, keepdims=True)

    p = [level(i) for i in range(gamma)]
    q = [level(i) for i in range(gamma)]
    if kind == "near":
        q = [np.abs(a * (1 + 1e-12 * rng.standard_normal(a.shape))) for a in p]
        q = [a / a.sum(axis=1, keepdims=True) for a in q]
    if kind == "equal":
        q = p
    return p, q


KINDS = ("flat", "sharp", "mixed", "zeros", "tiny", "near", "equal")


def table(trees: Trees, seen: list[Prefix] | None = None) -> PairRows:
    """The rows as a callback that notes what it was asked for."""
    vocab = trees[0][0].shape[1]

    def place(prefix: Prefix) -> int:
        return int(np.dot(prefix, vocab ** np.arange(len(prefix))[::-1])) if prefix else 0

    def rows(wanted: Sequence[Prefix]) -> tuple[Any, Any]:
        if seen is not None:
            seen.extend(wanted)
        p, q = (np.array([tree[len(v)][place(v)] for v in wanted]) for tree in trees)
        return p, q

    return rows


def exactly(trees: Trees, gamma: int, verifier: str) -> Fraction:
    """E[tau] of the model that the floats mean: each row divided by its exact sum."""

    def rational(levels: list[np.ndarray[Any, Any]]) -> RowTree:
        rows = [
            [[F(x) / sum(map(F, row)) for x in row] for row in level.tolist()] for level in levels
        ]
        return RowTree(tuple(EXACT.array(level) for level in rows))

    value = expected_accepted(verifier, rational(trees[0]), rational(trees[1]), gamma)
    return to_fraction(value)


def steps(rows: PairRows, gamma: int, verifier: str, **options: Any) -> list[Enclosure]:
    """All intervals of a run, the last one included."""
    found: list[Enclosure] = []
    last = enclose(rows, gamma, verifier, progress=found.append, **options)
    assert found[-1] == last
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verifier", RULES)
def test_the_truth_is_inside_at_every_step(kind: str, verifier: str) -> None:
    for seed, (vocab, gamma) in enumerate([(2, 4), (3, 3), (6, 2), (5, 1)]):
        trees = random_trees(np.random.default_rng(seed), vocab, gamma, kind)
        truth = exactly(trees, gamma, verifier)
        found = steps(table(trees), gamma, verifier, max_calls=10**4, batch=2)
        for interval in found:
            assert F(interval.low) <= truth <= F(interval.high)
        for before, after in pairwise(found):
            assert before.low <= after.low <= after.high <= before.high
            assert after.width < before.width or after.width < 1e-13
        assert found[-1].width < 1e-12 * gamma
        assert found[-1].expanded <= sum(vocab**i for i in range(gamma))


laws = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)


@settings(max_examples=25)
@given(st.lists(laws, min_size=8, max_size=8), st.sampled_from(RULES), st.integers(1, 5))
def test_small_rational_models(rows: list[list[int]], verifier: str, calls: int) -> None:
    """Ties, zeros and equal rows; rounded rationals, enumerated as programs."""
    chance = [[F(x, sum(row)) for x in row] for row in rows]
    target, draft = (MarkovModel(chance[k], chance[k + 1 : k + 4]) for k in (0, 4))
    decoder = Decoder(target, draft, load_program(verifier), fixed(3))
    truth = sum(
        outcome.accepted * to_fraction(weight)
        for outcome, weight in decoder.round_law((), (), 3).items()
    )
    pair = model_rows(target, draft)
    found = enclose(pair, 3, verifier, max_calls=calls, batch=2)
    assert F(found.low) <= truth <= F(found.high)
    assert enclose(pair, 3, verifier).width < 1e-12


@pytest.mark.parametrize("verifier", RULES)
def test_survival_is_bounded_level_by_level(verifier: str) -> None:
    trees = random_trees(np.random.default_rng(1), 3, 3, "mixed")
    p_tree, q_tree = (RowTree(tuple(levels)) for levels in trees)
    lengths = [expected_accepted(verifier, p_tree, q_tree, g) for g in (1, 2, 3)]
    alive = np.diff([0.0, *map(float, lengths)])
    for interval in steps(table(trees), 3, verifier, batch=1):
        for chance, (low, high) in zip(alive, interval.survival, strict=True):
            assert low - 1e-15 <= chance <= high + 1e-15
        assert sum(low for low, _ in interval.survival) <= interval.low + 1e-12
        assert sum(high for _, high in interval.survival) >= interval.high - 1e-12


def test_first_steps_by_hand() -> None:
    """One row read: alpha below, alpha gamma above; the block rule's second level by hand."""
    target = TableModel({"": ["1/2", "1/2"], "0": ["1/4", "3/4"], "1": ["1", "0"]}, ["1/2", "1/2"])
    draft = TableModel({"": ["3/4", "1/4"], "0": ["1/2", "1/2"], "1": ["1/3", "2/3"]}, ["1", "0"])
    pair = model_rows(target, draft)
    one = enclose(pair, 3, max_calls=1)
    assert one.low == pytest.approx(3 / 4, abs=1e-12)
    assert one.high == pytest.approx(9 / 4, abs=1e-12)
    assert one.survival[1] == pytest.approx((0, 3 / 4), abs=1e-12)
    two = enclose(pair, 2, "block", max_calls=2, batch=1)  # reads the root, then "0" with mass 1/2
    # children of "0": min(1/2 * 1/4, 3/4 * 1/2) + min(1/2 * 3/4, 3/4 * 1/2) = 1/8 + 3/8
    assert two.low == pytest.approx(3 / 4 + 1 / 2, abs=1e-12)
    assert two.high == pytest.approx(3 / 4 + 1 / 2 + 1 / 4, abs=1e-12)
    token = enclose(pair, 2, "token", max_calls=2, batch=1)
    assert token.low == pytest.approx(3 / 4 + 1 / 2 * 3 / 4, abs=1e-12)


def test_the_best_nodes_are_read_first_and_only_once() -> None:
    trees = random_trees(np.random.default_rng(4), 4, 3, "mixed")
    seen: list[Prefix] = []
    enclose(table(trees, seen), 3, "token", max_calls=6, batch=2)
    assert seen[0] == ()
    assert len(set(seen)) == len(seen)
    for i, prefix in enumerate(seen):
        assert prefix == () or prefix[:-1] in seen[:i]
    p, q = trees[0][0][0], trees[1][0][0]
    first = sorted(range(4), key=lambda x: -min(p[x], q[x]))
    assert set(seen[1:3]) == {(first[0],), (first[1],)}


@pytest.mark.parametrize("verifier", RULES)
def test_a_smaller_budget_is_the_beginning_of_a_larger_one(verifier: str) -> None:
    """Dropping nodes that the budget cannot reach changes nothing, ties included."""
    for kind in ("mixed", "equal"):
        trees = random_trees(np.random.default_rng(9), 5, 3, kind)
        rounded = [[np.round(a, 1) + 0.1 for a in levels] for levels in trees]  # full of ties
        p, q = [[a / a.sum(axis=1, keepdims=True) for a in levels] for levels in rounded]
        trees = (p, q)
        whole = steps(table(trees), 3, verifier, max_calls=12, batch=2)
        for calls in (1, 3, 7, 12):
            part = enclose(table(trees), 3, verifier, max_calls=calls, batch=2)
            assert part.low == pytest.approx(whole[calls - 1].low, abs=1e-12)
            assert part.high == pytest.approx(whole[calls - 1].high, abs=1e-12)
            assert part.expanded == whole[calls - 1].expanded


def synthetic(vocab: int) -> PairRows:
    """Hashed rows over a large vocabulary: every prefix has its own ranking and its own noise."""
    ranks = np.arange(1, vocab + 1) ** -1.5

    def rows(wanted: Sequence[Prefix]) -> tuple[Any, Any]:
        p = np.empty((len(wanted), vocab))
        q = np.empty_like(p)
        for i, prefix in enumerate(wanted):
            rng = np.random.default_rng((7, len(prefix), *prefix))
            p[i] = rng.permutation(ranks)
            q[i] = p[i] * rng.lognormal(0, 0.5, vocab)
        return p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)

    return rows


def test_a_real_vocabulary_in_little_memory() -> None:
    vocab, batch = 49_152, 4
    tracemalloc.start()
    found = steps(synthetic(vocab), 4, "block", max_calls=8, batch=batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * batch * vocab * 8  # a few arrays of one batch, not the tree's frontier
    assert found[-1].expanded == 1 + 7 * batch
    assert found[-1].high - found[-1].low < 0.95 * (found[0].high - found[0].low)
    assert all(b.width < a.width for a, b in pairwise(found))


def test_the_search_ends_at_the_tolerance() -> None:
    trees = random_trees(np.random.default_rng(2), 3, 3, "mixed")
    found = enclose(table(trees), 3, tolerance=0.5, batch=1, max_calls=100)
    assert found.width <= 0.5
    assert found.calls < 13
    assert enclose(table(trees), 3, tolerance=3).calls == 0


def test_a_perfect_draft_is_enclosed_from_above() -> None:
    """p = q keeps everything: high is gamma from the start, low climbs to it."""
    trees = random_trees(np.random.default_rng(2), 3, 3, "equal")
    found = steps(table(trees), 3, "token", batch=1)
    assert all(interval.high == 3 for interval in found)
    assert found[-1].low == pytest.approx(3, abs=1e-12)


def wrong_rows(change: str) -> PairRows:
    def rows(wanted: Sequence[Prefix]) -> tuple[Any, Any]:
        good: Array = FLOAT.array([["1/2", "1/2"]] * len(wanted))
        bad = good.copy()
        if change == "sum":
            bad[-1, 0] = 0.6
        elif change == "negative":
            bad[-1] = [-0.5, 1.5]
        elif change == "nan":
            bad[-1, 0] = np.nan
        elif change == "shape":
            bad = bad[:, :1]
        return (good, bad) if len(wanted[0]) else (good, good)

    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sum", r"draft row after \[1\] is no law: sum 1.1"),
        ("negative", r"draft row after \[1\] .* smallest entry -0.5"),
        ("nan", r"draft row after \[1\] .* sum nan"),
        ("shape", r"rows have shapes \(2, 2\) and \(2, 1\) for 2 prefixes"),
    ],
)
def test_faulty_rows_are_named(change: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        enclose(wrong_rows(change), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"verifier": "tokens"}, "did you mean 'token'"),
        ({"verifier": "kseq"}, "unknown verifier with an enclosure"),
        ({"gamma": 0}, "gamma 0"),
        ({"max_calls": 0}, "max_calls 0"),
        ({"batch": 0}, "batch 0"),
    ],
)
def test_errors_name_the_value(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        enclose(wrong_rows("none"), **{"gamma": 2, **options})


def test_prefixes_line_up_with_row_trees() -> None:
    trees = random_trees(np.random.default_rng(3), 3, 3, "mixed")
    tree = RowTree(tuple(trees[0]))
    p, _ = table(trees)(prefixes(3, 2))
    assert np.array_equal(p, tree.levels[2])
