"""Random small exact models: what tests and demonstrations draw their examples from.

Rows have small denominators and zeros; a draft row is sometimes the target's own row and sometimes
a near tie of it, the places where comparisons go wrong. Everything is read off one
``random.Random``, so a seed names an example (and hypothesis can shrink one).
"""

from __future__ import annotations

from fractions import Fraction
from random import Random

from theory.models import MarkovModel, Prefix, TableModel, prefixes

Row = list[Fraction]

NEAR = Fraction(1, 1000)
"""The mass that a near tie moves from one token to another."""


def random_row(rng: Random, vocab: int, largest: int = 5) -> Row:
    """A row with denominators up to ``vocab * largest``; a quarter of the tokens is impossible."""
    weights = [rng.randint(1, largest) if rng.random() < 0.75 else 0 for _ in range(vocab)]
    weights[rng.randrange(vocab)] += 1
    return [Fraction(weight, sum(weights)) for weight in weights]


def draft_row(rng: Random, row: Row) -> Row:
    """A draft row for a target row: another one, or in two of five cases the same or nearly so."""
    kind = rng.randrange(5)
    if kind > 1:
        return random_row(rng, len(row))
    near = list(row)
    if kind == 1 and len(row) > 1:
        giver, taker = sorted(range(len(row)), key=lambda x: -row[x])[:2]
        near[giver] -= NEAR
        near[taker] += NEAR
    return near


def random_tables(rng: Random, vocab: int, depth: int) -> tuple[TableModel, TableModel]:
    """A target and a draft whose rows differ from prefix to prefix, down to ``depth`` tokens."""
    target: dict[Prefix, Row] = {}
    draft: dict[Prefix, Row] = {}
    for text in [text for n in range(depth) for text in prefixes(vocab, n)]:
        target[text] = random_row(rng, vocab)
        draft[text] = draft_row(rng, target[text])
    rest = random_row(rng, vocab)
    return TableModel(target, rest), TableModel(draft, draft_row(rng, rest))


def random_markov(rng: Random, vocab: int, order: int) -> MarkovModel:
    """A Markov model of some order."""
    if order == 0:
        return MarkovModel(random_row(rng, vocab))
    starts = {text: random_row(rng, vocab) for n in range(order) for text in prefixes(vocab, n)}
    return MarkovModel(starts, _nested(rng, vocab, order), order)


def _nested(rng: Random, vocab: int, order: int) -> list[object]:
    if order == 0:
        return list(random_row(rng, vocab))
    return [_nested(rng, vocab, order - 1) for _ in range(vocab)]
