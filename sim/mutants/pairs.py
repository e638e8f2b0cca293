"""The embedded pairs of models on which mutants are shown, in small rationals.

Rows depend on the whole prefix, so that a stale or shifted row changes the law. ``dense`` has no
zeros, so that no fault betrays itself by an impossible token; ``sparse`` has some in the target's
rows, as filters make them. ``flat`` is the design of most public tests: one row everywhere.
``greedy`` is ``dense`` at temperature 0.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import NamedTuple

from theory.fields import EXACT, FLOAT, Field
from theory.models import MarkovModel, Model, TableModel, prefixes

VOCAB, HORIZON, LONGEST = 3, 4, 3
DEPTH = HORIZON + LONGEST


class Pair(NamedTuple):
    """A target and a draft."""

    target: Model
    draft: Model


def pair(name: str, field: Field = EXACT) -> Pair:
    """An embedded pair by name: dense, sparse, flat or greedy.

    Raises:
        ValueError: another name.
    """
    if name == "flat":
        return Pair(
            MarkovModel(["1/2", "3/10", "1/5"], field=field),
            MarkovModel(["1/5", "1/2", "3/10"], field=field),
        )
    if name not in ("dense", "sparse", "greedy"):
        raise ValueError(f"no embedded pair {name!r}; choose dense, sparse, flat or greedy")
    zeros = name == "sparse"
    greedy = name == "greedy"
    return Pair(_table(9, zeros, greedy, field), _table(10, False, greedy, field))


def _table(seed: int, zeros: bool, greedy: bool, field: Field) -> TableModel:
    rng = random.Random(seed)

    def row() -> list[Fraction]:
        weights = [rng.randint(1, 6) for _ in range(VOCAB)]
        if zeros and rng.random() < 0.3:
            weights[rng.randrange(VOCAB)] = 0
        if greedy:
            best = weights.index(max(weights))
            weights = [int(token == best) for token in range(VOCAB)]
        return [Fraction(weight, sum(weights)) for weight in weights]

    rows = {prefix: row() for n in range(DEPTH) for prefix in prefixes(VOCAB, n)}
    if field is FLOAT:
        return TableModel({p: [float(x) for x in r] for p, r in rows.items()}, field=FLOAT)
    return TableModel(rows, field=field)
