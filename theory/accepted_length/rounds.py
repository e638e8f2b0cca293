"""Expected tokens after so many rounds, for rules whose rounds influence each other.

E[tau] of a fresh round is not throughput: greedy block verification keeps most in a round and
pays with a modified target in the next ones. Here whole rounds are enumerated in a row, carries
and all, without a horizon; on Markov models texts that end alike are merged. Derived here.
"""

from __future__ import annotations

from collections import defaultdict

from theory.fields import Number
from theory.generation import Decoder
from theory.inputs import whole
from theory.models import MarkovModel, Prefix
from theory.verifiers.common import Carry


def tokens_after(decoder: Decoder, gamma: int, rounds: int) -> list[Number]:
    """Expected emitted tokens after 1, 2, ..., ``rounds`` rounds that draft ``gamma`` tokens each.

    Raises:
        ValueError: gamma or rounds below 1.
    """
    gamma, rounds = whole(gamma, "gamma"), whole(rounds, "rounds")
    zero = decoder.target.field.zero
    states: dict[tuple[Prefix, Carry], Number] = {((), ()): zero + 1}
    total, totals = zero, []
    for _ in range(rounds):
        following: defaultdict[tuple[Prefix, Carry], Number] = defaultdict(lambda: zero)
        for (text, carry), weight in states.items():
            for outcome, mass in decoder.round_law(text, carry, gamma).items():
                total += weight * mass * len(outcome.tokens)
                end = _context(decoder, text + outcome.tokens)
                following[(end, outcome.carry)] += weight * mass
        states = dict(following)
        totals.append(total)
    return totals


def _context(decoder: Decoder, text: Prefix) -> Prefix:
    """The part of a text that later rows depend on."""
    target, draft = decoder.target, decoder.draft
    if isinstance(target, MarkovModel) and isinstance(draft, MarkovModel):
        return text[max(len(text) - max(target.order, draft.order), 0) :]
    return text
