"""Marked verification beside the optimum: completeness, and the table on random models."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from theory.accepted_length import block, greedy_block
from theory.fields import EXACT, Array, divide, field_of, positive_part
from theory.marks import cells_between, mix
from theory.marks.table import MARKED, SETTINGS, STATELESS, compare, measure, random_pair
from theory.models import RowTree
from theory.transport.block import BlockProgram
from theory.transport.one_position import hit_probability
from theory.transport.tree_bounds import node_masses

F = Fraction


def attained(winner: Array, supply: Array, num_drafts: int) -> Array:
    """The law of the first highest label, for the best labels of a wished winner law.

    Cells between the draft masses of {winner/supply <= t} lose nothing (``cells_between``).
    """
    ratios = divide(winner, supply)
    order = sorted(range(len(ratios)), key=lambda i: ratios[i])
    edges = np.concatenate([supply[:1] * 0, supply[order].cumsum()])
    edges[-1] = edges[-1] * 0 + 1
    grid = cells_between(num_drafts, edges)
    kernel = mix(ratios[order], supply[order], grid.masses, grid.values)
    means = 0 * ratios
    means[order] = kernel @ grid.values
    assert max(map(field_of(supply).to_float, abs(supply[order] @ kernel - grid.masses))) < 1e-12
    return supply * means


def possible(winner: Array, supply: Array, num_drafts: int) -> bool:
    """Border's condition: no set of strings holds more than the drafts reach."""
    chosen = np.array(list(np.ndindex(*(2,) * len(winner))), dtype=object)
    return bool((chosen @ winner <= hit_probability(chosen @ supply, num_drafts)).all())


@pytest.mark.parametrize("num_drafts", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_labels_realise_every_possible_winner(seed: int, num_drafts: int) -> None:
    """In rationals: mixtures of fixed orders, which span all laws a selection can have."""
    rng = np.random.default_rng([seed, num_drafts])
    raw = rng.integers(1, 9, 5)
    supply = EXACT.array([F(int(x), int(raw.sum())) for x in raw])
    winner = supply * 0
    for _ in range(3):
        order = rng.permutation(5)
        reach = hit_probability(supply[order].cumsum(), num_drafts)
        winner[order] += EXACT.number("1/3") * np.diff(np.concatenate([[EXACT.zero], reach]))
    assert possible(winner, supply, num_drafts)
    assert (attained(winner, supply, num_drafts) == winner).all()
    order = np.argsort(winner / supply)
    winner[order[-1]] += winner[order[0]] / 2
    winner[order[0]] /= 2
    assert possible(winner, supply, num_drafts) == all(
        attained(winner, supply, num_drafts) == winner
    )


def winner_rows(law: Array, vocab: int, gamma: int) -> RowTree:
    """The row tree of a law on strings of length gamma."""
    levels = []
    for length in range(gamma):
        below = law.reshape(vocab**length, vocab, -1).sum(axis=-1)
        levels.append(divide(below, below.sum(axis=-1, keepdims=True)))
    return RowTree(tuple(levels))


@pytest.mark.parametrize(("vocab", "gamma", "num_drafts"), [(2, 2, 2), (2, 3, 2), (3, 2, 3)])
def test_the_optimum_is_a_marked_rule(vocab: int, gamma: int, num_drafts: int) -> None:
    """The winner law of either optimum is that of labels, and its block rule accepts as much."""
    for seed in range(2):
        p, q = random_pair(np.random.default_rng([seed, gamma]), vocab, gamma)
        for stateless, form in ((True, block), (False, greedy_block)):
            program = BlockProgram(p, q, num_drafts, stateless)
            solution = program.solve()
            law = positive_part(solution.primal[: len(program.leaves)])
            law = attained(law / law.sum(), node_masses(q)[-1], num_drafts)
            value = form(p, winner_rows(law, vocab, gamma), gamma)
            assert value == pytest.approx(solution.value, abs=1e-7)


@pytest.mark.parametrize(("vocab", "gamma", "num_drafts"), SETTINGS)
def test_table(vocab: int, gamma: int, num_drafts: int) -> None:
    """A few models a row; ``theory.marks.table`` measures as many as wanted."""
    row = compare(vocab, gamma, num_drafts, models=4, cells=32)
    slack = gamma * row.gap
    assert 1 + 1e-9 >= row.stateless_share[0] >= 0.99
    assert 1 + 1e-9 >= row.greedy_share[0] >= 0.99
    assert row.stateless_margin > (-slack if gamma == 1 else 0)
    assert row.greedy_margin > -slack
    assert row.means["marked_greedy_block"] >= row.means["marked_block"] - 1e-12
    assert row.means["marked_block"] >= row.means["cic"] - slack


def test_more_cells_and_entropy_help() -> None:
    """On average; and no rule ever exceeds its optimum."""
    coarse = measure(2, 2, 2, models=6, cells=4, coupling="mix")
    fine = measure(2, 2, 2, models=6, cells=16, coupling="mix")
    mixed = measure(2, 2, 2, models=6, cells=16)
    for name in MARKED:
        means = [values[name].mean() for values in (coarse, fine, mixed)]
        assert means == sorted(means)
    for name in (*STATELESS, "marked_block"):
        assert (fine[name] <= fine["stateless_optimum"] + 1e-9).all()
    assert (fine["block_optimum"] <= fine["level_wise"] + 1e-9).all()
