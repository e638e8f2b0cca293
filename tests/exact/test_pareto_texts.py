"""Frontiers over whole texts, DIVERSED's own objective: programs against enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from theory.fields import EXACT
from theory.laws import as_row, kl, total_variation
from theory.models import MarkovModel, Model, Prefix, RowTree, TableModel, prefixes
from theory.pareto import texts
from theory.pareto.texts import Texts, Weights

F = Fraction


def random_texts(seed: int, vocab: int, length: int) -> Texts:
    """Float rows and rewards drawn at random."""
    rng = np.random.default_rng(seed)
    levels = [
        tuple(rng.dirichlet(np.ones(vocab), size=vocab**t) for t in range(length)) for _ in range(2)
    ]
    return Texts(RowTree(levels[0]), RowTree(levels[1]), rng.random(vocab**length))


def exact_models(seed: int, vocab: int, length: int) -> tuple[Model, Model]:
    """Two rational table models with small denominators."""
    rng = np.random.default_rng(seed)

    def model() -> TableModel:
        rows = {}
        for t in range(length):
            for prefix in prefixes(vocab, t):
                counts = rng.integers(0, 4, size=vocab) + np.eye(vocab, dtype=int)[t % vocab]
                rows[prefix] = [F(int(c), int(counts.sum())) for c in counts]
        return TableModel(rows)

    return model(), model()


def exact_texts(seed: int, vocab: int, length: int) -> Texts:
    rng = np.random.default_rng(seed + 1000)
    worth = {text: F(int(rng.integers(0, 9)), 4) for text in prefixes(vocab, length)}
    return Texts.of(*exact_models(seed, vocab, length), length, lambda text: worth[text])


def every_hard_map(t: Texts) -> list[Weights]:
    sizes = [len(level) for level in t.target.levels]
    maps = []
    for bits in product((0, 1), repeat=sum(sizes)):
        cuts = np.cumsum([0, *sizes])
        maps.append(tuple(t.field.array(bits[a:b]) for a, b in pairwise(cuts)))
    return maps


@pytest.mark.parametrize("seed", range(4))
def test_backward_programming_equals_all_hard_policies(seed: int) -> None:
    """Exact rationals: V = 2, T = 3, so 2^7 maps."""
    t = exact_texts(seed, 2, 3)
    points = [texts.evaluate(t, weights) for weights in every_hard_map(t)]
    assert len(points) == 128
    for price in ("1/10", "1", "3"):
        lam = EXACT.number(price)
        weights, best = texts.best_weights(t, price)
        assert best == max(p.quality + lam * p.acceptance for p in points)
        point = texts.evaluate(t, weights)
        assert point.quality + lam * point.acceptance == best


@pytest.mark.parametrize("seed", range(6))
def test_occupancy_program_is_the_hull_of_hard_policies(seed: int) -> None:
    t = random_texts(seed, 2, 3)
    points = [texts.evaluate(t, weights) for weights in every_hard_map(t)]
    pairs = [(float(p.acceptance), float(p.quality)) for p in points]
    least = min(a for a, _ in pairs)
    for wanted in (least, (least + 3) / 2, (least + 9) / 4):
        plan = texts.occupancy(t, wanted)
        assert plan.soft <= 1
        assert plan.point.acceptance >= wanted - 1e-9
        chords = [
            r0 + (r1 - r0) * (wanted - a0) / (a1 - a0)
            for a0, r0 in pairs
            for a1, r1 in pairs
            if a0 < wanted <= a1
        ]
        hull = max([*chords, *(r for a, r in pairs if a >= wanted)])
        assert plan.point.quality == pytest.approx(hull, abs=1e-9)
        again = texts.evaluate(t, plan.weights)
        assert again.quality == pytest.approx(plan.point.quality, abs=1e-9)
        assert again.acceptance == pytest.approx(plan.point.acceptance, abs=1e-9)


def test_dynamic_weights_win_over_texts() -> None:
    """At the acceptance of a static weight: never worse, usually better, in reward and in TV."""
    better = {"reward": 0, "tv": 0}
    for seed in range(10):
        t = random_texts(seed, 2, 3)
        for goal, sign in (("reward", 1), ("tv", -1)):
            (still,) = texts.static_frontier(t, [0.5], goal).points  # type: ignore[arg-type]
            plan = texts.occupancy(t, float(still.acceptance), goal)  # type: ignore[arg-type]
            gain = sign * (plan.point.quality - float(still.quality))
            assert gain >= -1e-9
            better[goal] += gain > 1e-3
    assert better == {"reward": 10, "tv": 10}


def test_text_tv_of_a_plan() -> None:
    t = random_texts(3, 2, 3)
    plan = texts.occupancy(t, 2.4, "tv")
    assert texts.text_distance(t, plan.weights) == pytest.approx(plan.point.quality, abs=1e-9)
    with pytest.raises(ValueError, match="no solution"):
        texts.occupancy(t, 3.1)


def test_dynamic_frontier_is_monotone() -> None:
    t = random_texts(4, 2, 3)
    least = float(texts.evaluate(t, texts.static(t, 1)).acceptance)
    budgets = np.linspace(least, 3.0, 5)
    curve = texts.dynamic_frontier(t, budgets, "tv")
    quality = [point.quality for point in curve.points]
    assert quality == sorted(quality)
    assert quality[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_text_divergences_and_their_sums(seed: int) -> None:
    """KL of texts is a sum over target text; TV of texts is at most such a sum."""
    t = random_texts(seed, 3, 3)
    weights = tuple(np.linspace(0.2, 0.9, len(level)) for level in t.target.levels)
    rows = texts.mixed_rows(t, weights)
    reach, sum_kl, sum_tv = np.ones(1), 0.0, 0.0
    for p, nu in zip(t.target.levels, rows, strict=True):
        sum_kl += float((reach * kl(p, nu)).sum())
        sum_tv += float((reach * total_variation(p, nu)).sum())
        reach = (reach[:, None] * p).reshape(-1)
    assert kl(t.truth(), t.law(rows)) == pytest.approx(sum_kl, rel=1e-12)
    assert texts.text_distance(t, weights) < sum_tv


@pytest.mark.parametrize("seed", range(8))
def test_token_weights_are_at_least_as_good(seed: int) -> None:
    t = exact_texts(seed, 3, 2)
    for price in ("1/10", "1"):
        assert texts.best_box(t, price) >= texts.best_weights(t, price)[1]


def test_token_weights_can_be_strictly_better() -> None:
    """Moving mass onto token 1 (worth 1) but not onto token 2 (worth 0) needs token weights."""
    p, q = MarkovModel(["1/2", "1/4", "1/4"]), MarkovModel(["0", "1/2", "1/2"])
    t = Texts.of(p, q, 1, lambda text: 1 if text in ((0,), (1,)) else 0)
    # p: reward 3/4, acceptance 1/2;  q: 1/2 and 1;  p with 1/4 moved from 0 to 1: 3/4 and 3/4
    assert texts.best_weights(t, "1/4")[1] == EXACT.number("7/8")
    assert texts.best_box(t, "1/4") == EXACT.number("15/16")


@pytest.mark.parametrize("price", ["0", "1/3", "1"])
def test_token_weights_equal_scalar_weights_on_two_tokens(price: str) -> None:
    for seed in range(4):
        t = exact_texts(seed, 2, 3)
        assert texts.best_box(t, price) == texts.best_weights(t, price)[1]


def test_a_reward_is_read_by_text() -> None:
    def worth(text: Prefix) -> int:
        return 4 * text[0] + 2 * text[1] + text[2]

    t = Texts.of(MarkovModel(["1/2", "1/2"]), MarkovModel(["1/2", "1/2"]), 3, worth)
    assert list(t.reward) == list(range(8))
    assert texts.evaluate(t, texts.static(t, "1/2")).quality == EXACT.number("7/2")
    assert list(as_row("1/2,1/2")) == list(t.target.levels[0][0])
