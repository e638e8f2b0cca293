"""Relaxed rules over many rounds: enumerated programs against the declared law."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from theory.declared import Declared, predict
from theory.drafting import fixed
from theory.effects import Effects
from theory.fields import to_fraction
from theory.generation import Decoder, GenerationLaw, autoregressive, distance, generate
from theory.models import MarkovModel, Model, Prefix, prefixes
from theory.verifiers.common import Round, load_program

F = Fraction
TARGET = MarkovModel(["1/3", "2/3"], [["1/4", "3/4"], ["3/5", "2/5"]])
DRAFT = MarkovModel(["2/3", "1/3"], [["1/2", "1/2"], ["1/5", "4/5"]])
TARGET3 = MarkovModel(["1/5", "3/10", "1/2"], [["1/2", "1/2", 0], ["1/6", "1/3", "1/2"], [0, 0, 1]])
DRAFT3 = MarkovModel(
    ["1/2", "1/4", "1/4"], [["1/4", "1/4", "1/2"], ["1/3"] * 3, ["1/10", "1/5", "7/10"]]
)
FLAT_TARGET, FLAT_DRAFT = MarkovModel(["1/3", "2/3"]), MarkovModel(["2/3", "1/3"])

RULES: list[tuple[str, dict[str, Any]]] = [
    ("ensemble", {"w": "1/2"}),
    ("ensemble", {"w": "1/2", "bonus": "ensemble"}),
    ("ensemble", {"w": 1, "bonus": "ensemble"}),
    ("lenience", {"lenience": "1/2", "residual": "stock"}),
    ("lenience", {"lenience": "1/2", "residual": "target"}),
    ("mentored", {"hi": "3/2"}),
    ("cascade", {"rule": "token_v3", "knob": "2/5"}),
    ("cascade", {"rule": "diff", "knob": "1/10"}),
    ("typical", {"eps": "3/10", "delta": 1, "correction": "argmax"}),
    ("typical", {"eps": "3/10", "delta": 1, "correction": "target"}),
]


def by_prefix(prefix: Prefix) -> Fraction:
    """A weight that depends on the whole prefix, and differs at every one."""
    return F(1 + sum(prefix), 2 + len(prefix) + sum(prefix))


DYNAMIC: list[tuple[str, dict[str, Any]]] = [
    ("ensemble", {"w": by_prefix}),
    ("ensemble", {"w": by_prefix, "bonus": "ensemble"}),
    ("ensemble", {"w": {p: by_prefix(p) for n in range(5) for p in prefixes(2, n)}}),
    ("mentored", {"hi": lambda prefix: 1 + by_prefix(prefix)}),
]


def enumerated(
    rule: str, params: dict[str, Any], models: tuple[Model, Model], gamma: int, horizon: int
) -> GenerationLaw:
    return generate(Decoder(*models, load_program(rule), fixed(gamma), params=params), horizon)


def agree(
    rule: str, params: dict[str, Any], models: tuple[Model, Model], gamma: int, n: int
) -> bool:
    run = enumerated(rule, params, models, gamma, n)
    told = predict(Declared(rule, *models, params), gamma, n)
    return run == told


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize(("rule", "params"), RULES + DYNAMIC)
def test_the_program_emits_the_declared_law(rule: str, params: dict[str, Any], gamma: int) -> None:
    assert agree(rule, params, (TARGET, DRAFT), gamma, 4)


@pytest.mark.parametrize(("rule", "params"), RULES)
def test_the_program_emits_the_declared_law_with_zeros(rule: str, params: dict[str, Any]) -> None:
    assert agree(rule, params, (TARGET3, DRAFT3), 2, 3)


def test_another_rule_does_not_pass() -> None:
    run = enumerated("ensemble", {"w": "1/2"}, (TARGET, DRAFT), 2, 4)
    told = predict(Declared("ensemble", TARGET, DRAFT, {"w": "1/2", "bonus": "ensemble"}), 2, 4)
    assert run.tokens != told.tokens


def test_end_of_text_and_token_counts() -> None:
    decoder = Decoder(TARGET, DRAFT, load_program("ensemble"), fixed(2), params={"w": "1/2"}, eos=1)
    told = predict(Declared("ensemble", TARGET, DRAFT, {"w": "1/2"}), 2, 4, eos=1)
    assert generate(decoder, 4) == told
    length = sum(len(text) * mass for text, mass in told.tokens.items())
    assert length < 4
    # every token is a kept draft, a correction or a bonus; a call that ends in EOS may emit none
    assert told.accepted < length <= told.accepted + told.calls


def test_a_lossless_weight_gives_token_verification() -> None:
    exact = enumerated("token", {}, (TARGET, DRAFT), 2, 4)
    told = predict(Declared("ensemble", TARGET, DRAFT, {"w": 1}), 2, 4)
    assert told == exact
    assert distance(told.tokens, autoregressive(TARGET, 4)) == 0


def test_the_bonus_follows_the_target() -> None:
    """w = 1/2 on mirrored laws: verified positions follow (1/2, 1/2), the bonus (1/3, 2/3)."""
    decoder = Decoder(
        FLAT_TARGET, FLAT_DRAFT, load_program("ensemble"), fixed(2), params={"w": "1/2"}
    )
    rounds = decoder.round_law((), (), 2)
    first: dict[int, Any] = {0: 0, 1: 0}
    bonus: dict[int, Any] = {0: 0, 1: 0}
    second: dict[int, Any] = {0: 0, 1: 0}
    for outcome, mass in rounds.items():
        first[outcome.tokens[0]] += mass
        if outcome.accepted >= 1:
            second[outcome.tokens[1]] += mass
        if outcome.accepted == 2:
            bonus[outcome.tokens[2]] += mass
    assert [to_fraction(first[x]) for x in (0, 1)] == [F(1, 2), F(1, 2)]
    assert second[0] == second[1]
    assert to_fraction(bonus[1] / (bonus[0] + bonus[1])) == F(2, 3)
    own = enumerated("ensemble", {"w": "1/2"}, (FLAT_TARGET, FLAT_DRAFT), 2, 2).tokens
    assert {text: to_fraction(mass) for text, mass in own.items()} == {
        # position 2 is a bonus of the first block (cap 1), or a fresh draw from p
        (0, 0): F(1, 6),
        (0, 1): F(1, 3),
        (1, 0): F(1, 6),
        (1, 1): F(1, 3),
    }


@pytest.mark.parametrize("models", [(FLAT_TARGET, FLAT_DRAFT), (TARGET, DRAFT)])
def test_the_output_depends_on_gamma_when_the_bonus_is_from_the_target(
    models: tuple[Model, Model],
) -> None:
    laws = [enumerated("ensemble", {"w": "1/2"}, models, gamma, 4).tokens for gamma in (1, 2, 3)]
    assert distance(laws[0], laws[1]) > 0
    assert distance(laws[1], laws[2]) > 0
    mixed = autoregressive(Declared("ensemble", *models, {"w": "1/2"}), 4)
    assert all(distance(law, mixed) > 0 for law in laws)


@pytest.mark.parametrize("params", [{"w": "1/2"}, {"w": "1/5"}, {"w": by_prefix}])
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_a_bonus_from_the_ensemble_gives_ar_of_the_mixture(
    params: dict[str, Any], gamma: int
) -> None:
    """Verified positions and the bonus then follow one law, so gamma leaves no trace.

    The last token of the horizon is drawn with no draft: as a bonus, hence from the mixture too.
    """
    law = enumerated("ensemble", {**params, "bonus": "ensemble"}, (TARGET, DRAFT), gamma, 4)
    assert law.tokens == autoregressive(Declared("ensemble", TARGET, DRAFT, params), 4)


def test_a_mapping_without_a_prefix_names_it() -> None:
    decoder = Decoder(TARGET, DRAFT, load_program("ensemble"), fixed(1), params={"w": {(): "1/2"}})
    with pytest.raises(ValueError, match=r"no value after prefix \["):
        generate(decoder, 4)


def test_a_forgotten_carry_is_seen() -> None:
    """Without the committed prefix a dynamic weight is looked up at the wrong place."""

    def forgetful(fx: Effects, *args: Any, **params: Any) -> Round:
        outcome = load_program("ensemble")(fx, *args, **params)
        return Round(outcome.accepted, outcome.tokens)

    decoder = Decoder(TARGET, DRAFT, forgetful, fixed(1), params={"w": by_prefix})
    told = predict(Declared("ensemble", TARGET, DRAFT, {"w": by_prefix}), 1, 4)
    assert generate(decoder, 4).tokens != told.tokens


def test_prediction_rejects_empty_blocks() -> None:
    with pytest.raises(ValueError, match="gamma 0"):
        predict(Declared("ensemble", TARGET, DRAFT), 0, 4)
