"""Speed of theory: each method against a peer in the same rotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from papers_check.bench.timing import paired
from papers_check.pairs import random_table
from theory.accepted_length import expected_accepted
from theory.analysis import analyse
from theory.models import RowTree
from theory.transport import alpha_star, alpha_star_histogram
from theory.verifiers.kseq import smallest_rho

LARGE = 128_000
"""Vocabulary of the one-position measurements."""

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """One line of the benchmark.

    Attributes:
        what, peer: the contender and what it is measured against.
        seconds: its median time.
        ratio, quartiles: its time over the peer's (1 and (1, 1) without a peer).
        note: a rate or an agreement worth stating.
    """

    what: str
    peer: str
    seconds: float
    ratio: float = 1.0
    quartiles: tuple[float, float] = (1.0, 1.0)
    note: str = ""


def synthetic_rows(vocab: int, seed: int = 0, noise: float = 1.5) -> tuple[Rows, Rows]:
    """A heavy-tailed target row, and a draft row from noisy logits."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal(vocab)
    draft = logits + noise * rng.standard_normal(vocab)
    p, q = (np.exp(x - x.max()) for x in (logits, draft))
    return p / p.sum(), q / q.sum()


def one_position() -> list[Measured]:
    """alpha* at a large vocabulary, against one argsort of the same size."""
    p, q = synthetic_rows(LARGE)
    ratio = p / q
    contenders: dict[str, Callable[[], object]] = {
        "numpy.argsort": lambda: np.argsort(ratio),
        "alpha* sorted": lambda: alpha_star(p, q, 4),
        "alpha* histogram, 64 cells": lambda: alpha_star_histogram(p, q, 4, 64),
        "K-SEQ rho": lambda: smallest_rho(p, q, 4),
    }
    gap = float(alpha_star(p, q, 4)) - float(alpha_star_histogram(p, q, 4, 64))
    notes = {"alpha* histogram, 64 cells": f"{gap:.1e} below the sorted value"}
    return _against(contenders, "numpy.argsort", f"V = {LARGE:,}, K = 4", notes)


def small_transport() -> list[Measured]:
    """alpha* at V = 32, K = 2, against solvers of the transport problem itself."""
    import ot

    p, q = synthetic_rows(32)
    pairs = np.outer(q, q).ravel()
    first, second = np.divmod(np.arange(32 * 32), 32)
    token = np.arange(32)
    missed = ((first[:, None] != token) & (second[:, None] != token)).astype(np.float64)
    drafted: Any = sparse.kron(sparse.identity(32 * 32), np.ones((1, 32)), format="csr")
    emitted: Any = sparse.kron(np.ones((1, 32 * 32)), sparse.identity(32), format="csr")

    def emd() -> float:
        return 1 - float(ot.emd2(pairs, p, missed))

    solve: Any = optimize.linprog

    def highs() -> float:
        room = p + 1e-12  # both sides sum to 1; equalities would clash in the last digit
        plan = solve(missed.ravel(), A_ub=emitted, b_ub=room, A_eq=drafted, b_eq=pairs)
        return 1 - float(plan.fun)

    contenders: dict[str, Callable[[], object]] = {
        "alpha* sorted": lambda: alpha_star(p, q, 2),
        "POT ot.emd2": emd,
        "HiGHS (scipy linprog)": highs,
    }
    values = [float(alpha_star(p, q, 2)), emd(), highs()]
    notes = {"alpha* sorted": f"values agree to {max(values) - min(values):.1e}"}
    return _against(contenders, "alpha* sorted", "V = 32, K = 2", notes, rounds=7)


def closed_forms() -> list[Measured]:
    """Closed forms of E[tau] over a row tree of a million prefixes."""
    rng = np.random.default_rng(0)
    p, q = (
        RowTree(tuple(rng.dirichlet(np.ones(10), 10**level) for level in range(6))) for _ in "pq"
    )
    prefixes = sum(10**level for level in range(1, 7))
    lines = []
    for rule in ("token", "block", "greedy_block"):
        timing = paired({rule: partial(expected_accepted, rule, p, q, 6)}, rule)[rule]
        note = f"{prefixes / timing.median / 1e6:.0f} million prefixes/s"
        lines.append(
            Measured(f"E[tau], {rule}, {prefixes:,} prefixes", "", timing.median, note=note)
        )
    return lines


def enumeration() -> list[Measured]:
    """Exact programs in rationals: all paths of one round."""
    lines = []
    for rule, vocab, gamma, drafts in (("block", 4, 3, 1), ("kseq", 3, 3, 2)):
        models = random_table(vocab, gamma + 1, 1), random_table(vocab, gamma + 1, 2)

        def run(
            rule: str = rule,
            models: tuple[object, object] = models,
            gamma: int = gamma,
            drafts: int = drafts,
        ) -> object:
            return analyse(*models, rule, gamma, drafts).accepted_law

        timing = paired({rule: run}, rule, rounds=3, warm_up=1)[rule]
        what = f"all paths, {rule}, V = {vocab}, gamma = {gamma}, K = {drafts}"
        lines.append(Measured(what, "", timing.median))
    return lines


def run() -> list[Measured]:
    """Every measurement."""
    return [*one_position(), *small_transport(), *closed_forms(), *enumeration()]


def _against(
    contenders: dict[str, Callable[[], object]],
    baseline: str,
    setting: str,
    notes: dict[str, str],
    rounds: int = 15,
) -> list[Measured]:
    timings = paired(contenders, baseline, rounds)
    return [
        Measured(
            f"{name}, {setting}",
            baseline,
            timing.median,
            timing.ratio,
            timing.quartiles,
            notes.get(name, ""),
        )
        for name, timing in timings.items()
    ]
