"""The contract of the catalogue: an algorithm is tested by being listed.

Every entry has a program with a documented tape; a lossless one reproduces the target's law, a
biased one does not, a lossy one has the law that it declares. One seeded model with different
rows after every prefix, over three tokens, by equality of rationals.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from theory import FLOAT, Analysis, MarkovModel, TableModel, analyse, catalogue
from theory.accepted_length import CLOSED_FORMS
from theory.catalogue import VERIFIERS, Verifier
from theory.declared import Declared, predict
from theory.effects import Effects, Slot, Tape
from theory.fields import Array, Number
from theory.generation import distance
from theory.models import Prefix, Rows, prefixes, rows_after
from theory.random_models import random_tables
from theory.verifiers.common import Round, load_program
from theory.verifiers.relaxed import load_rule

GAMMA, HORIZON = 2, 3
PARAMS: dict[str, list[dict[str, Any]]] = {
    "recursive_rejection": [{}, {"replacement": False}],
    "traversal": [{}, {"replacement": False}, {"branching": (2, 1)}],
    "spectr_gbv": [{}, {"modification": True}, {"last_position": "consulted"}],
    "marked_block": [{"cells": 2}],
    "marked_greedy_block": [{"cells": 2}],
}
"""The parameters to test with where the defaults alone are too few, or too large to enumerate."""

CASES = [(entry, params) for entry in VERIFIERS for params in PARAMS.get(entry.name, [{}])]
each_case = pytest.mark.parametrize(
    ("entry", "params"), CASES, ids=[f"{entry.name}-{params}" for entry, params in CASES]
)
each_entry = pytest.mark.parametrize("entry", VERIFIERS, ids=[entry.name for entry in VERIFIERS])
TWO_TOKENS = ["1/3", "2/3"], ["2/3", "1/3"]
MODELS = random_tables(Random(12), 3, HORIZON)


def case(entry: Verifier, params: dict[str, Any], models: Any = MODELS) -> Analysis:
    num_drafts = 1 if entry.drafts == "one" else 2
    return analyse(*models, entry.name, GAMMA, num_drafts, HORIZON, **params)


@each_entry
def test_entry(entry: Verifier) -> None:
    assert entry.faces["theory"] == f"theory.verifiers.{entry.name}"
    assert entry.summary
    assert entry.paper
    module = importlib.import_module(entry.faces["theory"])
    documented = "theory.verifiers.relaxed" if entry.kind == "lossy" else module.__name__
    assert "slots" in str(importlib.import_module(documented).__doc__).lower()
    signature = inspect.signature(load_program(entry.name)).parameters
    assert [*signature][:5] == ["fx", "target", "draft", "drafts", "carry"]
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.values())
    assert takes_any or set(entry.params) <= {*[*signature][5:]}
    assert catalogue.verifier(entry.name) is entry


def test_names() -> None:
    names = [entry.name for entry in VERIFIERS]
    assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match="unknown verifier 'sequential_blok'; did you mean"):
        catalogue.verifier("sequential_blok")


@each_case
def test_law(entry: Verifier, params: dict[str, Any]) -> None:
    a = case(entry, params)
    if entry.kind == "lossy":
        merged = {**entry.params, **params}
        model = Declared(entry.name, *MODELS, merged)
        prediction = predict(model, GAMMA, HORIZON)
        assert distance(a._law.tokens, prediction.tokens) == 0
        assert a._law.calls == prediction.calls
        assert a.lossless == load_rule(entry.name).lossless_at(**merged)
    else:
        assert a.lossless == entry.lossless
    assert sum(a.output_law.values()) == 1


@each_case
def test_length(entry: Verifier, params: dict[str, Any]) -> None:
    a = case(entry, params)
    assert 0 <= a.expected_accepted <= GAMMA
    if entry.name in CLOSED_FORMS:
        assert a.closed_form == a.expected_accepted


@each_case
def test_floats(entry: Verifier, params: dict[str, Any]) -> None:
    """The same program in float64: the same law to rounding."""
    exact, rounded = case(entry, params), case(entry, params, [*map(as_floats, MODELS)])
    assert rounded.field is FLOAT
    for text, mass in exact.output_law.items():
        assert rounded.output_law.get(text, 0) == pytest.approx(float(mass), abs=1e-9)


def as_floats(model: TableModel) -> TableModel:
    texts = [text for n in range(HORIZON) for text in prefixes(model.vocab, n)]
    rows = {text: model.row(text).astype(float) for text in texts}
    return TableModel(rows, model.row((0,) * HORIZON).astype(float), FLOAT)


@dataclass
class Recorder:
    """Effects that write down the slots that are read."""

    fx: Effects
    slots: set[Slot]

    @property
    def field(self) -> Any:
        return self.fx.field

    def choose(self, law: Array, slot: Slot) -> int:
        self.slots.add(slot)
        return self.fx.choose(law, slot)

    def flip(self, prob: Number, slot: Slot) -> bool:
        self.slots.add(slot)
        return self.fx.flip(prob, slot)


@each_case
def test_tape(entry: Verifier, params: dict[str, Any]) -> None:
    """A round reads slots 0..S-1, each once at most, and runs on an array of S uniforms."""
    decoder, slots = case(entry, params).decoder, set[Slot]()
    drawn: set[tuple[Prefix, ...]] = set()

    def verifier(fx: Effects, p: Rows, q: Rows, drafts: Any, *rest: Any, **options: Any) -> Round:
        drawn.add(drafts)
        return decoder.verifier(Recorder(fx, slots), p, q, drafts, *rest, **options)

    law = replace(decoder, verifier=verifier).round_law((), (), GAMMA)
    assert slots == set(range(len(slots)))
    assert entry.stateful or {outcome.carry for outcome in law} == {()}
    rng, rows = Random(1), [rows_after(model, ()) for model in MODELS]
    for drafts in sorted(drawn)[:20]:
        tape = Tape([rng.random() for _ in slots], MODELS[0].field)
        outcome = decoder.verifier(tape, *rows, drafts, (), **decoder.params)
        assert outcome in law
        assert len(outcome.tokens) == outcome.accepted + 1
        assert any(path[: outcome.accepted] == outcome.tokens[:-1] for path in drafts)


@each_entry
def test_stateful_rules_hand_something_on(entry: Verifier) -> None:
    carries = set()
    for params in PARAMS.get(entry.name, [{}]):
        decoder = case(entry, params, [*map(MarkovModel, TWO_TOKENS)]).decoder
        carries |= {outcome.carry for outcome in decoder.round_law((), (), GAMMA)}
    assert (carries == {()}) == (not entry.stateful)
