"""How close marked verification comes to the optimum, on random models.

One row of the table is a setting (vocabulary, gamma, K) and a number of random full-support models
whose rows have weights 1..9; every entry is E[tau] of one round, by a closed form or, for the two
optima, by linear programming. Measured by :func:`measure` and judged by :func:`compare`:

* marked block against the optimum of rules without state, marked greedy block against the
  optimum of all rules: a few tenths of a percent below, on average;
* marked block above K-SEQ, recursive rejection and sequential block verification, and marked
  greedy block above every other lossless rule, on every single model (at gamma = 1, where several
  rules attain the optimum, up to the width of the cells).

Marked block may lose to max-ratio block verification or to stateful rules on single models: the
split serves the current level first, and it keeps no state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.accepted_length import CLOSED_FORMS
from theory.fields import Array
from theory.marks.labels import cells as labels
from theory.models import RowTree
from theory.transport.block import block_value
from theory.transport.tree_bounds import cic_value, level_wise

SETTINGS = ((2, 1, 2), (3, 1, 3), (2, 2, 2), (2, 3, 2), (2, 2, 3), (3, 2, 2))
"""Vocabulary, gamma and K of the rows."""

STATELESS = ("recursive_rejection", "kseq", "sequential_block", "max_ratio_block")
STATEFUL = ("sequential_greedy_block",)
MARKED = ("marked_block", "marked_greedy_block")


def random_pair(rng: np.random.Generator, vocab: int, depth: int) -> tuple[RowTree, RowTree]:
    """Target and draft rows with independent weights 1..9 at every prefix, in floats."""

    def tree() -> RowTree:
        weights = [rng.integers(1, 10, (vocab**level, vocab)) for level in range(depth)]
        return RowTree(tuple(w / w.sum(axis=-1, keepdims=True) for w in weights))

    return tree(), tree()


def measure(
    vocab: int,
    gamma: int,
    num_drafts: int,
    models: int,
    seed: int = 0,
    cells: int = 64,
    coupling: str = "entmix",
) -> dict[str, Array]:
    """E[tau] of every rule and bound on ``models`` random models: arrays of shape [models]."""
    rng = np.random.default_rng([seed, vocab, gamma, num_drafts])
    rows: list[dict[str, float]] = []
    for _ in range(models):
        p, q = random_pair(rng, vocab, gamma)
        row = {name: CLOSED_FORMS[name](p, q, gamma, num_drafts) for name in STATELESS + STATEFUL}
        for name in MARKED:
            row[name] = CLOSED_FORMS[name](p, q, gamma, num_drafts, cells, coupling)
        row["cic"] = cic_value(p, q, num_drafts)
        row["stateless_optimum"] = block_value(p, q, num_drafts, stateless=True)
        row["block_optimum"] = block_value(p, q, num_drafts)
        row["level_wise"] = level_wise(p, q, num_drafts)
        rows.append(row)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@dataclass(frozen=True)
class Comparison:
    """One row of the table.

    Attributes:
        means: mean E[tau] by rule and bound.
        stateless_share: marked block over the stateless optimum, mean and smallest.
        greedy_share: marked greedy block over the optimum, mean and smallest.
        stateless_margin: marked block minus the best of K-SEQ, recursive rejection and sequential
            block verification on the same model, smallest.
        greedy_margin: marked greedy block minus the best other lossless rule, smallest.
        gap: what the cells may cost at one position.
    """

    means: dict[str, float]
    stateless_share: tuple[float, float]
    greedy_share: tuple[float, float]
    stateless_margin: float
    greedy_margin: float
    gap: float


def compare(
    vocab: int,
    gamma: int,
    num_drafts: int,
    models: int,
    seed: int = 0,
    cells: int = 64,
    coupling: str = "entmix",
) -> Comparison:
    """Measure one setting and put the marked rules beside the others."""
    values = measure(vocab, gamma, num_drafts, models, seed, cells, coupling)
    marked, greedy = (values[name] for name in MARKED)
    simple = np.max([values[name] for name in STATELESS if name != "max_ratio_block"], axis=0)
    every = np.max([values[name] for name in STATELESS + STATEFUL], axis=0)
    shares = marked / values["stateless_optimum"], greedy / values["block_optimum"]
    return Comparison(
        means={name: float(column.mean()) for name, column in values.items()},
        stateless_share=(float(shares[0].mean()), float(shares[0].min())),
        greedy_share=(float(shares[1].mean()), float(shares[1].min())),
        stateless_margin=float((marked - simple).min()),
        greedy_margin=float((greedy - every).min()),
        gap=labels(num_drafts, cells).gap(),
    )
