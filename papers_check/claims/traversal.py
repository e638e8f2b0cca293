"""Traversal verification of trees, leaf to root (Weng et al. 2025)."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import SUN, largest_distance, seeded, speed_claim, trees, verdict
from theory.accepted_length import recursive_rejection, traversal
from theory.analysis import analyse
from theory.fields import to_fraction

PAPER = "Weng et al. 2025 (2505.12398)"
COMMAND = "specproof exact --target {} --draft {} --verifier traversal".format(*SUN)


def lossless() -> Finding:
    """Exact output law on binary trees, with and without replacement."""
    distances = [
        largest_distance("traversal", 2, 2, 2, 3, models=2, replacement=replacement)
        for replacement in (True, False)
    ]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "models": 4},
        "Trees of six nodes, three tokens, equality of rationals.",
    )


def chain_is_block() -> Finding:
    """On one path: the law of the whole round against block verification's."""
    different = 0
    for p, q in seeded(6, 2, 4):
        laws = [
            analyse(p, q, rule, 3).decoder.round_law((), (), 3) for rule in ("traversal", "block")
        ]
        different += laws[0] != laws[1]
    return Finding(
        verdict(different == 0),
        {"different laws": different, "models": 6,
         "E[tau] on Sun's example": analyse(*SUN, "traversal", 2).expected_accepted},
        "Same law of accepted prefix and next token, gamma = 3.",
    )  # fmt: skip


def beats_top_down() -> Finding:
    """Traversal against recursive rejection, on one path and on two i.i.d. paths of two tokens."""
    gains: dict[int, list[Fraction]] = {1: [], 2: []}
    for p, q in seeded(10, 2, 3):
        pair = trees(p, q, 2)
        for paths, found in gains.items():
            ours = traversal(*pair, 2, paths, branching=(paths, 1))
            found.append(to_fraction(ours - recursive_rejection(*pair, 2, paths)))
    holds = min(gains[1]) >= 0 > min(gains[2])
    return Finding(
        Verdict.CONDITIONAL if holds else verdict(min(gains[1] + gains[2]) >= 0),
        {"smallest gain, two paths": min(gains[2]), "largest": float(max(gains[2])),
         "smallest gain, one path": min(gains[1]), "models": 10},
        "On a chain always; on two paths it loses where top-down tests let equal prefixes share "
        "their later tokens.",
    )  # fmt: skip


CLAIMS = (
    Claim("traversal-lossless", PAPER, "main theorem",
          "Settling a drafted tree from its leaves to the root is lossless.",
          Verdict.HOLDS, lossless, COMMAND + " --drafts 2"),
    Claim("traversal-chain", PAPER, "optimality on one chain",
          "On a chain it is block verification, hence optimal.",
          Verdict.HOLDS, chain_is_block, COMMAND),
    Claim("traversal-top-down", f"a reading of {PAPER}", "comparison with token-level rules",
          "It accepts at least as much as testing the same drafts from the top.",
          Verdict.CONDITIONAL, beats_top_down),
    speed_claim("traversal-speed", PAPER, "abstract", "2.2 % to 5.7 % longer acceptance.",
                "The paper's model pairs."),
)  # fmt: skip
