"""A public audit of adaptive draft lengths, and the clairvoyant oracle of DISCO."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import cast

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import law_finding, value_certificate, value_finding
from papers_check.claims.tools import model, speed_claim, trees, verdict
from theory.accepted_length import token
from theory.drafting import fixed
from theory.fields import to_fraction
from theory.generation import Decoder
from theory.models import MarkovModel
from theory.random_models import random_markov
from theory.verifiers.common import Program
from theory.windows import Costs, iid, ladder, peeking
from theory.windows.ceilings import fixed_speed, oracle_speed
from theory.windows.chain import chain

AUDIT = "pramodjella/speculative-decoding-draft-length-audit"
DISCO = "DISCO: Mamou et al. 2024 (2405.04304)"
COSTS = Costs("3/20")
"""The audit's c = 0.15."""
CHAINS = range(10)
"""Seeds of two-token Markov chains."""


def irreducible() -> Finding:
    """Share of the span from best fixed to oracle that no non-anticipating window reaches."""
    shares = []
    for seed in CHAINS:
        rng = Random(seed)
        pair = random_markov(rng, 2, 1), random_markov(rng, 2, 1)
        shares.append(1 - float(ladder(*pair, COSTS, cap=8, max_gamma=32).reachable))
    mean = sum(shares) / len(shares)
    return Finding(
        Verdict.REPRODUCED if mean > 0.5 else Verdict.FAILS,
        {"mean irreducible share": mean, "smallest": min(shares), "largest": max(shares),
         "chains": len(shares)},
        "Ten two-token Markov chains, all rows of both models known, token verification, c = 0.15; "
        "the share differs widely from chain to chain.",
    )  # fmt: skip


def coin() -> Finding:
    """With independent coins of known bias nothing of the span is reachable."""
    alpha, cost = Fraction(4, 5), Fraction(3, 20)
    gamma, best = iid.best_fixed(alpha, cost)
    mixtures = [
        (iid.tokens(alpha, a) + iid.tokens(alpha, b)) / (2 + cost * (a + b))
        for a in range(12)
        for b in range(12)
    ]
    return Finding(
        verdict(max(mixtures) == best),
        {"best fixed": best, "best random mixture of two windows": max(mixtures), "gamma": gamma,
         "oracle": iid.oracle(alpha, cost)},
        "A window that learns nothing from its drafts is a mixture of fixed windows, and a ratio "
        "of sums never exceeds the best of its parts.",
    )  # fmt: skip


def oracle_decoder() -> Finding:
    """The oracle as a decoder: draft up to the first rejection, then a bonus from p."""
    target, draft = model("1/2,1/2"), model("3/4,1/4")
    return law_finding(
        "oracle-decoder",
        "after the run the next token is drawn from p instead of the residual",
        Decoder(target, draft, cast(Program, peeking.clairvoyant), fixed(1)),
        1,
        1,
        "The law is min(p, q) + (1 - alpha) p. As an accounting of speed the oracle is fine, and "
        "at temperature 0 it is exact.",
        one_hot_target=_one_hot_distance(),
    )


def _one_hot_distance() -> Fraction:
    decoder = Decoder(model("1,0"), model("3/4,1/4"), cast(Program, peeking.clairvoyant), fixed(1))
    law = decoder.round_law((), (), 1)
    return sum((to_fraction(m) for out, m in law.items() if out.tokens[0] != 0), Fraction(0))


def cost_model() -> Finding:
    """(accepted + 1)/(1 + c gamma) with the exact mean against exact speeds on a chain."""
    half = ["1/2", "1/2"]
    pair = MarkovModel(half), MarkovModel(["3/4", "1/4"])
    stage = chain(*pair, None)
    wrong = 0
    for gamma in range(1, 7):
        accepted = to_fraction(token(*trees(*pair, gamma), gamma))
        speed = to_fraction(fixed_speed(stage, COSTS, gamma))
        wrong += speed != (accepted + 1) / (1 + Fraction(3, 20) * gamma)
    return Finding(
        verdict(wrong == 0),
        {"disagreements": wrong, "windows": 6},
        "Exact with the measured mean length and a flat target call; no independence is needed.",
    )


def any_dependence() -> Finding:
    """S_or = 1/(1 - abar (1 - c)) on dependent chains."""
    gaps = []
    for seed in CHAINS:
        rng = Random(seed)
        stage = chain(random_markov(rng, 2, 1), random_markov(rng, 2, 1), None)
        mean = to_fraction(stage.overlap)
        exact = to_fraction(oracle_speed(stage, Costs("1/10")))
        gaps.append(exact - 1 / (1 - mean * Fraction(9, 10)))
    return Finding(
        verdict(not any(gaps)),
        {"largest gap": max(map(abs, gaps)), "chains": len(gaps)},
        "The oracle's speed depends on the mean overlap alone, whatever the dependence.",
    )


def accepted_over_drafted() -> Finding:
    """Accepted over drafted tokens taken for the acceptance of one token, gamma = 4."""
    powers = [["*", *["4/5"] * k] for k in range(1, 5)]
    proof = value_certificate(
        "accepted-over-drafted",
        "tokens behind a rejection count as drafted although they were never tested",
        ["/", ["+", *powers], "4"],
        "!=",
        "4/5",
    )
    return value_finding(
        proof,
        ("accepted/drafted", "acceptance of one token"),
        "Independent acceptance 4/5, gamma = 4. Plugged in like that in ggml-org/llama.cpp#3649.",
    )


CLAIMS = (
    Claim("audit-irreducible", AUDIT, "decomposition",
          "About 80 % of the gap from the best fixed window to the oracle is out of reach.",
          Verdict.REPRODUCED, irreducible),
    Claim("audit-coin", AUDIT, "decomposition, limit",
          "If acceptance is unpredictable, all of the gap to the oracle is out of reach.",
          Verdict.HOLDS, coin,
          "specproof window --target 1,0 --draft 4/5,1/5 --draft-cost 3/20"),
    Claim("audit-cost-model", AUDIT, "cost model",
          "Speed is (mean accepted + 1)/(1 + c gamma).",
          Verdict.HOLDS, cost_model),
    Claim("oracle-overlap", AUDIT, "oracle",
          "The oracle's speed needs no independence: it follows from the mean overlap.",
          Verdict.HOLDS, any_dependence),
    Claim("oracle-decoder", f"a reading of {DISCO}", "oracle",
          "Drafting exactly up to the first rejection keeps the output law.",
          Verdict.FAILS, oracle_decoder),
    Claim("accepted-over-drafted", "engines' statistics", "use of the i.i.d. formula",
          "Accepted over drafted tokens is the alpha of the i.i.d. formula.",
          Verdict.FAILS, accepted_over_drafted),
    speed_claim("audit-ceilings", AUDIT, "canonical numbers",
                "Oracle +12 % to +23 % per model; learned stops lose 2 % to 17 % end to end.",
                "Its captures, which are not published, or new ones on the same models."),
)  # fmt: skip
