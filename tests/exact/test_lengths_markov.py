"""E[tau] on Markov models: equal to the row-tree forms, and far beyond their depth."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory import FLOAT, MarkovModel
from theory.accepted_length import expected_accepted as over_tree
from theory.accepted_length import markov
from theory.accepted_length.iid import tokens_per_call
from theory.fields import to_fraction
from theory.models import RowTree, TableModel
from theory.random_models import random_markov

F = Fraction
SUN = MarkovModel(["1/3", "2/3"]), MarkovModel(["2/3", "1/3"])
RULES = [
    ("token", 1),
    ("point_mass", 1),
    ("point_mass", 2),
    ("kseq", 2),
    ("recursive_rejection", 1),
    ("recursive_rejection", 3),
    ("block", 1),
    ("greedy_block", 1),
]


@pytest.mark.parametrize(("name", "num_drafts"), RULES)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 2**32 - 1),
    orders=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    prefix=st.lists(st.integers(0, 1), max_size=3).map(tuple),
)
def test_markov_form_is_the_tree_form(
    name: str, num_drafts: int, seed: int, orders: tuple[int, int], prefix: tuple[int, ...]
) -> None:
    rng = Random(seed)
    models = tuple(random_markov(rng, 2, order) for order in orders)
    p_tree, q_tree = (RowTree.of(model, 3, prefix) for model in models)
    value = markov.expected_accepted(name, *models, 3, num_drafts, prefix)
    assert value == over_tree(name, p_tree, q_tree, 3, num_drafts)


def test_hundreds_of_tokens() -> None:
    """Context-free rows: the token rule is a geometric sum, and everything has its limit."""
    value = markov.expected_accepted("token", *SUN, 400)
    alpha = F(2, 3)
    assert to_fraction(value) == tokens_per_call(alpha, 400) - 1 == 2 * (1 - alpha**400)
    lengths = [markov.expected_accepted("block", *SUN, gamma) for gamma in (1, 10, 60)]
    assert lengths == sorted(lengths)
    greedy = markov.expected_accepted("greedy_block", *SUN, 60)
    assert value < lengths[-1] < greedy


def test_a_long_deterministic_draft() -> None:
    """A cycle of three tokens, drafted by the argmax: E[tau] is a geometric sum of p."""
    p = [["1/10", "4/5", "1/10"], ["1/10", "1/10", "4/5"], ["4/5", "1/10", "1/10"]]
    model = MarkovModel(["1", "0", "0"], p)
    value = markov.expected_accepted("point_mass", model, model, 200)
    assert to_fraction(value) == sum(F(4, 5) ** i for i in range(200))


def test_floats() -> None:
    exact = [random_markov(Random(5), 3, 1) for _ in range(2)]
    floats = [
        MarkovModel(model.row(()).astype(float), model.transition.astype(float), 1, FLOAT)
        for model in exact
    ]
    for name in ("token", "kseq", "recursive_rejection"):
        value = markov.expected_accepted(name, *floats, 30, 2 if name != "token" else 1)
        same = markov.expected_accepted(name, *exact, 30, 2 if name != "token" else 1)
        assert value == pytest.approx(float(to_fraction(same)), rel=1e-9)
    with pytest.raises(ValueError, match="merges equal ratios"):
        markov.expected_accepted("block", *floats, 3)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="has no Markov form"):
        markov.expected_accepted("traversal", *SUN, 2, 2)
    with pytest.raises(ValueError, match="use 1 or more"):
        markov.expected_accepted("token", *SUN, 0)
    table = TableModel({"": ["1/2", "1/2"]})
    with pytest.raises(ValueError, match="no finite contexts"):
        markov.expected_accepted("token", SUN[0], table, 2)  # type: ignore[arg-type]
    monkeypatch.setattr(markov, "STATES", 5)
    rows = MarkovModel(["1/7", "2/7", "4/7"]), MarkovModel(["1/3", "1/3", "1/3"])
    with pytest.raises(ValueError, match="different \\(context, ratio\\) pairs at depth"):
        markov.expected_accepted("greedy_block", *rows, 9)
