"""Sun et al. 2024: block verification, and its greedy form."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import (
    SUN,
    largest_distance,
    row_trees,
    seeded,
    speed_claim,
    trees,
    verdict,
)
from theory.accepted_length import block, greedy_block, token
from theory.accepted_length.rounds import tokens_after
from theory.analysis import analyse
from theory.fields import to_fraction
from theory.transport.certificates import block_optimum

PAPER = "Block verification: Sun et al. 2024 (2403.10444)"
COMMAND = "specproof exact --target {} --draft {} --verifier block".format(*SUN)


def lossless() -> Finding:
    """Exact output law of block and greedy block verification on seeded models."""
    distances = [largest_distance(rule, 3, 2, 1, 4) for rule in ("block", "greedy_block")]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "models": 4},
        "Equality of rationals over four tokens; the greedy form with its modified targets.",
    )


def example() -> Finding:
    """The paper's two-token example."""
    lengths = {
        rule: analyse(*SUN, rule, gamma=2).expected_accepted
        for rule in ("token", "block", "greedy_block")
    }
    published = dict(zip(lengths, (Fraction(10, 9), Fraction(11, 9), Fraction(12, 9)), strict=True))
    return Finding(
        verdict(lengths == published),
        lengths,
        "Accepted tokens of one round with gamma = 2.",
    )


def never_worse() -> Finding:
    """Block against token verification on seeded models."""
    gains = []
    for p, q in seeded(20, 3, 3):
        pair = trees(p, q, 3)
        gains.append(to_fraction(block(*pair, 3) - token(*pair, 3)))
    return Finding(
        verdict(min(gains) >= 0),
        {"smallest gain": min(gains), "largest gain": float(max(gains)), "models": len(gains)},
        "Expected accepted tokens, gamma = 3.",
    )


def optimal() -> Finding:
    """Block and greedy block verification against proved optima of all single-draft rules."""
    wrong = unproved = 0
    for p, q in seeded(5, 2, 3):
        pair = trees(p, q, 3)
        stateless, free = (block_optimum(*pair, 1, stateless=kind) for kind in (True, False))
        unproved += not (stateless.proved and free.proved)
        wrong += stateless.upper != to_fraction(block(*pair, 3))
        wrong += free.upper != to_fraction(greedy_block(*pair, 3))
    return Finding(
        verdict(wrong == unproved == 0),
        {"disagreements": wrong, "unproved optima": unproved, "programs": 10,
         "optimum on Sun's example": block_optimum(*row_trees(SUN, 2), 1, stateless=True).upper},
        "Block: best of the rules that leave later targets alone. Greedy: best of all, one round.",
    )  # fmt: skip


def greedy_over_rounds() -> Finding:
    """Tokens after one and after three rounds, on the paper's own example."""
    totals = {
        rule: [to_fraction(t) for t in tokens_after(analyse(*SUN, rule, 2).decoder, 2, 3)]
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
    Claim("block-lossless", PAPER, "theorem 1; appendix",
          "Block verification, and its greedy form with modified targets, are lossless.",
          Verdict.HOLDS, lossless, COMMAND.replace("block", "greedy_block") + " --horizon 5"),
    Claim("block-example", PAPER, "section 3",
          "On p = (1/3, 2/3), q = (2/3, 1/3), gamma = 2 the lengths are 10/9, 11/9 and 12/9.",
          Verdict.HOLDS, example, COMMAND),
    Claim("block-never-worse", PAPER, "theorem 2",
          "Block verification accepts at least as many tokens as token verification.",
          Verdict.HOLDS, never_worse),
    Claim("block-optimal", PAPER, "theorem 2",
          "No rule that leaves later targets alone accepts more of one draft.",
          Verdict.HOLDS, optimal,
          COMMAND.replace("exact", "bounds").replace("--verifier block", "--drafts 1")),
    Claim("greedy-block-optimal", PAPER, "appendix",
          "Greedy block verification is the best rule.",
          Verdict.CONDITIONAL, greedy_over_rounds),
    speed_claim("block-speed", PAPER, "section 5",
                "Wall clock 5 % to 8 % below token verification.",
                "PaLM-2 models, which are not public."),
)  # fmt: skip
