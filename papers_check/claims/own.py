"""The claims of this project itself, checked like those of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import (
    CROSSED,
    SUN,
    THREE,
    adaptive_distance,
    largest_distance,
    model,
    row_trees,
    seeded,
    trees,
    verdict,
)
from papers_check.pairs import random_table
from theory.accepted_length import marked_block, marked_greedy_block
from theory.analysis import analyse
from theory.fields import EXACT, to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.marks import table
from theory.models import Prefix, Rows
from theory.pareto.texts import Texts, best_weights, evaluate, occupancy
from theory.transport import alpha_star
from theory.transport.certificates import block_optimum
from theory.verifiers import load_program
from theory.windows import Stopping, iid, peeking
from theory.windows.ratio import BOUND

PAPER = "specproof (here)"
EXAMPLES = (SUN, CROSSED, THREE, ("1/2,1/2", "1/2,1/2"))
COMMAND = "specproof exact --target {} --draft {} --verifier marked_block --drafts 2".format(*SUN)


def marked_lossless() -> Finding:
    """Exact output law of both marked rules over several rounds."""
    distances = [
        largest_distance(rule, 2, 2, 2, 3, models=3, cells=3)
        for rule in ("marked_block", "marked_greedy_block")
    ]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "models": 3, "cells": 3},
        "Two drafts of two tokens, three tokens of text, equality of rationals.",
    )


def marked_one_position() -> Finding:
    """Acceptance of marked verification at one position against alpha*."""
    short, missed = Fraction(0), 0
    for rows in EXAMPLES:
        pair = row_trees(rows, 1)
        missed += to_fraction(marked_block(*pair, 1, 2, cells=12)) != alpha_star(*rows, 2)
    for p, q in seeded(20, 4, 1):
        kept = to_fraction(marked_block(*trees(p, q, 1), 1, 2, cells=12))
        short = max(short, alpha_star(p.row(()), q.row(()), 2) - kept)
    limit = Fraction(2, 8 * 12**2)
    return Finding(
        verdict(missed == 0 and 0 <= short <= limit),
        {"largest shortfall on seeded models": short, "bound K(K-1)/(8 B^2)": limit,
         "examples missed": missed, "examples": len(EXAMPLES),
         "alpha* attained on Sun's example": alpha_star(*SUN, 2)},
        "alpha* exactly on the examples, else within what B = 12 cells may cost.",
    )  # fmt: skip


def complete() -> Finding:
    """Proved block optima against rules that select one draft and verify it alone."""
    open_gaps = 0
    for p, q in seeded(5, 2, 2):
        for stateless in (True, False):
            best = block_optimum(*trees(p, q, 2), 2, stateless)
            open_gaps += best.lower != best.upper
    return Finding(
        verdict(open_gaps == 0),
        {"optima not attained": open_gaps, "programs": 10,
         "optimum on Sun's example": block_optimum(*row_trees(SUN, 2), 2).lower},
        "The lower bound is the value of one selected draft, verified by block or greedy block "
        "verification; the upper bound holds for every rule.",
    )  # fmt: skip


def near_optimum() -> Finding:
    """Marked rules on random models against the optima and against K-SEQ and others."""
    found = table.compare(2, 2, 2, models=10, cells=16, coupling="mix")
    good = found.stateless_share[0] > 0.99 and found.greedy_share[0] > 0.99
    return Finding(
        Verdict.REPRODUCED if good and found.stateless_margin > 0 else Verdict.FAILS,
        {"mean share of the stateless optimum": found.stateless_share[0],
         "mean share of the optimum": found.greedy_share[0],
         "smallest margin over K-SEQ and others": found.stateless_margin, "models": 10},
        "Two tokens, gamma 2, K 2, 16 cells, in floats (optima by linear programming).",
    )  # fmt: skip


def oracle_bound() -> Finding:
    """Oracle over best fixed window on a grid of acceptance and cost, and near the limit."""
    limit = Fraction(15819, 10**4)
    if float(limit) > BOUND:
        raise ArithmeticError("the rational limit must lie below e/(e - 1)")
    grid = [Fraction(n, 20) for n in range(1, 20)]
    ratios = [iid.oracle(a, c) / iid.best_fixed(a, c)[1] for a, c in product(grid, grid)]
    alpha = Fraction(999, 1000)
    cost = Fraction(1, 718)
    near = float(
        iid.oracle(float(alpha), float(cost)) / iid.best_fixed(float(alpha), float(cost))[1]
    )
    return Finding(
        verdict(max(ratios) < limit),
        {"largest ratio on the grid": float(max(ratios)), "e/(e - 1)": math.e / (math.e - 1),
         "ratio at alpha = 0.999": near, "pairs": len(ratios)},
        "Independent acceptance; the bound is approached as alpha tends to 1.",
    )  # fmt: skip


def stopping_times() -> Finding:
    """Arbitrary stopping sets of drafted tokens, for token, block and told greedy block rules."""

    def stop(path: Prefix, draft: Rows) -> bool:
        return (sum((i + 2) * x for i, x in enumerate(path)) + len(path)) % 3 == 2

    distances = [adaptive_distance(stop, rule) for rule in ("token", "block")]
    told = adaptive_distance(stop, "greedy_block", tell=True)
    untold = adaptive_distance(stop, "greedy_block")
    return Finding(
        Verdict.CONDITIONAL if not any(distances) and told == 0 < untold else Verdict.FAILS,
        {"token and block": max(distances), "greedy block, told the rule": told,
         "greedy block, not told": untold, "models": 4},
        "Greedy block verification must ask the rule about tokens that were not drafted.",
    )  # fmt: skip


def free_repair() -> Finding:
    """Testing the one token that a peeking window would drop."""

    def worth(path: Prefix, draft: Rows) -> bool:
        return bool(draft(path[:-1])[path[-1]] >= EXACT.number("2/5"))

    target, draft = model("1/2,1/2"), model("3/4,1/4")
    distances = {}
    for block in (1, 2):
        program = peeking.free_repair(load_program("token"), worth, block)
        window = Stopping(peeking.until_unworthy(worth, block))
        law = generate(Decoder(target, draft, program, window), 3).tokens
        distances[block] = to_fraction(distance(law, autoregressive(target, 3)))
    return Finding(
        Verdict.CONDITIONAL if distances[1] == 0 < distances[2] else verdict(distances[1] == 0),
        {"distance, one token dropped": distances[1], "block of two dropped": distances[2]},
        "Exact for one dropped token, at no cost; not for a dropped block of two.",
    )


def hard_weights() -> Finding:
    """Best ensemble weights of texts of three tokens: all hard maps, and soft ones by program."""
    wrong, soft = 0, 0
    for seed in range(3):
        p, q = random_table(2, 3, seed), random_table(2, 3, seed + 50)
        texts = Texts.of(p, q, 3, lambda text: Fraction(sum(text) % 3, 2))
        _, best = best_weights(texts, "1/3")
        hard = [_value(texts, bits) for bits in product((0, 1), repeat=7)]
        wrong += max(hard) != to_fraction(best)
        wrong += _value(texts, [Fraction(1, 3)] * 7) > max(hard)
        soft = max(soft, occupancy(texts, 2.2).soft)
    return Finding(
        verdict(wrong == 0 and soft <= 1),
        {"disagreements": wrong, "weight maps": 3 * 2**7, "most soft prefixes at a budget": soft},
        "Reward plus 1/3 per accepted token: backward induction equals the best of all hard maps.",
    )


def _value(texts: Texts, bits: Sequence[int | Fraction]) -> Fraction:
    weights = tuple(EXACT.array(bits[2**n - 1 : 2 ** (n + 1) - 1]) for n in range(3))
    point = evaluate(texts, weights)
    return to_fraction(point.quality) + to_fraction(point.acceptance) / 3


def greedy_throughput() -> Finding:
    """Expected tokens after one and two rounds on Sun's example with two drafts."""
    pair = row_trees(SUN, 2)
    stateless, greedy = (
        to_fraction(form(*pair, 2, 2, cells=9)) for form in (marked_block, marked_greedy_block)
    )
    lossless = analyse(*SUN, "marked_greedy_block", 1, 2, 2, cells=3).distance
    return Finding(
        verdict(greedy >= stateless and lossless == 0),
        {"greedy, one round": 1 + greedy, "stateless, one round": 1 + stateless,
         "distance of the greedy rule": lossless},
        "Greedy keeps more in one round; the modified targets cost part of it later.",
    )  # fmt: skip


CLAIMS = (
    Claim("marked-lossless", PAPER, "theory.marks",
          "Selecting a draft by labels and verifying it as a single draft is lossless.",
          Verdict.HOLDS, marked_lossless, COMMAND),
    Claim("marked-alpha-star", PAPER, "theory.marks",
          "At one position marked verification attains the optimum, up to the width of its cells.",
          Verdict.HOLDS, marked_one_position,
          "specproof bounds --target {} --draft {} --gamma 1 --drafts 2".format(*SUN)),
    Claim("marked-complete", PAPER, "theory.marks",
          "No multi-draft block rule accepts more than some rule that selects one draft.",
          Verdict.HOLDS, complete,
          "specproof bounds --target {} --draft {} --gamma 2 --drafts 2".format(*SUN)),
    Claim("marked-near-optimum", PAPER, "theory.marks.table",
          "Marked verification is within 1 % of the block optima on average.",
          Verdict.REPRODUCED, near_optimum),
    Claim("marked-greedy", PAPER, "theory.marks",
          "The greedy form accepts at least as much in one round as the stateless one.",
          Verdict.HOLDS, greedy_throughput),
    Claim("oracle-bound", PAPER, "theory.windows.ratio",
          "A clairvoyant window gains less than e/(e - 1) over the best fixed one.",
          Verdict.HOLDS, oracle_bound),
    Claim("stopping-times", PAPER, "theory.windows",
          "Every stopping time of the drafted tokens is safe for every single-draft rule.",
          Verdict.CONDITIONAL, stopping_times),
    Claim("free-repair", PAPER, "theory.windows.peeking",
          "Testing what a peeking window drops repairs it.",
          Verdict.CONDITIONAL, free_repair),
    Claim("hard-weights", PAPER, "theory.pareto.texts",
          "DIVERSED's objective has an optimum with weights 0 and 1 only.",
          Verdict.HOLDS, hard_weights),
)  # fmt: skip
