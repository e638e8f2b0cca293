"""SpecTr (Sun et al. 2023): K-SEQ."""

from __future__ import annotations

import math
from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.pairs import random_table
from theory.analysis import analyse
from theory.transport import alpha_star

PAPER = "SpecTr: Sun et al. 2023 (2310.15141)"


def lossless() -> Finding:
    """Exact output law of K-SEQ with two drafts on seeded context-dependent models."""
    distances = [
        analyse(random_table(2, 4, seed), random_table(2, 4, seed + 100), "kseq", 2, 2, 4).distance
        for seed in range(5)
    ]
    return Finding(
        Verdict.HOLDS if not any(distances) else Verdict.FAILS,
        {"largest distance": max(distances), "models": len(distances)},
        "Equality of rationals over the first four tokens; rho rounded up.",
    )


def fraction_of_the_optimum() -> Finding:
    """Acceptance of K-SEQ against (1 - (1 - 1/K)^K) times the optimum, one position."""
    worst = Fraction(1)
    shortfalls = 0
    for seed in range(20):
        for k in (2, 3):
            p, q = random_table(3, 1, seed), random_table(3, 1, seed + 500)
            kept = analyse(p, q, "kseq", 1, k).closed_form
            best = Fraction(alpha_star(p.row(()), q.row(()), k))
            if best == 0 or kept is None:
                continue
            worst = min(worst, kept / best)
            shortfalls += kept < (1 - (1 - Fraction(1, k)) ** k) * best
    return Finding(
        Verdict.HOLDS if not shortfalls else Verdict.FAILS,
        {"smallest ratio": float(worst), "1 - 1/e": 1 - math.exp(-1), "violations": shortfalls},
        "On seeded models the ratio stays far above the guarantee.",
    )


CLAIMS = (
    Claim(
        "kseq-lossless",
        PAPER,
        "theorem 2",
        "K-SEQ leaves the target's output law unchanged for every valid rho.",
        Verdict.HOLDS,
        lossless,
        "specproof exact --target 3/4,1/4 --draft 1/4,3/4 --verifier kseq --drafts 2 --horizon 3",
    ),
    Claim(
        "kseq-fraction",
        PAPER,
        "theorem 2",
        "K-SEQ accepts at least 1 - (1 - 1/K)^K of what the optimal rule accepts.",
        Verdict.HOLDS,
        fraction_of_the_optimum,
    ),
)
