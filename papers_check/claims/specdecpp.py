"""SpecDec++ (Huang et al. 2024): stop once some rejection has become likely."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import adaptive_distance, speed_claim, verdict
from theory.fields import EXACT, Number, to_fraction
from theory.models import Prefix, Rows
from theory.random_models import random_markov
from theory.windows import Costs, Rule, load_rule
from theory.windows.chain import chain
from theory.windows.estimators import survival, true_acceptance
from theory.windows.policy import optimum
from theory.windows.rule_speed import rule_speed

PAPER = "SpecDec++: Huang et al. 2024 (2405.19715)"
COSTS, CAP = Costs("1/10"), 6
CHAINS = (2, 4)


def lossless() -> Finding:
    """Exact output law with SpecDec++'s window."""
    rule = load_rule("specdecpp", threshold="1/2", floor=1)
    distances = [adaptive_distance(rule, verifier) for verifier in ("token", "block")]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "verifiers": 2, "models": 4},
        "True estimates of acceptance; the decision lags one token, which is kept.",
    )


def likely_rejection(limit: Number) -> Rule:
    """Stop once the chance that some drafted token is rejected exceeds ``limit``."""

    def stop(path: Prefix, draft: Rows) -> bool:
        return bool(path) and bool(1 - survival(true_acceptance(path, draft)) > limit)

    return stop


def threshold_policy() -> Finding:
    """The best threshold on the rejection probability against optimal stopping, exactly."""
    shares = []
    for seed in CHAINS:
        rng = Random(seed)
        stage = chain(random_markov(rng, 2, 1), random_markov(rng, 2, 1), None)
        best = to_fraction(optimum(stage, COSTS.to(EXACT), CAP).speed)
        rules = [likely_rejection(EXACT.number(Fraction(n, 20))) for n in range(20)]
        speeds = [to_fraction(rule_speed(stage, COSTS.to(EXACT), rule, CAP)) for rule in rules]
        shares.append(max(speeds) / best)
    return Finding(
        Verdict.CONDITIONAL if max(shares) == 1 > min(shares) else verdict(min(shares) == 1),
        {"smallest share of the optimum": float(min(shares)), "largest": max(shares),
         "chains": len(shares)},
        "Optimal where the next acceptance does not depend on what was drafted; otherwise a "
        "threshold on survival alone loses a little.",
    )  # fmt: skip


CLAIMS = (
    Claim("specdecpp-lossless", PAPER, "method",
          "Stopping by predicted acceptance leaves the output law unchanged.",
          Verdict.HOLDS, lossless),
    Claim("specdecpp-threshold", PAPER, "theorem on the decision process",
          "The optimal window is a threshold on the probability of a rejection.",
          Verdict.CONDITIONAL, threshold_policy),
    speed_claim("specdecpp-speed", PAPER, "abstract",
                "2.04x on Alpaca, 2.26x on GSM8K, 2.23x on HumanEval.",
                "Llama-2-chat 7B and 70B with its trained head."),
)  # fmt: skip
