"""What a relaxed rule is predicted to emit over many rounds, from its declared law alone.

With a bonus drawn from p, a token's law depends on its place in the block, so the state of the
text is (prefix, place j in a block of g drafted tokens) and mass moves by three flows:

    place j < g:  accept   q(x) acc(x)           -> (prefix x, j + 1)
                  correct  nu(x) - q(x) acc(x)   -> (prefix x, 0), a new block
    place j = g:  bonus    p(x), or nu(x)        -> (prefix x, 0), a new block

with g = min(gamma, remaining - 1); every block costs one target call. This dynamic program reads
rows only and never runs the rule's program; tests hold the two together.

Derived here. For acc = min(1, p/q) and nu = p it describes token verification.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from theory.fields import Array, Field, Number
from theory.generation import GenerationLaw
from theory.inputs import whole
from theory.models import Model, Prefix, check_pair
from theory.verifiers.relaxed import at, load_rule


@dataclass(frozen=True)
class Declared:
    """The model a rule verifies against: rows nu (they mix two models and may depend on both).

    Attributes:
        rule: name of a lossy rule in the catalogue.
        target, draft: the models.
        params: parameters of the rule.
    """

    rule: str
    target: Model
    draft: Model
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def vocab(self) -> int:
        return self.target.vocab

    @property
    def field(self) -> Field:
        return self.target.field

    def row(self, prefix: Prefix) -> Array:
        """nu after ``prefix``."""
        p, q = self.target.row(prefix), self.draft.row(prefix)
        return load_rule(self.rule).declared(p, q, **at(self.params, prefix))

    def kept(self, prefix: Prefix) -> Array:
        """q acc after ``prefix``: what is drafted and accepted."""
        p, q = self.target.row(prefix), self.draft.row(prefix)
        return load_rule(self.rule).position(p, q, **at(self.params, prefix)).kept(q)

    def bonus(self, prefix: Prefix) -> Array:
        """The law of the token after a fully accepted block."""
        if load_rule(self.rule).bonus_from(**self.params) == "declared":
            return self.row(prefix)
        return self.target.row(prefix)


def predict(model: Declared, gamma: int, horizon: int, eos: int | None = None) -> GenerationLaw:
    """The law of the first ``horizon`` tokens and the expected calls, for a fixed window.

    Raises:
        ValueError: gamma or horizon below 1, or models that do not match.
    """
    gamma, horizon = whole(gamma, "gamma"), whole(horizon, "horizon")
    check_pair(model.target, model.draft)
    zero = model.field.zero
    states: list[defaultdict[tuple[Prefix, int, int], Number]] = [
        defaultdict(lambda: zero) for _ in range(horizon + 1)
    ]
    states[0][((), 0, min(gamma, horizon - 1))] = model.field.one
    done: defaultdict[Prefix, Number] = defaultdict(lambda: zero)
    calls = accepted = zero
    for length in range(horizon):
        fresh = min(gamma, max(horizon - length - 2, 0))
        for (prefix, place, block), mass in states[length].items():
            calls += mass if place == 0 else zero
            kept = model.kept(prefix) if place < block else None
            accepted += zero if kept is None else mass * kept.sum()
            emitted = model.bonus(prefix) if kept is None else model.row(prefix) - kept
            flows = [(fresh, 0, emitted)]
            flows += [] if kept is None else [(block, place + 1, kept)]
            for new_block, new_place, law in flows:
                for x, share in enumerate(law):
                    text = (*prefix, x)
                    if share == 0:
                        continue
                    if x == eos or length + 1 == horizon:
                        done[text] += mass * share
                    else:
                        states[length + 1][(text, new_place, new_block)] += mass * share
    return GenerationLaw(dict(done), calls, accepted)
