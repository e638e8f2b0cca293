"""Every rule that claims it reproduces the target's law, as an equality of rationals.

The law of several tokens over several rounds, on models whose rows change with the prefix, with
impossible tokens, equal rows and near ties.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import MarkovModel, analyse
from theory.effects import Effects
from theory.generation import autoregressive, distance, generate
from theory.models import Rows, rows_after
from theory.random_models import random_tables
from theory.verifiers.common import Round
from theory.verifiers.greedy_block import Layer

Case = tuple[str, int, int, int, dict[str, Any]]
CASES: list[Case] = [  # rule, vocabulary, gamma, K, parameters
    ("token", 3, 2, 1, {}),
    ("block", 3, 2, 1, {}),
    ("block", 2, 3, 1, {}),
    ("greedy_block", 3, 2, 1, {}),
    ("greedy_block", 2, 3, 1, {}),
    ("kseq", 3, 1, 2, {}),
    ("kseq", 2, 2, 2, {}),
    ("recursive_rejection", 3, 1, 3, {}),
    ("recursive_rejection", 2, 2, 2, {}),
    ("recursive_rejection", 3, 1, 3, {"replacement": False}),
    ("recursive_rejection", 3, 2, 2, {"replacement": False}),
    ("sequential_block", 3, 1, 2, {}),
    ("sequential_block", 2, 2, 2, {}),
    ("sequential_block", 2, 2, 3, {}),
    ("sequential_greedy_block", 3, 1, 2, {}),
    ("sequential_greedy_block", 2, 2, 2, {}),
    ("sequential_greedy_block", 2, 2, 3, {}),
    ("max_ratio_block", 3, 1, 2, {}),
    ("max_ratio_block", 2, 2, 2, {}),
    ("max_ratio_block", 2, 2, 3, {}),
    ("traversal", 3, 2, 1, {}),
    ("traversal", 3, 1, 2, {}),
    ("traversal", 2, 2, 2, {"branching": (2, 1)}),
    ("traversal", 2, 2, 2, {"branching": (1, 2)}),
    ("traversal", 2, 2, 2, {}),
    ("traversal", 3, 1, 3, {"replacement": False}),
    ("traversal", 2, 2, 2, {"replacement": False}),
    ("point_mass", 3, 2, 1, {}),
    ("point_mass", 3, 2, 2, {}),
    ("spectr_gbv", 2, 2, 1, {"modification": True}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_lossless(case: Case, seed: int) -> None:
    name, vocab, gamma, num_drafts, params = case
    horizon = 4 if vocab == 2 else 3
    models = random_tables(Random(seed), vocab, horizon)
    assert analyse(*models, name, gamma, num_drafts, horizon, **params).distance == 0


@pytest.mark.parametrize(("name", "num_drafts"), [("greedy", 1), ("sequential_greedy", 2)])
def test_nested_layers(name: str, num_drafts: int) -> None:
    """Five tokens at gamma 3: modifications of the second round lie on top of the first one's."""
    models = random_tables(Random(1), 2, 5)
    run = analyse(*models, f"{name}_block", 3, num_drafts).decoder
    depths = set()
    for first in run.round_law((), (), 3):
        for second in run.round_law(first.tokens, first.carry, 3):
            depths.add(len(cast(tuple[Layer, ...], second.carry)))
    assert depths >= {0, 1, 2}
    assert distance(generate(run, 5).tokens, autoregressive(models[0], 5)) == 0


@pytest.mark.parametrize("gamma", [1, 2])
def test_end_of_text_in_the_middle_of_a_block(gamma: int) -> None:
    models = random_tables(Random(3), 2, 4)
    for name in ("sequential_block", "sequential_greedy_block", "max_ratio_block", "traversal"):
        assert analyse(*models, name, gamma, 2, horizon=4, eos=1).distance == 0


@pytest.mark.parametrize(
    "name", ["recursive_rejection", "sequential_block", "max_ratio_block", "traversal"]
)
def test_wrong_draft_rows_are_found(name: str) -> None:
    """The negative control: the drafts are not drawn from the rows that the verifier sees."""
    rows = (["1/3", "2/3"], ["3/4", "1/4"], ["1/2", "1/2"])
    target, draft, believed = map(MarkovModel, rows)
    run = analyse(target, draft, name, 2, 2).decoder

    def verifier(fx: Effects, p: Rows, _: Rows, *rest: Any, **params: Any) -> Round:
        return run.verifier(fx, p, rows_after(believed, ()), *rest, **params)

    law = generate(replace(run, verifier=verifier), 3).tokens
    assert distance(law, autoregressive(target, 3)) > 0
