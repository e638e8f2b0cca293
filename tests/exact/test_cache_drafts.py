"""Losslessness when the draft comes from a cache: point masses, trees of them, faulty mixtures."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from theory.drafting import Drafting, fixed, likeliest
from theory.effects import Effects, exact_law
from theory.fields import Array, minimum, to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.laws import as_row, normalise, overlap, residual, total_variation
from theory.models import MarkovModel, Prefix, Rows
from theory.verifiers.common import Carry, Round, load_program

F = Fraction
P, Q = as_row("1/5,3/10,1/2"), as_row("1/2,1/4,1/4")
TARGET = MarkovModel(
    ["1/5", "3/10", "1/2"],
    [["1/2", "1/4", "1/4"], ["1/6", "1/2", "1/3"], ["3/5", "1/5", "1/5"]],
)
DRAFT = MarkovModel(
    ["1/2", "1/4", "1/4"],
    [["1/5", "3/5", "1/5"], ["1/3", "1/3", "1/3"], ["1/4", "1/4", "1/2"]],
)


def emitted(step: Callable[[Effects], int | tuple[int, bool]]) -> list[Fraction]:
    """The law of the token of one step."""
    law = [F(0)] * len(P)
    for outcome, weight in exact_law(step).items():
        token = outcome if isinstance(outcome, int) else outcome[0]
        law[token] += to_fraction(weight)
    return law


def fractions(row: Array) -> list[Fraction]:
    return [to_fraction(value) for value in row]


def zeroed(row: Array, x: int) -> Array:
    rest = row.copy()
    rest[x] = rest[x] * 0
    return normalise(rest)


def point_mass_test(fx: Effects, x: int, p: Array) -> tuple[int, bool]:
    """Keep x with probability p(x), else draw from p without x."""
    if fx.flip(p[x], "test"):
        return x, True
    return fx.choose(zeroed(p, x), "rest"), False


@pytest.mark.parametrize("x", range(3))
def test_a_point_mass_is_kept_with_its_probability(x: int) -> None:
    law = exact_law(lambda fx: point_mass_test(fx, x, P))
    assert emitted(lambda fx: point_mass_test(fx, x, P)) == fractions(P)
    assert law[(x, True)] == P[x]


def sequential_tree(fx: Effects, target: Rows, nodes: set[Prefix], path: Prefix, i: int) -> Prefix:
    """Siblings in turn with p(x)/(mass left); zero and renormalise after each refusal."""
    row = target(path)
    children = sorted(node[-1] for node in nodes if node[:-1] == path)
    for x in children:
        if fx.flip(row[x], ("test", i, x)):
            return sequential_tree(fx, target, nodes, (*path, x), i + 1)
        row = zeroed(row, x)
    return (*path, fx.choose(row, ("rest", i)))


@pytest.mark.parametrize("branching", [(1, 1), (2, 1), (2, 2)])
def test_testing_siblings_in_turn_equals_drawing_from_the_target(
    branching: tuple[int, ...],
) -> None:
    program, drafting = load_program("point_mass"), likeliest(branching)

    def by_draws(fx: Effects) -> Prefix:
        return program(fx, TARGET.row, DRAFT.row, drafting(fx, DRAFT.row, 2)).tokens

    def in_turn(fx: Effects) -> Prefix:
        paths = drafting(fx, DRAFT.row, 2)
        nodes = {path[: n + 1] for path in paths for n in range(len(path))}
        return sequential_tree(fx, TARGET.row, nodes, (), 0)

    assert exact_law(by_draws) == exact_law(in_turn)
    level = sum((P[x] for x in {path[0] for path in drafting(None, DRAFT.row, 2)}), start=0 * P[0])  # type: ignore[arg-type]
    beyond = sum(
        (w for tokens, w in exact_law(by_draws).items() if len(tokens) > 1), start=0 * P[0]
    )
    assert beyond == level  # acceptance of a level: the sum of p over the children


def test_a_sampled_draft_may_be_tested_as_a_point_mass() -> None:
    """Lossless, acceptance sum q p; the test that knows q keeps sum min(p, q)."""

    def step(fx: Effects) -> tuple[int, bool]:
        return point_mass_test(fx, fx.choose(Q, "draft"), P)

    kept = sum(to_fraction(w) for (_, kept), w in exact_law(step).items() if kept)
    assert emitted(step) == fractions(P)
    assert kept == to_fraction((P * Q).sum()) == F(3, 10)
    assert kept < to_fraction(overlap(P, Q)) == F(7, 10)
    flat = as_row("3/4,1/8,1/8")
    assert max(fractions(flat)) > to_fraction(overlap(flat, as_row("1/3,1/3,1/3")))  # argmax wins


def zeroing_mixture(fx: Effects, p: Array, q: Array) -> int:
    """Keep with min(1, p/q), but correct from p with only the drafted token zeroed."""
    x = fx.choose(q, "draft")
    return x if fx.flip(minimum(1, p[x] / q[x]), "test") else fx.choose(zeroed(p, x), "rest")


def test_the_ratio_test_with_a_zeroing_residual_is_off_by_a_sixteenth() -> None:
    def faulty(fx: Effects) -> int:
        return zeroing_mixture(fx, P, Q)

    def correct(fx: Effects) -> int:
        x = fx.choose(Q, "draft")
        if fx.flip(minimum(1, P[x] / Q[x]), "test"):
            return x
        return fx.choose(residual(P, Q), "rest")

    gap = total_variation(np.array(emitted(faulty)), np.array(fractions(P)))
    assert gap == F(1, 16)
    assert emitted(correct) == fractions(P)


def zeroing_token_rule(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """The same fault in a whole round."""
    (path,) = drafts
    for i, x in enumerate(path):
        p, q = target(path[:i]), draft(path[:i])
        if not fx.flip(minimum(1, p[x] / q[x]), i):
            return Round(i, (*path[:i], fx.choose(zeroed(p, x), len(path))))
    return Round(len(path), (*path, fx.choose(target(path), len(path))))


def test_the_fault_shows_in_whole_generations() -> None:
    target, draft = MarkovModel(fractions(P)), MarkovModel(fractions(Q))
    faulty = generate(Decoder(target, draft, zeroing_token_rule, fixed(1)), 2).tokens
    first = [sum(to_fraction(w) for s, w in faulty.items() if s[0] == x) for x in range(3)]
    assert total_variation(np.array(first), np.array(fractions(P))) == F(1, 16)
    assert distance(faulty, autoregressive(target, 2)) > 0
    correct = generate(Decoder(target, draft, load_program("token"), fixed(1)), 2).tokens
    assert distance(correct, autoregressive(target, 2)) == 0


def test_keeping_the_better_of_two_verified_sources_is_lossy() -> None:
    """A cache token and a sampled token, tested with separate coins; the verified one is kept."""

    def better(fx: Effects) -> int:
        cached, drawn = 0, fx.choose(Q, "draft")
        cached_passes = fx.flip(P[cached], "cache")
        drawn_passes = fx.flip(minimum(1, P[drawn] / Q[drawn]), "model")
        if cached_passes:
            return cached
        if drawn_passes:
            return drawn
        return fx.choose(residual(P, Q), "rest")

    assert total_variation(np.array(emitted(better)), np.array(fractions(P))) > 0


def chosen_source(rule: Callable[[Prefix], bool]) -> Drafting:
    """The draft's greedy path where ``rule(path)`` holds, else another fixed path."""

    def drafting(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
        greedy = likeliest((1, 1))(fx, draft, cap)
        return greedy if rule(greedy[0]) else ((2, 1)[:cap],)

    return drafting


def test_choosing_the_source_by_prefix_and_draft_tokens_is_lossless() -> None:
    decoder = Decoder(
        TARGET,
        DRAFT,
        load_program("point_mass"),
        fixed(2),
        drafting=chosen_source(lambda path: sum(path) % 2 == 0),
    )
    assert distance(generate(decoder, 4).tokens, autoregressive(TARGET, 4)) == 0


def test_choosing_the_source_after_looking_at_target_samples_is_lossy() -> None:
    """Keep the cache token where the target's own sample agrees, else start again."""

    def peeking(fx: Effects) -> int:
        first = fx.choose(P, "target")
        return first if first == 0 else fx.choose(P, "again")

    gap = total_variation(np.array(emitted(peeking)), np.array(fractions(P)))
    assert gap == F(1, 5) * F(4, 5)
