"""Leviathan, Kalman, Matias 2023 and Chen et al. 2023: token verification."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.pairs import random_table
from theory.analysis import analyse
from theory.models import TableModel

PAPER = "Leviathan et al. 2023 (2211.17192)"


def lossless() -> Finding:
    """Exact output law of token verification on seeded context-dependent models."""
    distances = [
        analyse(random_table(3, 4, seed), random_table(3, 4, seed + 100), "token", 2, 1, 4).distance
        for seed in range(5)
    ]
    verdict = Verdict.HOLDS if not any(distances) else Verdict.FAILS
    return Finding(
        verdict,
        {"largest distance": max(distances), "models": len(distances)},
        "Equality of rationals over the first four tokens, several rounds, zeros included.",
    )


def iid_formula() -> Finding:
    """The i.i.d. formula on a context-dependent model where it is wrong."""
    half = ["1/2", "1/2"]
    target = TableModel({"": half, "0": half, "1": ["1", "0"]}, half)
    draft = TableModel({"": ["3/4", "1/4"], "0": half, "1": ["0", "1"]}, half)
    a = analyse(target, draft, "token", gamma=2)
    survive = a.accepted_law[2]
    by_draft = Fraction(3, 4) * (Fraction(3, 4) * 1 + Fraction(1, 4) * 0)
    by_target = Fraction(3, 4) * (Fraction(1, 2) * 1 + Fraction(1, 2) * 0)
    exact_here = survive == Fraction(1, 2)
    iid_model = analyse("1/3,2/3", "2/3,1/3", "token", gamma=2)
    agrees_when_iid = iid_model.tokens_per_call == iid_model.iid_prediction.tokens_per_call
    holds = exact_here and agrees_when_iid and survive not in (by_draft, by_target)
    return Finding(
        Verdict.CONDITIONAL if holds else Verdict.FAILS,
        {
            "P(tau >= 2)": survive,
            "product of draft means": by_draft,
            "product of target means": by_target,
            "tokens per call": a.tokens_per_call,
            "i.i.d. formula": a.iid_prediction.tokens_per_call,
        },
        "True when positions are independent and alike; with context no mean overlap is right.",
    )


CLAIMS = (
    Claim(
        "token-lossless",
        PAPER,
        "section 2, appendix A",
        "Token verification leaves the target's output law unchanged.",
        Verdict.HOLDS,
        lossless,
        "specproof exact --target 1/3,2/3 --draft 2/3,1/3 --verifier token --horizon 5",
    ),
    Claim(
        "token-iid-formula",
        PAPER,
        "equation 1",
        "A round emits (1 - alpha^(gamma+1))/(1 - alpha) tokens in expectation.",
        Verdict.CONDITIONAL,
        iid_formula,
    ),
)
