"""Expected lengths and calls of relaxed rules, and what goes wrong with averaged acceptance."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest
import sympy

from theory.accepted_length import calls
from theory.accepted_length.lossy import LOSSY_FORMS, rule_flows, survival
from theory.declared import Declared, predict
from theory.drafting import fixed
from theory.fields import to_fraction
from theory.generation import Decoder
from theory.laws import overlap, total_variation
from theory.models import MarkovModel, RowTree, TableModel
from theory.verifiers.common import load_program
from theory.verifiers.relaxed import load_rule

F = Fraction
TARGET = MarkovModel(["1/5", "3/10", "1/2"], [["1/2", "1/2", 0], ["1/6", "1/3", "1/2"], [0, 0, 1]])
DRAFT = MarkovModel(
    ["1/2", "1/4", "1/4"], [["1/4", "1/4", "1/2"], ["1/3"] * 3, ["1/10", "1/5", "7/10"]]
)


def trees(target: Any, draft: Any, gamma: int) -> tuple[RowTree, RowTree]:
    return RowTree.of(target, gamma), RowTree.of(draft, gamma)


def test_two_token_example() -> None:
    pair = MarkovModel(["1/3", "2/3"]), MarkovModel(["2/3", "1/3"])
    assert to_fraction(LOSSY_FORMS["ensemble"](*trees(*pair, 2), 2, w="1/2")) == F(55, 36)
    decoder = Decoder(*pair, load_program("ensemble"), fixed(2), params={"w": "1/2"})
    law = decoder.round_law((), (), 2)
    assert to_fraction(sum(o.accepted * mass for o, mass in law.items())) == F(55, 36)


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("ensemble", {"w": "1/3"}),
        ("ensemble", {"w": lambda prefix: F(1, 1 + len(prefix) + sum(prefix))}),
        ("lenience", {"lenience": "2/3", "residual": "target"}),
        ("mentored", {"hi": "5/4"}),
        ("cascade", {"rule": "token_v2", "knob": "1/5"}),
        ("typical", {"eps": "3/10", "delta": 1}),
    ],
)
def test_closed_forms_equal_enumeration(rule: str, params: dict[str, Any]) -> None:
    decoder = Decoder(TARGET, DRAFT, load_program(rule), fixed(3), params=params)
    law = decoder.round_law((), (), 3)
    tail = survival(rule, *trees(TARGET, DRAFT, 3), 3, **params)
    for t in (1, 2, 3):
        assert tail[t - 1] == sum(mass for o, mass in law.items() if o.accepted >= t)
    value = LOSSY_FORMS[rule](*trees(TARGET, DRAFT, 3), 3, **params)
    assert value == sum(o.accepted * mass for o, mass in law.items())


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("ensemble", {"w": "1/2"}),
        ("lenience", {"lenience": "2/3", "residual": "target"}),
        ("mentored", {"hi": "5/4"}),
        ("cascade", {"rule": "token_v2", "knob": "1/5"}),
        ("typical", {"eps": "3/10", "delta": 1}),
    ],
)
def test_calls_of_the_flow_recursions(rule: str, params: dict[str, Any]) -> None:
    """The same calls from three recursions, and the long-run rate of the enumerated rounds."""
    flows = rule_flows(rule, **params)
    told = predict(Declared(rule, TARGET, DRAFT, params), 2, 5).calls
    assert calls.calls_over_tree(*trees(TARGET, DRAFT, 4), 2, 5, flows) == told
    chain = calls.markov_flows(TARGET, DRAFT, flows)
    assert calls.calls_by_state(chain, 2, 5)[0] == told
    decoder = Decoder(TARGET, DRAFT, load_program(rule), fixed(2), params=params)
    assert calls.stationary_rate(chain, 2) == calls.long_run_rate(decoder, 2)


def test_flows_need_a_bonus_from_the_target() -> None:
    for params in ({"bonus": "ensemble"}, {"w": lambda prefix: 1}):
        with pytest.raises(ValueError, match="fixed parameters"):
            rule_flows("ensemble", **params)


def test_length_is_a_polynomial_of_the_weight() -> None:
    """On mirrored laws alpha = 1 - w/3, so E[tau] = alpha + alpha^2."""
    w = sympy.Symbol("w", nonnegative=True)
    pair = (
        MarkovModel(["1/3", "2/3"], field="symbolic"),
        MarkovModel(["2/3", "1/3"], field="symbolic"),
    )
    p, q = pair[0].row(()), pair[1].row(())
    kept = load_rule("ensemble").position(p, q, w=w).kept(q)
    alpha = kept.sum().subs(w, sympy.Rational(1, 2))
    assert alpha + alpha**2 == sympy.Rational(55, 36)


def test_several_drafts_are_refused() -> None:
    with pytest.raises(ValueError, match="num_drafts=2"):
        LOSSY_FORMS["typical"](*trees(TARGET, DRAFT, 1), 1, 2)


def test_averaged_acceptance_is_wrong() -> None:
    """TV 1/4 at the root, then 0 or 1: the truth is 1/2, products of averages say 9/16 and 3/8."""
    target = TableModel({"": ["1/2", "1/2"], "0": ["1/2", "1/2"], "1": [0, 1]})
    draft = TableModel({"": ["3/4", "1/4"], "0": ["1/2", "1/2"], "1": [1, 0]})
    p, q = trees(target, draft, 2)
    assert to_fraction(survival("ensemble", p, q, 2, w=1)[1]) == F(1, 2)
    root, below = overlap(p.levels[0], q.levels[0])[0], overlap(p.levels[1], q.levels[1])
    assert to_fraction(root * (q.levels[0][0] * below).sum()) == F(9, 16)
    assert to_fraction(root * (p.levels[0][0] * below).sum()) == F(3, 8)


def test_rejections_with_long_blocks_sum_the_total_variations() -> None:
    """gamma >= horizon, lossless: calls = 1 + sum over t of the mean TV at position t < horizon."""
    horizon = 4
    expected = F(1)
    for t in range(horizon - 1):
        for prefix in product(range(3), repeat=t):
            mass = F(1)
            for i in range(t):
                mass *= to_fraction(TARGET.row(prefix[:i])[prefix[i]])
            if mass:
                tv = total_variation(TARGET.row(prefix), DRAFT.row(prefix))
                expected += mass * to_fraction(tv)
    lossless = Declared("ensemble", TARGET, DRAFT, {"w": 1})
    assert to_fraction(predict(lossless, horizon, horizon).calls) == expected


@pytest.mark.parametrize("weight", ["1", "1/2", "0"])
def test_tokens_are_kept_drafts_and_one_token_a_call(weight: str) -> None:
    told = predict(Declared("ensemble", TARGET, DRAFT, {"w": weight}), 2, 5)
    assert told.accepted + told.calls == 5


def test_relaxing_saves_calls() -> None:
    spent = [
        predict(Declared("ensemble", TARGET, DRAFT, {"w": w}), 2, 5).calls for w in (1, "1/2", 0)
    ]
    assert spent[0] > spent[1] > spent[2] == 2
