"""SVIP (Zhang et al. 2024): stop after a token from a row of high entropy."""

from __future__ import annotations

import math

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import adaptive_distance, seeded, speed_claim, verdict
from theory.fields import to_fraction
from theory.laws import as_row, entropy, kl, overlap
from theory.windows import load_rule

PAPER = "SVIP: Zhang et al. 2024 (2411.18462)"
SCALE = 0.15
"""Factor of the entropy in the public code."""


def lossless() -> Finding:
    """Exact output law when the entropy of the last row ends drafting."""
    rule = load_rule("svip", threshold="31/100")
    distances = [adaptive_distance(rule, verifier) for verifier in ("token", "block")]
    greedy = adaptive_distance(rule, "greedy_block", tell=True)
    return Finding(
        verdict(not any(distances) and greedy == 0),
        {"largest distance": max(*distances, greedy), "verifiers": 3, "models": 4},
        "The decision uses draft rows and drafted tokens only: a stopping time.",
    )


def pinsker() -> Finding:
    """1 - sqrt(KL(q || p)/2) below the overlap, and the entropy form beside it."""
    broken = entropy_broken = 0
    for p, q in seeded(40, 3, 1, zeros=False):
        row, draft = p.row(()), q.row(())
        shared = float(to_fraction(overlap(row, draft)))
        broken += shared < 1 - math.sqrt(kl(draft, row) / 2) - 1e-12
        entropy_broken += shared < 1 - math.sqrt(SCALE * entropy(draft))
    return Finding(
        Verdict.CONDITIONAL if broken == 0 < entropy_broken else verdict(entropy_broken == 0),
        {"entropy form broken": entropy_broken, "Pinsker form broken": broken, "models": 40},
        "Pinsker's bound needs the cross entropy with p; replacing it by a multiple of the draft's "
        "entropy keeps a heuristic, not a bound.",
    )


def one_hot_never_stops() -> Finding:
    """SVIP on one-hot rows, the rows of temperature 0."""
    rule = load_rule("svip", threshold="1/1000")
    stopped = any(rule((0,) * n, lambda path: as_row("1,0")) for n in range(1, 20))
    soft = rule((0,), lambda path: as_row("9/10,1/10"))
    return Finding(
        Verdict.CONDITIONAL if soft and not stopped else verdict(stopped),
        {"stops on one-hot rows": stopped, "on unscaled rows": soft},
        "At temperature 0 the rule must read the unscaled softmax: a one-hot row has entropy 0.",
    )


CLAIMS = (
    Claim("svip-lossless", PAPER, "method",
          "Stopping after a row of high entropy leaves the output law unchanged.",
          Verdict.HOLDS, lossless),
    Claim("svip-bound", PAPER, "derivation of the rule",
          "Acceptance is at least 1 - sqrt(c Ent(q)).",
          Verdict.CONDITIONAL, pinsker),
    Claim("svip-greedy", PAPER, "greedy decoding",
          "Stopping by entropy also serves greedy decoding.",
          Verdict.CONDITIONAL, one_hot_never_stops),
    speed_claim("svip-speed", PAPER, "SpecBench",
                "Qwen2.5 14B/0.5B 1.29x against 1.07x with a constant window.",
                "The paper's pairs and GPU, greedy, with constant = best fixed window."),
)  # fmt: skip
