"""AdaEDL (Agrawal et al. 2024): stop before a row whose entropy promises little acceptance."""

from __future__ import annotations

import math

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import overlap_formula, value_certificate, value_finding
from papers_check.claims.tools import adaptive_distance, verdict
from theory.laws import as_row, entropy
from theory.windows import load_rule
from theory.windows.adaedl import Controller, update

PAPER = "AdaEDL: Agrawal et al. 2024 (2410.18351)"
SCALE = 0.2
"""Factor of the entropy in public code."""


def lossless() -> Finding:
    """Exact output law when the entropy of the next row ends drafting."""
    rule = load_rule("adaedl", threshold="13/20")
    distances = [adaptive_distance(rule, verifier) for verifier in ("token", "block")]
    greedy = adaptive_distance(rule, "greedy_block", tell=True)
    return Finding(
        verdict(not any(distances) and greedy == 0),
        {"largest distance": max(*distances, greedy), "verifiers": 3, "models": 4},
        "The decision uses draft rows and drafted tokens only: a stopping time.",
    )


def entropy_bound() -> Finding:
    """A draft that is certain and wrong."""
    p, q = as_row("0,1"), as_row("1,0")
    bound = 1 - math.sqrt(SCALE * float(entropy(q)))
    if bound != 1:
        raise ArithmeticError("a one-hot row has entropy 0")
    proof = value_certificate(
        "adaedl-bound",
        "entropy 0 promises acceptance 1, but target and draft share no token",
        overlap_formula(p, q),
        "<",
        "1",
    )
    return value_finding(
        proof, ("acceptance", "entropy bound 1 - sqrt(0.2 Ent(q))"),
        "A confident draft is not a correct one; the bound holds where KL(q || p) <= 0.4 Ent(q).",
    )  # fmt: skip


def controller() -> Finding:
    """AdaEDL's threshold over 400 rounds that keep nothing, then over 400 that keep all."""
    state = Controller(threshold=0.5)
    ends = []
    for accepted in (0, 4):
        for _ in range(400):
            state = update(state, accepted, 4, 8)
        ends.append(state.threshold)
    return Finding(
        Verdict.REPRODUCED if ends[0] > max(0.5, ends[1]) else Verdict.FAILS,
        {"threshold after 400 poor rounds": ends[0], "after 400 good ones": ends[1]},
        "Poor acceptance raises the threshold, good acceptance lowers it again.",
    )


CLAIMS = (
    Claim("adaedl-lossless", PAPER, "method",
          "Stopping before a row of high entropy leaves the output law unchanged.",
          Verdict.HOLDS, lossless),
    Claim("adaedl-bound", PAPER, "title and derivation",
          "The entropy gives a lower bound on the acceptance of the next token.",
          Verdict.FAILS, entropy_bound,
          "specproof exact --target 0,1 --draft 1,0 --gamma 1"),
    Claim("adaedl-controller", PAPER, "threshold update",
          "The threshold adapts to the acceptance rate.",
          Verdict.REPRODUCED, controller),
)  # fmt: skip
