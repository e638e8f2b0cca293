"""Siblings and point masses: draws without replacement, duplicates, deterministic trees."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import analyse
from theory.accepted_length import drafted_mass
from theory.drafting import fixed, likeliest, tree, without
from theory.effects import Effects, exact_law
from theory.fields import Array, minimum, to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.laws import as_row, overlap, residual
from theory.models import Prefix, Rows, RowTree
from theory.random_models import random_tables
from theory.transport.one_position import alpha_star
from theory.verifiers.common import Carry, Program, Round, load_program

F = Fraction
TARGET, DRAFT = "1/10,1/5,7/10", "4/5,1/10,1/10"


def first_token(decoder: Decoder) -> list[Fraction]:
    """The law of the first token of a round that drafts one."""
    law = [F(0)] * decoder.target.vocab
    for outcome, mass in decoder.round_law((), (), 1).items():
        law[outcome.tokens[0]] += to_fraction(mass)
    return law


def accepted(decoder: Decoder, gamma: int) -> Fraction:
    law = decoder.round_law((), (), gamma)
    return sum((outcome.accepted * to_fraction(mass) for outcome, mass in law.items()), F(0))


@pytest.mark.parametrize(("replacement", "kept"), [(True, F(11, 25)), (False, F(3, 4))])
def test_two_siblings(replacement: bool, kept: Fraction) -> None:
    a = analyse(TARGET, DRAFT, "recursive_rejection", 1, 2, replacement=replacement)
    assert a.expected_accepted == a.closed_form == kept
    assert a.lossless
    assert first_token(a.decoder) == [F(1, 10), F(1, 5), F(7, 10)]
    tree_rule = analyse(TARGET, DRAFT, "traversal", 1, 2, replacement=replacement)
    assert tree_rule.accepted_law == a.accepted_law
    assert tree_rule.output_law == a.output_law
    assert F(11, 25) < alpha_star(TARGET, DRAFT, 2) == F(23, 50)  # the best for i.i.d. drafts


def test_stale_draft_law_without_replacement() -> None:
    a = analyse(TARGET, DRAFT, "recursive_rejection", 1, 2)
    stale = replace(a.decoder, drafting=tree((2,), replacement=False))
    assert first_token(stale) == [F(1, 10), F(9, 20), F(9, 20)]
    wanted = [F(1, 10), F(1, 5), F(7, 10)]
    assert tv(first_token(stale), wanted) == F(1, 4)


def tv(first: list[Fraction], second: list[Fraction]) -> Fraction:
    return sum((abs(a - b) for a, b in zip(first, second, strict=True)), F(0)) / 2


def skipping(update: bool) -> Program:
    """Recursive rejection at one position that skips the test of a repeated token."""

    def program(
        fx: Effects, p: Rows, q: Rows, drafts: tuple[Prefix, ...], carry: Carry = (), **_: Any
    ) -> Round:
        left, seen = p(()), set()
        for j, (x,) in enumerate(drafts):
            if x not in seen and fx.flip(minimum(1, left[x] / q(())[x]), j):
                return Round(1, (x, fx.choose(p((x,)), len(drafts))))
            if x not in seen or update:
                left = residual(left, q(()))
            seen.add(x)
        return Round(0, (fx.choose(left, len(drafts)),))

    return program


def test_skipping_a_repeated_token_must_still_update_the_residual() -> None:
    a = analyse("1/2,1/2,0", "1/3,1/3,1/3", "recursive_rejection", 1, 3)
    harmless = replace(a.decoder, verifier=skipping(update=True))
    assert harmless.round_law((), (), 1) == a.decoder.round_law((), (), 1)
    b = analyse(TARGET, DRAFT, "recursive_rejection", 1, 2)
    harmful = replace(b.decoder, verifier=skipping(update=False))
    assert first_token(harmful) == [F(1, 10), F(1, 4), F(13, 20)]


def test_skipping_a_repeated_draft_breaks_kseq() -> None:
    a = analyse(TARGET, DRAFT, "kseq", 1, 2, horizon=2)

    def verify(
        fx: Effects, p: Rows, q: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
    ) -> Round:
        return load_program("kseq")(fx, p, q, tuple(dict.fromkeys(drafts)), carry)

    assert a.lossless
    assert first_token(replace(a.decoder, verifier=verify)) != [F(1, 10), F(1, 5), F(7, 10)]


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 4))
def test_successive_draws(seed: int, width: int) -> None:
    """Without replacement: the second of two draws has weight q(x) q(y)/(1 - q(x))."""
    _, draft = random_tables(Random(seed), 3, 1)
    row = [to_fraction(x) for x in draft.row(())]
    law = exact_law(lambda fx: tree((width,), replacement=False)(fx, draft.row, 1))
    support = [x for x in range(3) if row[x]]
    for paths, mass in law.items():
        tokens = [path[0] for path in paths]
        assert len(set(tokens)) == len(tokens) == min(width, len(support))
        expected, left = F(1), F(1)
        for x in tokens:
            expected, left = expected * row[x] / left, left - row[x]
        assert to_fraction(mass) == expected


def test_too_few_tokens_for_distinct_siblings() -> None:
    for name, gamma in (("recursive_rejection", 2), ("traversal", 1)):
        a = analyse("1/2,1/4,1/4", "1/3,2/3,0", name, gamma, 3, replacement=False)
        assert a.lossless
        assert a.closed_form == a.expected_accepted


def in_turn(fx: Effects, p: Rows, q: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()) -> Round:
    """Deterministic siblings tested in turn with p(x)/(mass left), zeroed when refused."""
    path: Prefix = ()
    while True:
        law: Array = p(path)
        children = dict.fromkeys(
            d[len(path)] for d in drafts if d[: len(path)] == path and len(d) > len(path)
        )
        for x in children:
            if fx.flip(law[x], (path, x)):
                break
            law = without(law, x)
        else:
            return Round(len(path), (*path, fx.choose(law, path)))
        path = (*path, x)


@pytest.mark.parametrize("branching", [(1, 1), (2, 1), (2, 2), (3,)])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_drawing_and_descending_is_testing_in_turn(branching: tuple[int, ...], seed: int) -> None:
    models = random_tables(Random(seed), 3, 3)
    decoder = analyse(*models, "point_mass", gamma=2).decoder
    drawing = replace(decoder, drafting=likeliest(branching))
    testing = replace(drawing, verifier=in_turn)
    assert drawing.round_law((), (), 2) == testing.round_law((), (), 2)


def test_trees_of_any_shape() -> None:
    """Leaves of different depth; the shape may depend on the text so far."""
    paths: tuple[Prefix, ...] = ((0, 1, 0), (0, 1, 1), (2,))
    models = random_tables(Random(4), 3, 4)

    def drafting(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
        return tuple(dict.fromkeys(path[:cap] for path in paths))

    decoder = replace(analyse(*models, "point_mass").decoder, drafting=drafting)
    assert distance(generate(decoder, 4).tokens, autoregressive(models[0], 4)) == 0
    assert accepted(decoder, 3) == to_fraction(drafted_mass(RowTree.of(models[0], 3), paths))


def test_one_hot_drafts() -> None:
    a = analyse("1/2,3/10,1/5", "1,0,0", "point_mass", gamma=3)
    assert a.expected_accepted == a.closed_form == F(7, 8)
    assert list(a.accepted_law.values()) == [F(1, 2), F(1, 4), F(1, 8), F(1, 8)]
    assert a.output_law == analyse("1/2,3/10,1/5", "1,0,0", "token", gamma=3).output_law


def test_a_sampled_draft_may_be_tested_as_a_point_mass() -> None:
    """Lossless, with acceptance sum q p; the true law gives sum min(p, q)."""
    decoder = analyse(TARGET, DRAFT, "point_mass", gamma=1).decoder
    sampled = replace(decoder, drafting=None, window=fixed(1))
    truth = autoregressive(decoder.target, 2)
    assert distance(generate(sampled, 2).tokens, truth) == 0
    assert accepted(sampled, 1) == F(17, 100)
    p, q = as_row(TARGET), as_row(DRAFT)
    assert to_fraction(overlap(p, q)) == F(3, 10)
    # but a deterministic draft of the likeliest token would be kept with probability 7/10
    assert to_fraction(max(p)) == F(7, 10)


def test_soft_probabilities_for_deterministic_drafts_are_biased() -> None:
    """The classic error: a greedy draft judged with its softmax value, as if it were sampled."""
    a = analyse(TARGET, "1/2,1/4,1/4", "token", gamma=1)
    argmax = replace(a.decoder, drafting=likeliest((1,)))
    assert first_token(argmax) != first_token(a.decoder) == [F(1, 10), F(1, 5), F(7, 10)]


def test_residual_that_only_zeroes_the_drafted_token_is_biased() -> None:
    p, q = "1/5,3/10,1/2", "1/2,1/4,1/4"

    def verify(
        fx: Effects, p: Rows, q: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
    ) -> Round:
        ((x,),) = drafts
        if fx.flip(minimum(1, p(())[x] / q(())[x]), 0):
            return Round(1, (x, fx.choose(p((x,)), 1)))
        return Round(0, (fx.choose(without(p(()), x), 1),))

    law = first_token(replace(analyse(p, q, "token", 1).decoder, verifier=verify))
    wanted = [F(1, 5), F(3, 10), F(1, 2)]
    assert tv(law, wanted) == F(1, 16)
