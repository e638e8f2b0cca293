"""Block optima and bounds: published and enumerated values, definitions, and their order."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
import sympy

from theory import MarkovModel, RowTree, TableModel
from theory.accepted_length import block as block_length
from theory.accepted_length import greedy_block, kseq, max_ratio_block
from theory.fields import SYMBOLIC, to_fraction
from theory.random_models import random_tables
from theory.transport import (
    alpha_star,
    block_optimum,
    block_optimum_lp,
    bounds,
    cic_value,
    level_wise,
    marginal,
)
from theory.transport.block import LEAVES, block_value

F = Fraction

EXAMPLES = [
    # target, draft, gamma, K, stateless optimum, block optimum
    ("3/4,1/4", "1/4,3/4", 1, 2, F(11, 16), F(11, 16)),
    ("3/4,1/4", "1/4,3/4", 1, 3, F(53, 64), F(53, 64)),
    ("3/4,1/4", "1/4,3/4", 2, 2, F(299, 256), F(319, 256)),
    ("3/4,1/4", "1/4,3/4", 2, 3, F(5729, 4096), F(5905, 4096)),
    ("0,1/2,1/2", "1/2,1/6,1/3", 1, 2, F(3, 4), F(3, 4)),
    ("0,1/2,1/2", "1/2,1/6,1/3", 2, 2, F(19, 16), F(19, 16)),
    ("0,1/2,1/2", "1/2,1/6,1/3", 2, 3, F(2477, 1728), F(2477, 1728)),
    ("1/2,1/2", "1/2,1/2", 2, 3, 2, 2),
    ("1/3,2/3", "2/3,1/3", 1, 2, F(8, 9), F(8, 9)),
    ("1/3,2/3", "2/3,1/3", 2, 2, F(131, 81), F(134, 81)),
    ("1/3,2/3", "2/3,1/3", 2, 3, F(1351, 729), F(1351, 729)),
    ("1/2,1/2,0", "1/3,1/3,1/3", 1, 2, F(8, 9), F(8, 9)),
]


def trees(target: Any, draft: Any, gamma: int) -> tuple[RowTree, RowTree]:
    return RowTree.of(target, gamma), RowTree.of(draft, gamma)


@pytest.mark.parametrize(("target", "draft", "gamma", "num_drafts", "stateless", "free"), EXAMPLES)
def test_examples(
    target: str, draft: str, gamma: int, num_drafts: int, stateless: Fraction, free: Fraction
) -> None:
    b = bounds(target, draft, gamma, num_drafts)
    assert b.stateless_optimum == stateless
    assert b.block_optimum == free
    assert b.alpha_star == alpha_star(target, draft, num_drafts)
    for certificate in b.certificates.values():
        assert certificate["lower"] == certificate["upper"]


def test_claimed_optima_that_are_not() -> None:
    """The claimed optimum (cic) is below what is attainable; the marginal bound above it."""
    b = bounds("3/4,1/4", "1/4,3/4", 1, 2)
    assert (b.cic, b.block_optimum) == (F(2, 3), F(11, 16))
    b = bounds("0,1/2,1/2", "1/2,1/6,1/3", 1, 2)
    assert (b.cic, b.block_optimum) == (F(13, 18), F(3, 4))
    b = bounds("1/2,1/2,0", "1/3,1/3,1/3", 1, 2)
    assert (b.marginal, b.block_optimum, b.level_wise) == (1, F(8, 9), F(8, 9))


def test_levels_cannot_all_be_optimal() -> None:
    target = TableModel({"": "1/2,1/2", "0": "0,1", "1": "1/4,3/4"})
    draft = TableModel({"": "1/2,1/2", "0": "1/4,3/4", "1": "1,0"})
    b = bounds(target, draft, 2, 2)
    assert b.block_optimum == F(103, 64) < b.level_wise == F(104, 64)
    assert bounds(target, draft, 2, 1).level_wise == bounds(target, draft, 2, 1).block_optimum


SHAPES = [(2, 2, 2), (2, 3, 2), (2, 2, 3), (3, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_random_models(shape: tuple[int, int, int], seed: int) -> None:
    """Order of all bounds, the definition by linear programs, and rules below the optima."""
    vocab, gamma, num_drafts = shape
    target, draft = random_tables(Random(100 * seed + vocab), vocab, gamma)
    p, q = trees(target, draft, gamma)
    b = bounds(target, draft, gamma, num_drafts)
    assert b.cic <= b.block_optimum <= b.level_wise <= b.marginal
    assert b.stateless_optimum <= b.block_optimum
    for stateless in (False, True):
        optimum = block_optimum(p, q, num_drafts, stateless)
        assert optimum.proved
        by_definition = block_optimum_lp(p, q, num_drafts, stateless)
        assert float(optimum.upper) == pytest.approx(by_definition, abs=1e-9)
        assert block_value(p, q, num_drafts, stateless) == pytest.approx(by_definition, abs=1e-9)
    for rule in (kseq, max_ratio_block):
        assert to_fraction(rule(p, q, gamma, num_drafts)) <= b.stateless_optimum


@pytest.mark.parametrize("seed", range(6))
def test_one_draft(seed: int) -> None:
    """K = 1: every bound is greedy block verification; without state, block verification."""
    target, draft = random_tables(Random(seed), 3, 2)
    p, q = trees(target, draft, 2)
    b = bounds(target, draft, 2, 1)
    greedy = to_fraction(greedy_block(p, q, 2))
    assert b.cic == b.block_optimum == b.level_wise == b.marginal == greedy
    assert b.stateless_optimum == to_fraction(block_length(p, q, 2))


def test_equal_models_accept_everything() -> None:
    target, _ = random_tables(Random(3), 3, 2)
    b = bounds(target, target, 2, 3)
    assert b.cic == b.block_optimum == b.stateless_optimum == b.level_wise == b.marginal == 2


def test_floats() -> None:
    exact, rounded = (bounds("1/3,2/3", "2/3,1/3", 2, 2, field) for field in ("exact", "float"))
    for name in ("alpha_star", "block_optimum", "stateless_optimum", "cic", "level_wise"):
        value = getattr(rounded, name)
        assert type(value) is float
        assert value == pytest.approx(float(getattr(exact, name)), abs=1e-12)
    assert rounded.marginal == pytest.approx(float(exact.marginal), rel=1e-12)


def test_symbols() -> None:
    a, b = sympy.symbols("a b", positive=True)
    target = RowTree((SYMBOLIC.array([[a, 1 - a]]),))
    draft = RowTree((SYMBOLIC.array([[b, 1 - b]]),))
    at = {a: sympy.Rational(3, 4), b: sympy.Rational(1, 4)}
    expected = {cic_value: F(2, 3), level_wise: F(11, 16), marginal: F(11, 16)}
    for bound, value in expected.items():
        assert bound(target, draft, 2).subs(at) == sympy.Rational(*value.as_integer_ratio())


def test_a_deeper_model_by_thresholds() -> None:
    """Larger than the definition can take: the optimum is enclosed to 1e-9 and ordered."""
    rng = np.random.default_rng(0)
    p, q = (RowTree(tuple(rng.dirichlet(np.ones(2), 2**i) for i in range(5))) for _ in range(2))
    for stateless in (False, True):
        optimum = block_optimum(p, q, 3, stateless)
        assert 0 <= optimum.upper - optimum.lower < 1e-8
        assert optimum.upper < level_wise(p, q, 3) + 1e-12
    assert block_optimum(p, q, 3).lower > cic_value(p, q, 3)


def test_refusals() -> None:
    row = MarkovModel(["1/2", "1/2"])
    with pytest.raises(ValueError, match="gamma 0"):
        bounds(row, row, 0, 2)
    with pytest.raises(ValueError, match="num_drafts 0"):
        bounds(row, row, 1, 0)
    with pytest.raises(ValueError, match="target has 2 tokens, draft has 3"):
        bounds(row, "1/3,1/3,1/3", 1, 2)
    with pytest.raises(ValueError, match=r"draft: .* sum to 5/6"):
        bounds(row, [F(1, 2), F(1, 3)], 1, 2)
    with pytest.raises(ValueError, match="use equal ones"):
        block_optimum(RowTree.of(row, 1), RowTree.of(row, 2), 2)
    wide = [F(1, LEAVES)] * LEAVES
    with pytest.raises(ValueError, match="lower gamma"):
        bounds(wide, wide, 2, 2)


def test_one_position_needs_no_linear_program() -> None:
    rng = np.random.default_rng(2)
    rows = [rng.dirichlet(np.ones(3 * LEAVES)) for _ in "pq"]
    b = bounds(*(MarkovModel(row, field="float") for row in rows), 1, 3, "float")
    assert b.block_optimum == b.stateless_optimum == pytest.approx(b.alpha_star, rel=1e-12)
    for proof in b.certificates.values():
        assert proof["lower"] == proof["upper"]
