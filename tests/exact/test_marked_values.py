"""Exact accepted lengths of the marked verifiers, and the programs against the closed forms."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from theory import analyse
from theory.accepted_length import (
    block,
    expected_accepted,
    greedy_block,
    marked_block,
    marked_greedy_block,
)
from theory.drafting import fixed
from theory.effects import Tape
from theory.fields import EXACT, FLOAT, to_fraction
from theory.generation import Decoder
from theory.marks import Scheme, WinnerLaw
from theory.models import RowTree, TableModel, load_model, prefixes, rows_after
from theory.verifiers.common import Carry, load_program

F = Fraction
PEAKED = "3/4,1/4", "1/4,3/4"
ZEROS = "0,1/2,1/2", "1/2,1/6,1/3"
EQUAL = "1/2,1/2", "1/2,1/2"
MIRROR = "1/3,2/3", "2/3,1/3"
FLAT = "1/2,1/2,0", "1/3,1/3,1/3"

VALUES = [
    (PEAKED, 1, 2, F(11, 16), F(11, 16)),
    (PEAKED, 1, 3, F(53, 64), F(53, 64)),
    (PEAKED, 2, 2, F(7, 6), F(239, 192)),
    (PEAKED, 2, 3, F(1607, 1152), F(3313, 2304)),
    (ZEROS, 1, 2, F(3, 4), F(3, 4)),
    (ZEROS, 2, 2, F(19, 16), F(19, 16)),
    (ZEROS, 2, 3, F(870509, 616896), F(870509, 616896)),
    (EQUAL, 1, 2, F(1), F(1)),
    (EQUAL, 2, 3, F(2), F(2)),
    (MIRROR, 1, 2, F(8, 9), F(8, 9)),
    (MIRROR, 2, 2, F(349, 216), F(119, 72)),
    (MIRROR, 2, 3, F(90803, 49248), F(90803, 49248)),
    (FLAT, 1, 2, F(8, 9), F(8, 9)),
]
"""Pair, gamma, K, and E[tau] of the two rules with 12 equal cells."""


def trees(pair: tuple[str, str], gamma: int, field: Any = EXACT) -> tuple[RowTree, RowTree]:
    target, draft = (RowTree.of(load_model(row, field), gamma) for row in pair)
    return target, draft


@pytest.mark.parametrize("histogram", [False, True])
@pytest.mark.parametrize(("pair", "gamma", "num_drafts", "stateless", "greedy"), VALUES)
def test_exact_values(
    pair: tuple[str, str],
    gamma: int,
    num_drafts: int,
    stateless: Fraction,
    greedy: Fraction,
    histogram: bool,
) -> None:
    p, q = trees(pair, gamma)
    found = [
        to_fraction(form(p, q, gamma, num_drafts, 12, "mix", histogram))
        for form in (marked_block, marked_greedy_block)
    ]
    if histogram and pair is ZEROS and (gamma, num_drafts) == (2, 2):
        stateless = greedy = F(455, 384)  # the one case where the histogram costs something
    assert found == [stateless, greedy]


@pytest.mark.parametrize("coupling", ["mix", "entmix"])
@pytest.mark.parametrize(("pair", "gamma", "num_drafts", "stateless", "greedy"), VALUES)
def test_floats_agree(
    pair: tuple[str, str],
    gamma: int,
    num_drafts: int,
    stateless: Fraction,
    greedy: Fraction,
    coupling: str,
) -> None:
    """For K = 2 both fields use equal cells; in general the values are close."""
    p, q = trees(pair, gamma, FLOAT)
    exact = trees(pair, gamma)
    for form, value in ((marked_block, stateless), (marked_greedy_block, greedy)):
        number = form(p, q, gamma, num_drafts, 12, coupling)
        assert number == pytest.approx(float(value), rel=0.01)
        if num_drafts == 2 and coupling == "mix":
            rational = form(*exact, gamma, num_drafts, 12)
            assert number == pytest.approx(float(to_fraction(rational)), abs=1e-13)


def expected_tokens(name: str, cells: int, rounds: int) -> list[Fraction]:
    """Expected tokens after 1, 2, .. rounds of gamma = 2, K = 2 on the mirrored pair."""
    target, draft = (load_model(row) for row in MIRROR)
    decoder = Decoder(target, draft, load_program(name), fixed(2), 2, {"cells": cells})
    states: dict[Carry, Any] = {(): EXACT.one}  # rows never change, so only the carry matters
    total, after = EXACT.zero, []
    for _ in range(rounds):
        later: dict[Carry, Any] = defaultdict(lambda: EXACT.zero)
        for carry, weight in states.items():
            for outcome, chance in decoder.round_law((), carry, 2).items():
                total += weight * chance * len(outcome.tokens)
                later[outcome.carry] += weight * chance
        states = later
        after.append(to_fraction(total))
    return after


def test_greedy_wins_a_round_but_not_the_throughput() -> None:
    stateless = [n * expected_tokens("marked_block", 9, 1)[0] for n in (1, 2, 3)]
    greedy = expected_tokens("marked_greedy_block", 9, 3)
    assert stateless == [F(212, 81), F(424, 81), F(212, 27)]
    assert greedy == [F(215, 81), F(425, 81), F(1900, 243)]
    assert greedy[0] > stateless[0]
    assert greedy[2] < stateless[2]


def random_model(rng: np.random.Generator, vocab: int, depth: int) -> TableModel:
    """Random rational rows with zeros at every prefix shorter than ``depth``."""
    rows = {}
    for length in range(depth):
        for prefix in prefixes(vocab, length):
            raw = rng.integers(0, 4, vocab)
            raw[rng.integers(vocab)] += 1
            rows[prefix] = [F(int(x), int(raw.sum())) for x in raw]
    return TableModel(rows, default=[F(1, vocab)] * vocab)


@pytest.mark.parametrize("name", ["marked_block", "marked_greedy_block"])
@pytest.mark.parametrize(
    ("vocab", "gamma", "num_drafts", "cells"),
    [(2, 1, 3, 4), (2, 2, 2, 4), (2, 3, 2, 2), (3, 2, 2, 3), (3, 1, 3, 2), (4, 1, 2, 4)],
)
def test_programs_agree_with_closed_forms(
    name: str, vocab: int, gamma: int, num_drafts: int, cells: int
) -> None:
    for seed in range(2):
        rng = np.random.default_rng([seed, vocab, gamma, num_drafts])
        target, draft = random_model(rng, vocab, gamma), random_model(rng, vocab, gamma)
        a = analyse(target, draft, name, gamma, num_drafts, cells=cells, histogram=seed == 0)
        assert a.expected_accepted == a.closed_form


def winner_tree(p: RowTree, q: RowTree, scheme: Scheme, capped: bool) -> RowTree:
    """Row tree of the winner; where the draft never goes, any row will do."""
    law = WinnerLaw(p.row, q.row, scheme, p.depth, capped)
    levels = []
    for length in range(p.depth):
        paths = prefixes(p.vocab, length)
        levels.append(np.stack([law.row(v) if law.node(v) else q.row(v) for v in paths]))
    return RowTree(tuple(levels))


@pytest.mark.parametrize("seed", range(4))
def test_the_winner_is_verified_like_a_single_draft(seed: int) -> None:
    """E[tau] is that of (greedy) block verification of one draft from the winner's law."""
    rng = np.random.default_rng(seed)
    p, q = (RowTree.of(random_model(rng, 2 + seed % 2, 3), 2) for _ in range(2))
    scheme = Scheme.of(3, 5)
    assert marked_block(p, q, 2, 3, 5) == block(p, winner_tree(p, q, scheme, True), 2)
    greedy = greedy_block(p, winner_tree(p, q, scheme, False), 2)
    assert marked_greedy_block(p, q, 2, 3, 5) == greedy


def test_one_cell_or_one_draft_is_the_single_draft_rule() -> None:
    p, q = trees(MIRROR, 2)
    for num_drafts, cells in ((1, 6), (3, 1)):
        assert to_fraction(marked_block(p, q, 2, num_drafts, cells)) == F(11, 9)
        assert to_fraction(marked_greedy_block(p, q, 2, num_drafts, cells)) == F(12, 9)


def test_slots() -> None:
    """Labels first, the block's tests next, the emitted token last; the first highest wins."""
    rows = [rows_after(load_model(row, FLOAT), ()) for row in PEAKED]
    program = load_program("marked_block")
    drafts = ((1, 1), (0, 0), (0, 1))
    tape = [0.99, 0.99, 0.2, 0.0, 0.0, 0.5]
    outcome = program(Tape(tape), *rows, drafts, cells=4)
    assert outcome.tokens[:2] == (0, 0)  # 0 may draw labels that 1 may not
    tape[1] = 0.0
    assert program(Tape(tape), *rows, drafts, cells=4).tokens[:2] == (1, 1)
    tape[4] = 0.999
    assert program(Tape(tape), *rows, drafts, cells=4).accepted == 1
    with pytest.raises(ValueError, match="slot 5"):
        program(Tape(tape[:5]), *rows, drafts, cells=4)


def test_errors() -> None:
    p, q = trees(MIRROR, 2)
    with pytest.raises(ValueError, match="unknown coupling 'mixed'"):
        marked_block(p, q, 2, 2, 4, "mixed")
    with pytest.raises(ValueError, match="use 'mix' for rationals"):
        expected_accepted("marked_greedy_block", p, q, 2, 2, coupling="entmix")
    rows = [rows_after(load_model(row, FLOAT), ()) for row in MIRROR]
    program = load_program("marked_block")
    with pytest.raises(ValueError, match="draft equal lengths"):
        program(Tape([0.5] * 6), *rows, ((0, 1), (0,)), coupling="entmix")
    zero = [rows_after(load_model(row, FLOAT), ()) for row in ("1/2,1/2", "1,0")]
    with pytest.raises(ValueError, match="draft probability 0"):
        program(Tape([0.5] * 6), *zero, ((0,), (1,)))
