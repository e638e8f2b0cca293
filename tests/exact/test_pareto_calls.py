"""Frontiers against target calls: programs against enumeration, and a lossless rule that saves."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from theory.declared import Declared, predict
from theory.fields import EXACT, Array, to_fraction
from theory.generation import autoregressive
from theory.models import MarkovModel, Model, RowTree, TableModel, prefixes
from theory.pareto import calls as flow
from theory.pareto import rounds, survey, texts
from theory.pareto.texts import Texts

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


def mixture_pair(seed: int, vocab: int, length: int) -> tuple[Texts, Model, Model]:
    target, draft = exact_models(seed, vocab, length)
    return Texts.of(target, draft, length, lambda text: text[0]), target, draft


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_rounds_equal_the_ensemble_generated(gamma: int) -> None:
    t, target, draft = mixture_pair(2, 2, 4)
    told = predict(Declared("ensemble", target, draft, {"w": "1/3"}), gamma, 4)
    found = rounds.run(t, gamma, rounds.weighted(t, texts.static(t, "1/3")))
    assert found.calls == told.calls
    for text, mass in zip(prefixes(2, 4), found.law, strict=True):
        assert told.tokens.get(text, EXACT.zero) == mass
    lossless = rounds.run(t, gamma, rounds.weighted(t, texts.static(t, 1)))
    assert lossless.distance == 0
    truth = autoregressive(target, 4)
    assert lossless.reward == sum(text[0] * mass for text, mass in truth.items())


def hard_place_policies(t: Texts, gamma: int) -> list[rounds.Flows]:
    """Every choice of p or q at every (prefix, place) that is drafted."""
    states = [
        (level, j, n)
        for level in range(t.length)
        for j in range(level + 1)
        if (block := rounds.drafted(t, gamma, level, j)) is not None and j < block
        for n in range(t.vocab**level)
    ]
    strict = rounds.weighted(t, texts.static(t, 1))
    handed = rounds.weighted(t, texts.static(t, 0))

    def policy(bits: tuple[int, ...]) -> rounds.Flows:
        picked = dict(zip(states, bits, strict=True))

        def flows(level: int, j: int) -> tuple[Array, Array]:
            rows = [
                [part[n] for part in (strict if picked[level, j, n] else handed)(level, j)]
                for n in range(t.vocab**level)
            ]
            kept, corrected = (np.stack(part) for part in zip(*rows, strict=True))
            return kept, corrected

        return flows

    return [policy(bits) for bits in product((0, 1), repeat=len(states))]


@pytest.mark.parametrize("seed", range(2))
def test_best_by_calls_equals_all_hard_policies(seed: int) -> None:
    t = exact_texts(seed, 2, 3)
    outcomes = [rounds.run(t, 2, flows) for flows in hard_place_policies(t, 2)]
    assert len(outcomes) == 2**5
    for price in ("1/10", "1/2", "2"):
        best, flows = rounds.best(t, 2, price)
        lam = EXACT.number(price)
        assert best == max(o.reward - lam * o.calls for o in outcomes)
        attained = rounds.run(t, 2, flows)
        assert attained.reward - lam * attained.calls == best


@pytest.mark.parametrize("seed", range(5))
def test_classes_contain_each_other(seed: int) -> None:
    t = exact_texts(seed, 3, 3)
    for price in ("1/20", "1/2"):
        values = []
        for kind in ("scalar", "box", "free"):
            value, flows = rounds.best(t, 2, price, kind)
            found = rounds.run(t, 2, flows)
            assert found.reward - EXACT.number(price) * found.calls == value
            values.append(value)
        assert values == sorted(values)


def test_the_acceptance_surrogate_misses_calls() -> None:
    """Weights that maximise sum (1 - TV) at the same price: never better by calls, often worse."""
    worse = total = 0
    for seed in range(12):
        t = random_texts(seed, 2, 5)
        for price in (0.1, 0.3, 0.6):
            best, _ = rounds.best(t, 2, price)
            weights, _ = texts.best_weights(t, price)
            found = rounds.run(t, 2, rounds.weighted(t, weights))
            loss = float(best) - (float(found.reward) - price * float(found.calls))
            assert loss >= -1e-12
            worse += loss > 1e-9
            total += 1
    assert worse > total / 2


def test_no_surrogate_price_repairs_every_call_price() -> None:
    """Even with its own price tuned, the surrogate misses the support function somewhere."""
    prices = np.geomspace(0.01, 10, 60)
    gaps = []
    for seed in range(4):
        t = random_texts(seed, 2, 5)
        maps = [texts.best_weights(t, float(price))[0] for price in prices]
        found = [rounds.run(t, 2, rounds.weighted(t, weights)) for weights in maps]
        for price in (0.1, 0.3, 0.6):
            best, _ = rounds.best(t, 2, price)
            gaps.append(float(best) - max(float(o.reward) - price * float(o.calls) for o in found))
    assert min(gaps) > -1e-12
    assert max(gaps) > 1e-3


@pytest.mark.parametrize("goal", ["reward", "tv"])
def test_flow_program_orders_the_classes(goal: str) -> None:
    sign, wins = (1 if goal == "reward" else -1), [0, 0, 0]
    for seed in range(5):
        t = random_texts(seed, 3, 3)
        still = rounds.run(t, 2, rounds.weighted(t, texts.static(t, 0.5)))
        last = sign * float(still.reward if goal == "reward" else still.distance)
        for place, kind in enumerate(("scalar", "box", "free")):
            plan = flow.solve(t, 2, kind, goal, calls=float(still.calls))  # type: ignore[arg-type]
            assert plan.calls <= float(still.calls) + 1e-9
            quality = sign * (plan.reward if goal == "reward" else plan.distance)
            assert quality >= last - 1e-9
            wins[place] += quality > last + 1e-6
            last = quality
            found = rounds.run(t, 2, plan.flows)
            assert found.calls == pytest.approx(plan.calls, abs=1e-8)
            assert found.reward == pytest.approx(plan.reward, abs=1e-8)
            assert found.distance == pytest.approx(plan.distance, abs=1e-8)
    assert wins[0] == 5
    assert wins[1] > 0
    assert wins[2] > 0 or goal == "tv"


@pytest.mark.parametrize("kind", ["scalar", "box", "free"])
def test_flow_program_stays_below_the_support_function(kind: rounds.Kind) -> None:
    """Every budget's best rule lies under each price's line, and touches it somewhere."""
    t = random_texts(7, 3, 3)
    price = 0.2
    best, flows = rounds.best(t, 2, price, kind)
    touching = rounds.run(t, 2, flows)
    plan = flow.solve(t, 2, kind, "reward", calls=float(touching.calls))
    assert plan.reward == pytest.approx(float(touching.reward), abs=1e-9)
    for budget in (1.2, 1.5, 1.8):
        other = flow.solve(t, 2, kind, "reward", calls=budget)
        assert other.reward - price * other.calls <= float(best) + 1e-9


def test_calls_frontier() -> None:
    t = random_texts(1, 2, 3)
    curve = flow.calls_frontier(t, 2, "box", [1.2, 1.6, 2.0], "tv")
    assert [point.quality for point in curve.points] == sorted(
        (point.quality for point in curve.points), reverse=True
    )
    assert (curve.speed, curve.measure) == ("calls", "tv")
    with pytest.raises(ValueError, match="no solution"):
        flow.solve(t, 2, "box", "tv", calls=0.9)
    with pytest.raises(ValueError, match="choose one of"):
        flow.solve(t, 2, "sphere", "tv")  # type: ignore[arg-type]


def test_rules_by_calls_against_the_best_rules() -> None:
    """No rule gets below the free class at its own number of calls; exact knobs cost TV 0."""
    target, draft = exact_models(6, 2, 3)
    t = Texts.of(target, draft, 3, lambda text: 0)
    curves = {curve.rule: curve for curve in survey.by_calls(target, draft, 2, 3, 2)}
    assert curves["ensemble"].points[0].quality == 0
    for curve in curves.values():
        for point in curve.points:
            bound = flow.solve(t, 2, "free", "tv", calls=float(point.acceptance) + 1e-9)
            assert float(point.quality) >= bound.distance - 1e-8
    still = flow.static_frontier(t, 2, ["1", "1/2", "0"], "tv")
    assert [(p.acceptance, p.quality) for p in still.points] == [
        (p.acceptance, p.quality) for p in curves["ensemble"].points
    ]


# exactly lossless with fewer calls


def coin_texts() -> Texts:
    """p = (1/2, 1/2), q = (3/4, 1/4) at every position, four tokens."""
    return Texts.of(MarkovModel(["1/2", "1/2"]), MarkovModel(["3/4", "1/4"]), 4, lambda text: 0)


def traded(t: Texts, amount: str) -> rounds.Flows:
    """Exact verification, but after token 1: more of token 0 kept at place 0, less at place 1.

    The prefix (1) is reached with mass 1/4 at either place, so the deviations cancel.
    """
    strict = rounds.weighted(t, texts.static(t, 1))

    def flows(level: int, j: int) -> tuple[Array, Array]:
        kept, corrected = (part.copy() for part in strict(level, j))
        if level == 1:
            more = EXACT.number(amount) * (1 if j == 0 else -1)
            kept[1, 0] += more
            corrected[1, 1] -= more
        return kept, corrected

    return flows


def test_lossless_texts_can_cost_fewer_calls_than_exact_verification() -> None:
    t = coin_texts()
    standard = rounds.run(t, 2, rounds.weighted(t, texts.static(t, 1)))
    assert to_fraction(standard.calls) == F(139, 64)
    found = rounds.run(t, 2, traded(t, "1/4"))
    assert found.distance == 0
    assert to_fraction(found.calls) == F(17, 8)
    assert flow.solve(t, 2, "free", "calls", tv=0.0).calls == pytest.approx(17 / 8, abs=1e-9)
    wrong = rounds.run(t, 2, traded(t, "-1/4"))
    assert wrong.distance == 0
    assert wrong.calls > standard.calls


@pytest.mark.parametrize("kind", ["scalar", "box"])
def test_inside_the_box_exact_verification_is_cheapest(kind: rounds.Kind) -> None:
    for t in (coin_texts(), random_texts(5, 3, 3)):
        standard = rounds.run(t, 2, rounds.weighted(t, texts.static(t, 1)))
        found = flow.solve(t, 2, kind, "calls", tv=0.0)
        assert found.calls == pytest.approx(float(standard.calls), abs=1e-9)


def test_bad_arguments() -> None:
    t = coin_texts()
    with pytest.raises(ValueError, match="gamma 0"):
        rounds.run(t, 0, rounds.weighted(t, texts.static(t, 1)))
    with pytest.raises(ValueError, match="gamma 0"):
        rounds.best(t, 0, 1)
    with pytest.raises(ValueError, match="gamma 0"):
        flow.solve(t, 0, "box", "tv")
    with pytest.raises(ValueError, match="choose one of"):
        rounds.best(t, 2, 1, "sphere")  # type: ignore[arg-type]
