"""Recursive rejection: SpecInfer (Miao et al. 2023) and draws without replacement (Jeon et al.)."""

from __future__ import annotations

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import law_finding
from papers_check.claims.tools import CROSSED, largest_distance, model, verdict
from theory.analysis import analyse
from theory.drafting import fixed, tree
from theory.fields import minimum, to_fraction
from theory.generation import Decoder
from theory.laws import residual
from theory.transport import alpha_star
from theory.verifiers import load_program

PAPER = "SpecInfer: Miao et al. 2023 (2305.09781)"
DISTINCT = "RSD: Jeon et al. 2024 (2402.14160)"
COMMAND = "specproof exact --target {} --draft {} --verifier recursive_rejection --drafts 2".format(
    *CROSSED
)


def lossless() -> Finding:
    """Exact output law of recursive rejection with copies."""
    distance = largest_distance("recursive_rejection", 2, 2, 2, 3)
    return Finding(
        verdict(distance == 0),
        {"largest distance": distance, "models": 4},
        "Two drafts with replacement, three tokens, equality of rationals.",
    )


def lossless_distinct() -> Finding:
    """Exact output law of recursive rejection on distinct first tokens."""
    distances = [
        largest_distance("recursive_rejection", 3, 1, k, 2, replacement=False) for k in (2, 3)
    ]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "models": 4, "largest K": 3},
        "Distinct first tokens, the draft law renormalised after each; two tokens.",
    )


def stale_law() -> Finding:
    """Distinct siblings tested against the draft law they were not drawn from."""
    return law_finding(
        "distinct-stale-law",
        "a second sibling drawn without replacement, tested against the unchanged draft law",
        Decoder(
            model("0,1/3,2/3"),
            model("2/3,0,1/3"),
            load_program("recursive_rejection"),
            fixed(1),
            2,
            {"replacement": True},
            drafting=tree((2,), replacement=False),
        ),
        1,
        1,
        "The second sibling has the draft law without the first token, so a test against the "
        "whole draft law keeps it too often. Fault seen in NJUNLP/MCSD#5.",
    )


def product_form() -> Finding:
    """Acceptance against 1 - prod (1 - a_j), and against the optimum of transport."""
    gaps, below = [], 0
    for row, draft in (CROSSED, ("1/2,1/3,1/6", "1/6,1/6,2/3"), ("1/5,3/10,1/2", "1/2,1/4,1/4")):
        p, q = model(row).row(()), model(draft).row(())
        left, missed = p, p.sum()
        for k in (1, 2, 3):
            missed = missed * (1 - minimum(left, q).sum())
            left = residual(left, q)
            kept = analyse(row, draft, "recursive_rejection", 1, k).expected_accepted
            gaps.append(kept - to_fraction(1 - missed))
            below += kept < alpha_star(p, q, k)
    return Finding(
        verdict(not any(gaps)),
        {"largest gap": max(map(abs, gaps)), "cases": len(gaps), "below the optimum": below},
        "Exact for one position; usually below the optimum as soon as K > 1.",
    )


CLAIMS = (
    Claim("recursive-lossless", PAPER, "section 4",
          "Testing several drafts in turn against what is left over is lossless.",
          Verdict.HOLDS, lossless, COMMAND + " --horizon 3"),
    Claim("recursive-acceptance", PAPER, "section 4",
          "The acceptance is 1 - prod_j (1 - a_j), a_j the overlap with what is left.",
          Verdict.HOLDS, product_form, COMMAND + " --gamma 1"),
    Claim("distinct-lossless", DISTINCT, "main theorem",
          "Drafts without replacement keep the law if the draft law is renormalised.",
          Verdict.HOLDS, lossless_distinct),
    Claim("distinct-stale-law", "MCSD (NJUNLP/MCSD)", "public code",
          "The draft law need not be renormalised after a refused sibling.",
          Verdict.FAILS, stale_law),
)  # fmt: skip
