"""SpecTr (Sun et al. 2023): K-SEQ."""

from __future__ import annotations

import math
from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import CROSSED, largest_distance, seeded, speed_claim, trees, verdict
from papers_check.pairs import random_table
from theory.accepted_length import kseq, token
from theory.analysis import analyse
from theory.fields import minimum, to_fraction
from theory.transport import alpha_star
from theory.verifiers.kseq import accepted_once, gain, smallest_rho

PAPER = "SpecTr: Sun et al. 2023 (2310.15141)"
COMMAND = "specproof exact --target {} --draft {} --verifier kseq --drafts 2".format(*CROSSED)


def lossless() -> Finding:
    """Exact output law of K-SEQ with two drafts on seeded context-dependent models."""
    distance = largest_distance("kseq", 2, 2, 2, 4, models=5)
    return Finding(
        verdict(distance == 0),
        {"largest distance": distance, "models": 5},
        "Equality of rationals over the first four tokens; rho rounded up.",
    )


def smallest_scale() -> Finding:
    """The sign of the residual at the smallest valid rho, and half-way between 1 and it."""
    negative_at = negative_below = cases = 0
    for p, q in seeded(20, 3, 1, zeros=False):
        row, draft = p.row(()), q.row(())
        best = smallest_rho(row, draft, 2)
        lower = (1 + best) / 2
        rest = [
            row - gain(accepted_once(row, draft, rho), 2) * minimum(draft, row / rho)
            for rho in (best, lower)
        ]
        cases += best > 1
        negative_at += min(rest[0]) < 0
        negative_below += min(rest[1]) < 0
    return Finding(
        verdict(negative_at == 0 and negative_below == cases > 0),
        {"negative residuals below rho*": negative_below, "at rho*": negative_at, "models": cases},
        "Below rho* some token would need negative probability; clipping it to 0 hides a bias.",
    )


def fraction_of_the_optimum() -> Finding:
    """Acceptance of K-SEQ against (1 - (1 - 1/K)^K) times the optimum, one position."""
    worst, shortfalls = Fraction(1), 0
    for seed in range(20):
        for k in (2, 3):
            p, q = trees(random_table(3, 1, seed), random_table(3, 1, seed + 500), 1)
            best = alpha_star(p.levels[0][0], q.levels[0][0], k)
            if best == 0:
                continue
            kept = to_fraction(kseq(p, q, 1, k))
            worst = min(worst, kept / best)
            shortfalls += kept < (1 - (1 - Fraction(1, k)) ** k) * best
    return Finding(
        verdict(shortfalls == 0),
        {"smallest ratio": float(worst), "1 - 1/e": 1 - math.exp(-1), "violations": shortfalls},
        "On seeded models the ratio stays far above the guarantee.",
    )


def one_draft() -> Finding:
    """K-SEQ with one draft against token verification."""
    gaps = []
    for p, q in seeded(10, 3, 3):
        pair = trees(p, q, 3)
        gaps.append(to_fraction(kseq(*pair, 3, 1) - token(*pair, 3)))
    law = analyse(*CROSSED, "kseq", 2).accepted_law == analyse(*CROSSED, "token", 2).accepted_law
    return Finding(
        verdict(law and not any(gaps)),
        {"largest gap": max(map(abs, gaps)), "models": len(gaps)},
        "rho* = 1 for one draft: the two rules are the same.",
    )


CLAIMS = (
    Claim("kseq-lossless", PAPER, "theorem 2",
          "K-SEQ leaves the target's output law unchanged for every valid rho.",
          Verdict.HOLDS, lossless, COMMAND + " --horizon 3"),
    Claim("kseq-smallest-rho", PAPER, "section 4",
          "A smallest valid rho exists; below it the rule has no correction law.",
          Verdict.HOLDS, smallest_scale),
    Claim("kseq-fraction", PAPER, "theorem 2",
          "K-SEQ accepts at least 1 - (1 - 1/K)^K of what the optimal rule accepts.",
          Verdict.HOLDS, fraction_of_the_optimum),
    Claim("kseq-one-draft", PAPER, "section 4",
          "With one draft K-SEQ is token verification.",
          Verdict.HOLDS, one_draft, COMMAND.replace("--drafts 2", "--drafts 1")),
    speed_claim("kseq-speed", PAPER, "abstract", "2.13x on PaLM-2, 1.37x over one draft.",
                "PaLM-2 models, which are not public."),
)  # fmt: skip
