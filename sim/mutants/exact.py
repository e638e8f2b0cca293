"""Exact laws of mutants and of the correct decoders beside them."""

from __future__ import annotations

from functools import cache
from typing import cast

from sim.mutants.mutant import Mutant
from sim.mutants.pairs import HORIZON, pair
from theory.drafting import Drafting, draw_path, independent
from theory.effects import Effects
from theory.fields import EXACT, FLOAT, Number
from theory.generation import Decoder, GenerationLaw, autoregressive, distance, generate
from theory.models import Model, Prefix, Rows
from theory.verifiers.common import Program


def drafting(mutant: Mutant) -> Drafting:
    """How its drafts are drawn: from ``drawn`` rows, and in full for a stateful rule."""

    def window(fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
        if mutant.verifier.stateful:
            cap = mutant.gamma
        change = mutant.drawn
        rows: Rows = draft if change is None else (lambda path: change(draft(path)))
        return draw_path(fx, rows, lambda path: len(path) == mutant.gamma, cap, k)

    return independent(window, mutant.num_drafts)


def generation(
    mutant: Mutant, target: Model, draft: Model, horizon: int = HORIZON
) -> GenerationLaw:
    """The exact law of the mutant's first ``horizon`` tokens."""
    window = drafting(mutant)
    seen = mutant.target_read(target, draft)
    program = cast(Program, mutant.program)
    decoder = Decoder(seen, draft, program, _unused, drafting=window)
    return generate(decoder, horizon)


@cache
def laws(mutant: Mutant, name: str = "") -> tuple[dict[Prefix, Number], dict[Prefix, Number]]:
    """The correct law and the mutant's, over ``HORIZON`` tokens, on an embedded pair."""
    field = EXACT if mutant.exact else FLOAT
    models = pair(name or mutant.pair, field)
    correct = autoregressive(mutant.reference(models.target), HORIZON)
    return correct, generation(mutant, *models).tokens


@cache
def correct_length(mutant: Mutant, name: str = "") -> float:
    """E[tau] of the first full round of the rule that the mutant spoils, as it should be."""
    target, draft = pair(name or mutant.pair, FLOAT)
    plain = mutant.corrected()
    program = cast(Program, plain.program)
    decoder = Decoder(target, draft, program, _unused, drafting=drafting(plain))
    law = decoder.round_law((), (), mutant.gamma)
    return float(sum(mass * outcome.accepted for outcome, mass in law.items()))


def exact_distance(mutant: Mutant, name: str = "") -> Number:
    """Total variation between the two laws: a rational, or a float if the fault is irrational."""
    value = distance(*laws(mutant, name))
    return EXACT.public(value) if mutant.exact else float(value)


def _unused(fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
    raise AssertionError("the decoder has a drafting of its own")
