"""PACER (2602.01274): drafting in blocks, with a pre-verifier that ends it."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import (
    Formula,
    law_finding,
    value_certificate,
    value_finding,
)
from papers_check.claims.tools import adaptive_distance, model, speed_claim, verdict
from theory.fields import EXACT, to_fraction
from theory.generation import Decoder
from theory.models import MarkovModel, Prefix, Rows
from theory.random_models import random_markov
from theory.verifiers import load_program
from theory.windows import Costs, iid, ladder, load_rule, peeking
from theory.windows.chain import chain
from theory.windows.rule_speed import rule_speed

PAPER = "PACER: Zhang et al. 2026 (2602.01274)"
COSTS = Costs("1/10")
CHAINS = (1, 2, 3, 4)
"""Seeds of the Markov chains that stand for texts with easy and hard places."""


def lossless() -> Finding:
    """Exact output law with PACER's window, the failing block being sent."""
    rules = [
        load_rule("pacer", block=block, threshold=threshold, growth=growth)
        for block, threshold, growth in ((1, "3/4", "6/5"), (2, "3/5", "5/4"))
    ]
    distances = [
        adaptive_distance(rule, verifier) for rule in rules for verifier in ("token", "block")
    ]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "rules, verifiers, models": "2, 2, 4"},
        "The window is a stopping time of the drafted tokens; estimates are the true ones.",
    )


def failing_block() -> Finding:
    """The failing block of two tokens is thrown away instead of sent."""

    def worth(path: Prefix, draft: Rows) -> bool:
        return bool(draft(path[:-1])[path[-1]] >= EXACT.number("2/5"))

    window = peeking.dropping(worth, block=2)
    decoder = Decoder(model("1/2,1/2"), model("3/4,1/4"), load_program("token"), window)
    return law_finding(
        "pacer-failing-block",
        "tokens that are looked at and then dropped bias those that are sent",
        decoder,
        2,
        2,
        "A block is dropped iff its last token has draft probability below 2/5.",
    )


def oracle() -> Finding:
    """Oracle against the best fixed window when acceptance is a coin that nothing predicts."""
    alpha, cost = Fraction(4, 5), Fraction(1, 10)

    def fixed(gamma: int) -> Formula:
        powers = [["*", "1", *["4/5"] * k] for k in range(gamma + 1)]
        return ["/", ["+", *powers], ["+", "1", ["*", str(gamma), "1/10"]]]

    clairvoyant = ["/", "1", ["-", "1", ["*", "4/5", ["-", "1", "1/10"]]]]
    proof = value_certificate(
        "pacer-oracle",
        "independent coins of bias 4/5: windows 0..12, and longer ones are slower still",
        "7/5",
        "<",
        ["/", clairvoyant, ["max", *(fixed(gamma) for gamma in range(13))]],
    )
    gamma, best = iid.best_fixed(alpha, cost)
    others = {c: float(iid.oracle(a, c) / iid.best_fixed(a, c)[1])
              for a, c in ((Fraction(87, 100), Fraction(n, 20)) for n in (4, 5, 6))}  # fmt: skip
    return value_finding(
        proof,
        ("oracle gain said to show predictability", "gain over a fair coin's best fixed window"),
        "A rule without information mixes fixed windows and gains nothing over the best of them.",
        best_gamma=gamma,
        best_fixed_speed=best,
        oracle_speed=iid.oracle(alpha, cost),
        formula_agrees=iid.oracle(alpha, cost) / best == Fraction(proof["right"]),
        gain_at_published_acceptance=f"{min(others.values()):.2f} to {max(others.values()):.2f}",
    )


def adaptive_gain() -> Finding:
    """Best non-anticipating window against the best fixed one on small chains."""
    gains, shares = [], []
    for seed in CHAINS:
        found = ladder(*_chain_pair(seed), COSTS, cap=8, max_gamma=32)
        gains.append(to_fraction(found.optimal / found.fixed))
        shares.append(float(found.reachable))
    return Finding(
        Verdict.REPRODUCED if min(gains) >= 1 and max(gains) > 1 else Verdict.FAILS,
        {"largest gain": float(max(gains)), "smallest": float(min(gains)),
         "mean share of the way to the oracle": sum(shares) / len(shares), "chains": len(gains)},
        "Two-token Markov chains, c = 1/10, all rows known: exact optimal stopping.",
    )  # fmt: skip


def growth() -> Finding:
    """PACER's rule with and without growth of its threshold, each at its best threshold."""
    thresholds = [Fraction(n, 20) for n in range(2, 20, 2)]
    gains = []
    for seed in CHAINS:
        stage = chain(*_chain_pair(seed), None)
        best = {}
        for factor in ("1", "5/4", "3/2"):
            rules = [load_rule("pacer", block=1, threshold=t, growth=factor) for t in thresholds]
            best[factor] = max(rule_speed(stage, COSTS.to(EXACT), rule, 6) for rule in rules)
        gains.append(to_fraction(max(best["5/4"], best["3/2"]) / best["1"]))
    return Finding(
        Verdict.CONDITIONAL if max(gains) > 1 > min(gains) else verdict(min(gains) >= 1),
        {"largest gain of growth": float(max(gains)), "smallest": float(min(gains)),
         "chains": len(gains)},
        "Exact speeds, best of nine thresholds and two factors, true estimates: growth helps on "
        "some chains and costs on others. It is the first-order form of falling survival.",
    )  # fmt: skip


def _chain_pair(seed: int) -> tuple[MarkovModel, MarkovModel]:
    rng = Random(seed)
    return random_markov(rng, 2, 1), random_markov(rng, 2, 1)


CLAIMS = (
    Claim("pacer-lossless", PAPER, "method",
          "Ending drafting by pre-verified blocks leaves the output law unchanged.",
          Verdict.HOLDS, lossless),
    Claim("pacer-failing-block", f"a variant of {PAPER}", "method",
          "The block that fails pre-verification may be discarded instead of sent.",
          Verdict.FAILS, failing_block),
    Claim("pacer-oracle", f"a reading of {PAPER}",
          "motivation: oracle up to 1.4x over the best fixed window",
          "An oracle gain of 1.4x shows that the best length varies predictably.",
          Verdict.FAILS, oracle,
          "specproof window --target 1,0 --draft 4/5,1/5 --draft-cost 1/10"),
    Claim("pacer-adaptive", PAPER, "main result", "Adaptive windows beat the best fixed window.",
          Verdict.REPRODUCED, adaptive_gain),
    Claim("pacer-growth", PAPER, "ablation",
          "A threshold that grows with depth is faster than a constant one.",
          Verdict.CONDITIONAL, growth),
    speed_claim("pacer-speed", PAPER, "abstract", "2.66x alone, 3.09x with Ouroboros on GSM8K.",
                "DeepSeek-Coder 1.3B/33B or Llama-2 pairs on the paper's GPU, and its block size, "
                "threshold and growth, which it does not state."),
    speed_claim("pacer-overhead", PAPER, "analysis", "Pre-verification takes 2.1 % of the time.",
                "The same models, GPU and trained layer."),
)  # fmt: skip
