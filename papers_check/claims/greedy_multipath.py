"""Greedy multi-path block verification (Thomas and Pal 2026): follow the largest ratio."""

from __future__ import annotations

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import overlap_formula, value_certificate, value_finding
from papers_check.claims.tools import (
    CROSSED,
    SUN,
    largest_distance,
    model,
    row_trees,
    seeded,
    speed_claim,
    trees,
    verdict,
)
from theory.accepted_length import block, max_ratio_block
from theory.analysis import analyse
from theory.fields import minimum, to_fraction
from theory.transport import alpha_star
from theory.transport.certificates import block_optimum
from theory.verifiers.max_ratio_block import selected_law

PAPER = "Thomas and Pal 2026 (2602.16961)"
COMMAND = "specproof exact --target {} --draft {} --verifier max_ratio_block --drafts 2"


def lossless() -> Finding:
    """Exact output law of max-ratio block verification."""
    distances = [largest_distance("max_ratio_block", v, g, 2, 3) for v, g in ((2, 2), (3, 1))]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "models": 8},
        "Two drafts, three tokens; our derivation of the rule, equality of rationals.",
    )


def attains() -> Finding:
    """One-position acceptance against alpha*."""
    attained = below = 0
    for p, q in seeded(40, 3, 1, zeros=False):
        law = selected_law(p.row(()), q.row(()), 2)
        kept = to_fraction(minimum(p.row(()), law).sum())
        attained += kept == alpha_star(p.row(()), q.row(()), 2)
        below += kept < alpha_star(p.row(()), q.row(()), 2)
    here = analyse(*CROSSED, "max_ratio_block", 1, 2).expected_accepted
    return Finding(
        Verdict.CONDITIONAL if attained and below else verdict(below == 0),
        {"3/4, 1/4 against 1/4, 3/4": here, "models that attain it": attained, "below": below},
        "Attained iff {selected law > p} is a lower set of p/q.",
    )


def more_paths() -> Finding:
    """A second path against one path when draft and target agree."""
    p = model("1/2,1/2").row(())
    law = selected_law(p, p, 2)
    proof = value_certificate(
        "second-path-helps",
        "with p = q the strict order selects a token of law (3/4, 1/4)",
        overlap_formula(p, law),
        "<",
        overlap_formula(p, p),
    )
    two = analyse("1/2,1/2", "1/2,1/2", "max_ratio_block", 1, 2).expected_accepted
    return value_finding(
        proof,
        ("accepted with two paths", "with one"),
        "A strict order moves the winner away from q even where q is already right.",
        enumerated=two,
    )


def single_path() -> Finding:
    """Off-path rows cannot help one draft: block verification against the proved optimum."""
    wrong = 0
    for p, q in seeded(5, 3, 2):
        pair = trees(p, q, 2)
        best = block_optimum(*pair, 1, stateless=True)
        wrong += not best.lower == best.upper == to_fraction(block(*pair, 2))
    return Finding(
        verdict(wrong == 0),
        {"disagreements": wrong, "models": 5},
        "The linear program allows any use of rows off the drafted path.",
    )


def example() -> Finding:
    """Two paths against the optimum of rules without state: Sun's example, and seeded models."""
    pairs = [row_trees(SUN, 2), *(trees(p, q, 2) for p, q in seeded(4, 2, 2))]
    reached = [to_fraction(max_ratio_block(*pair, 2, 2)) for pair in pairs]
    best = [block_optimum(*pair, 2, stateless=True) for pair in pairs]
    short = sum(kept < bound.lower for kept, bound in zip(reached, best, strict=True))
    here = best[0].lower == best[0].upper == reached[0]
    return Finding(
        Verdict.CONDITIONAL if here and short else verdict(short == 0),
        {"E[tau], Sun's example": reached[0], "optimum there": best[0].upper,
         "seeded models below the optimum": short, "of": len(pairs) - 1},
        "Optimal among rules without state on Sun's example, not in general.",
    )  # fmt: skip


CLAIMS = (
    Claim("max-ratio-lossless", PAPER, "main theorem",
          "Following the drafted token of largest p/q and block-verifying that path is lossless.",
          Verdict.HOLDS, lossless, COMMAND.format(*SUN) + " --horizon 3"),
    Claim("max-ratio-optimal", f"a reading of {PAPER}", "one position",
          "The greedy selection attains the optimum of transport.",
          Verdict.CONDITIONAL, attains, COMMAND.format(*CROSSED) + " --gamma 1"),
    Claim("max-ratio-block-optimal", f"a reading of {PAPER}", "several positions",
          "The greedy selection attains the block optimum of rules without state.",
          Verdict.CONDITIONAL, example, COMMAND.format(*SUN)),
    Claim("second-path-helps", f"a reading of {PAPER}", "number of paths",
          "A further path never lowers the expected acceptance.",
          Verdict.FAILS, more_paths, COMMAND.format("1/2,1/2", "1/2,1/2") + " --gamma 1"),
    Claim("off-path-rows", PAPER, "optimality of block verification",
          "For one draft, rows off its path do not help.",
          Verdict.HOLDS, single_path),
    speed_claim("max-ratio-speed", PAPER, "abstract",
                "Block efficiency +30 %, wall clock -15 % against block verification.",
                "The paper's model pairs and hardware."),
)  # fmt: skip
