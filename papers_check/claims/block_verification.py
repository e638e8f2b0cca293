"""Sun et al. 2024: block verification, and its greedy form."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.pairs import random_table
from theory.accepted_length import block, token
from theory.accepted_length.rounds import tokens_after
from theory.analysis import analyse
from theory.fields import to_fraction
from theory.models import RowTree

PAPER = "Block verification: Sun et al. 2024 (2403.10444)"
TARGET, DRAFT = "1/3,2/3", "2/3,1/3"


def lossless() -> Finding:
    """Exact output law of block and greedy block verification on seeded models."""
    distances = [
        analyse(random_table(3, 4, seed), random_table(3, 4, seed + 100), rule, 2, 1, 4).distance
        for seed in range(5)
        for rule in ("block", "greedy_block")
    ]
    return Finding(
        Verdict.HOLDS if not any(distances) else Verdict.FAILS,
        {"largest distance": max(distances), "laws": len(distances)},
        "Equality of rationals over four tokens; the greedy form with its modified targets.",
    )


def example() -> Finding:
    """The paper's two-token example."""
    lengths = {
        rule: analyse(TARGET, DRAFT, rule, gamma=2).expected_accepted
        for rule in ("token", "block", "greedy_block")
    }
    published = dict(zip(lengths, (Fraction(10, 9), Fraction(11, 9), Fraction(12, 9)), strict=True))
    return Finding(
        Verdict.HOLDS if lengths == published else Verdict.FAILS,
        lengths,
        "Accepted tokens of one round with gamma = 2.",
    )


def never_worse() -> Finding:
    """Block against token verification on seeded models."""
    gains = []
    for seed in range(20):
        p, q = (RowTree.of(random_table(3, 3, s), 3) for s in (seed, seed + 100))
        gains.append(to_fraction(block(p, q, 3) - token(p, q, 3)))
    return Finding(
        Verdict.HOLDS if min(gains) >= 0 else Verdict.FAILS,
        {"smallest gain": min(gains), "largest gain": float(max(gains)), "models": len(gains)},
        "Expected accepted tokens, gamma = 3.",
    )


def greedy_over_rounds() -> Finding:
    """Tokens after one and after three rounds, on the paper's own example."""
    totals = {
        rule: [to_fraction(t) for t in tokens_after(analyse(TARGET, DRAFT, rule, 2).decoder, 2, 3)]
        for rule in ("block", "greedy_block")
    }
    block_tokens, greedy_tokens = totals["block"], totals["greedy_block"]
    wins_one = greedy_tokens[0] > block_tokens[0]
    loses_three = greedy_tokens[2] < block_tokens[2]
    return Finding(
        Verdict.CONDITIONAL if wins_one and loses_three else Verdict.HOLDS,
        {
            "1 round, block": block_tokens[0],
            "1 round, greedy": greedy_tokens[0],
            "3 rounds, block": block_tokens[2],
            "3 rounds, greedy": greedy_tokens[2],
        },
        "Optimal for one round only: the modified target is harder to draft for afterwards.",
    )


CLAIMS = (
    Claim(
        "block-lossless",
        PAPER,
        "theorem 1; appendix",
        "Block verification, and its greedy form with modified targets, are lossless.",
        Verdict.HOLDS,
        lossless,
        f"specproof exact --target {TARGET} --draft {DRAFT} --verifier greedy_block --horizon 5",
    ),
    Claim(
        "block-example",
        PAPER,
        "section 3",
        "On p = (1/3, 2/3), q = (2/3, 1/3), gamma = 2 the lengths are 10/9, 11/9 and 12/9.",
        Verdict.HOLDS,
        example,
        f"specproof exact --target {TARGET} --draft {DRAFT} --verifier block",
    ),
    Claim(
        "block-never-worse",
        PAPER,
        "theorem 2",
        "Block verification accepts at least as many tokens as token verification.",
        Verdict.HOLDS,
        never_worse,
    ),
    Claim(
        "greedy-block-optimal",
        PAPER,
        "appendix",
        "Greedy block verification is the best rule.",
        Verdict.CONDITIONAL,
        greedy_over_rounds,
    ),
)
