"""Simulated texts of a mutant on models whose rows are known."""

from __future__ import annotations

from functools import cache

from numpy.random import Generator

from sim.mutants.mutant import Mutant, Redrawn
from sim.mutants.pairs import HORIZON, pair
from sim.rounds import Generations, simulate_generations
from sim.rows import RowTable, tabulate
from theory.fields import FLOAT


@cache
def tables(mutant: Mutant, name: str = "") -> tuple[RowTable, RowTable, RowTable]:
    """The rows that a mutant verifies against, its draft rows, and those it draws drafts from."""
    target, draft = pair(name or mutant.pair, FLOAT)
    depth = HORIZON - 1 + mutant.gamma
    drawn = draft if mutant.drawn is None else Redrawn(draft, mutant.drawn)
    read = mutant.target_read(target, draft)
    return tabulate(read, depth), tabulate(draft, depth), tabulate(drawn, depth)


def simulate(
    mutant: Mutant, n: int, rng: Generator, name: str = "", workers: int = 1
) -> Generations:
    """``n`` texts of ``HORIZON`` tokens on an embedded pair (by default the mutant's own)."""
    p, q, drawn = tables(mutant, name)
    return simulate_generations(
        p,
        q,
        mutant.verifier,
        mutant.gamma,
        mutant.num_drafts,
        HORIZON,
        n,
        rng,
        drawn=drawn,
        workers=workers,
    )
