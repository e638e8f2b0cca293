"""Whole generations: the exact law of the first N tokens, over as many rounds as it takes.

A generation alternates drafting and verification as an engine does: a round drafts at most
``remaining - 1`` tokens (the correction or bonus is always emitted), tokens beyond the horizon
and after an EOS are dropped, and a stateful rule's carry is handed on. The state between rounds
is (committed tokens, carry), so the law is computed forward, state by state, merging equal states;
each round is enumerated exactly by ``theory.effects``. Derived here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from theory.drafting import Drafting, Window, independent
from theory.effects import Effects, enumerate_law
from theory.fields import Number
from theory.inputs import whole
from theory.models import Model, Prefix, check_pair, rows_after
from theory.verifiers.common import Carry, Program, Round


@dataclass(frozen=True)
class Decoder:
    """A complete decoding algorithm on a pair of models.

    Attributes:
        target, draft: the models.
        verifier: the verification program.
        window: how each draft is drawn (``theory.drafting``).
        num_drafts: drafts a round (K).
        params: parameters of the verifier.
        eos: token that ends a generation, or None.
        drafting: how all drafts are drawn together; None for ``num_drafts`` separate windows.
    """

    target: Model
    draft: Model
    verifier: Program
    window: Window
    num_drafts: int = 1
    params: Mapping[str, Any] = field(default_factory=dict)
    eos: int | None = None
    drafting: Drafting | None = None

    def round_law(self, prefix: Prefix, carry: Carry, cap: int) -> dict[Round, Number]:
        """The exact law of one round after ``prefix``, drafting at most ``cap`` tokens."""
        target, draft = rows_after(self.target, prefix), rows_after(self.draft, prefix)
        drafting = self.drafting or independent(self.window, self.num_drafts)

        def program(fx: Effects) -> Round:
            drafts = drafting(fx, draft, cap)
            return self.verifier(fx, target, draft, drafts, carry, **self.params)

        return enumerate_law(program, self.target.field)


@dataclass(frozen=True)
class GenerationLaw:
    """What a decoder does over a horizon.

    Attributes:
        tokens: law of the emitted string (shorter than the horizon only if it ends in EOS).
        calls: expected target calls, one per round.
        accepted: expected drafted tokens kept, after truncation.
    """

    tokens: dict[Prefix, Number]
    calls: Number
    accepted: Number


def generate(decoder: Decoder, horizon: int) -> GenerationLaw:
    """The exact law of the first ``horizon`` tokens and the expected number of target calls.

    Raises:
        ValueError: horizon below 1, or models that do not match.
    """
    horizon = whole(horizon, "horizon")
    check_pair(decoder.target, decoder.draft)
    number = decoder.target.field
    states: list[defaultdict[tuple[Prefix, Carry], Number]] = [
        defaultdict(lambda: number.zero) for _ in range(horizon)
    ]
    states[0][((), ())] = number.one
    done: defaultdict[Prefix, Number] = defaultdict(lambda: number.zero)
    calls = accepted = number.zero
    for length in range(horizon):
        for (prefix, carry), weight in states[length].items():
            calls += weight
            law = decoder.round_law(prefix, carry, horizon - length - 1)
            for outcome, probability in law.items():
                mass = weight * probability
                kept = _truncate(outcome.tokens, horizon - length, decoder.eos)
                accepted += mass * min(outcome.accepted, len(kept))
                tokens = prefix + kept
                if len(tokens) == horizon or (kept and kept[-1] == decoder.eos):
                    done[tokens] += mass
                else:
                    states[len(tokens)][(tokens, outcome.carry)] += mass
    return GenerationLaw(dict(done), calls, accepted)


def _truncate(tokens: Prefix, room: int, eos: int | None) -> Prefix:
    kept = tokens[:room]
    return kept[: kept.index(eos) + 1] if eos in kept else kept


def autoregressive(model: Model, horizon: int, eos: int | None = None) -> dict[Prefix, Number]:
    """The model's own law of its first ``horizon`` tokens (strings of positive probability)."""
    law: dict[Prefix, Number] = {(): model.field.one}
    for _ in range(horizon):
        longer: dict[Prefix, Number] = {}
        for prefix, weight in law.items():
            if prefix and prefix[-1] == eos:
                longer[prefix] = weight
                continue
            for token, mass in enumerate(model.row(prefix)):
                if mass != 0:
                    longer[(*prefix, token)] = weight * mass
        law = longer
    return law


def distance(first: Mapping[Prefix, Number], second: Mapping[Prefix, Number]) -> Number:
    """Total variation distance of two laws of strings."""
    keys = set(first) | set(second)
    return sum((abs(first.get(key, 0) - second.get(key, 0)) for key in keys), start=0) / 2
