"""Leviathan, Kalman, Matias 2023 and Chen et al. 2023: token verification."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import SUN, largest_distance, model, seeded, speed_claim, verdict
from theory.analysis import analyse
from theory.fields import EXACT, Array, Number, positive_part, to_fraction
from theory.laws import overlap, total_variation
from theory.models import MarkovModel, TableModel
from theory.transport import alpha_star
from theory.verifiers import lenience
from theory.windows import Costs, iid
from theory.windows.ceilings import fixed_speed
from theory.windows.chain import chain

PAPER = "Leviathan et al. 2023 (2211.17192)"
CHEN = "Chen et al. 2023 (2302.01318)"
COMMAND = "specproof exact --target {} --draft {} --verifier token".format(*SUN)


def lossless() -> Finding:
    """Exact output law of token verification on seeded context-dependent models."""
    distance = largest_distance("token", 3, 2, 1, 4)
    return Finding(
        verdict(distance == 0),
        {"largest distance": distance, "models": 4},
        "Equality of rationals over the first four tokens, several rounds, zeros included.",
    )


def acceptance() -> Finding:
    """P(tau >= 1) against the overlap, and against the largest acceptance of any rule."""
    accepted, shared, best = [], [], []
    for p, q in seeded(12, 3, 2):
        accepted.append(analyse(p, q, "token", 1).expected_accepted)
        shared.append(to_fraction(1 - total_variation(p.row(()), q.row(()))))
        best.append(alpha_star(p.row(()), q.row(()), 1))
    return Finding(
        verdict(accepted == shared == best),
        {"acceptance on Sun's example": analyse(*SUN, "token", 1).expected_accepted,
         "smallest on seeded models": min(accepted), "largest": max(accepted),
         "models": len(accepted)},
        "Acceptance is 1 - TV(p, q), which is also the optimum of transport for one draft.",
    )  # fmt: skip


def iid_formula() -> Finding:
    """The i.i.d. formula on a context-dependent model where it is wrong."""
    half = ["1/2", "1/2"]
    target = TableModel({"": half, "0": half, "1": ["1", "0"]}, half)
    draft = TableModel({"": ["3/4", "1/4"], "0": half, "1": ["0", "1"]}, half)
    a = analyse(target, draft, "token", gamma=2)
    survive = a.accepted_law[2]
    by_draft = _product_of_means(target, draft, draft.row(()))
    by_target = _product_of_means(target, draft, target.row(()))
    same = analyse(*SUN, "token", gamma=2)
    agrees = same.tokens_per_call == same.iid_prediction.tokens_per_call
    wrong = survive not in (by_draft, by_target)
    return Finding(
        Verdict.CONDITIONAL if agrees and wrong else Verdict.FAILS,
        {
            "tokens per call": a.tokens_per_call,
            "i.i.d. formula": a.iid_prediction.tokens_per_call,
            "P(tau >= 2)": survive,
            "product of draft means": by_draft,
            "product of target means": by_target,
        },
        "True when positions are independent and alike; with context no mean overlap is right.",
    )


def _product_of_means(target: TableModel, draft: TableModel, first: Array) -> Number:
    """Overlap at the first position times the mean overlap at the second, averaged over a law."""
    second = sum(mass * overlap(target.row((x,)), draft.row((x,))) for x, mass in enumerate(first))
    return to_fraction(overlap(target.row(()), draft.row(())) * second)


def speed_formula() -> Finding:
    """Theorem 3.8 against exact long-run speeds: with one row everywhere, and on a chain."""
    costs, gammas = Costs("1/10"), (1, 2, 3, 5)
    same = chain(model("3/5,2/5"), model("2/5,3/5"), None)
    alike = all(
        to_fraction(fixed_speed(same, costs, g)) == iid.fixed("4/5", g, "1/10") for g in gammas
    )
    half = ["1/2", "1/2"]
    target = MarkovModel(half, [half, ["1", "0"]])
    draft = MarkovModel(["3/4", "1/4"], [half, ["0", "1"]])
    other = chain(target, draft, None)
    exact = to_fraction(fixed_speed(other, costs, 3))
    formula = iid.fixed(to_fraction(other.overlap), 3, "1/10")
    return Finding(
        Verdict.CONDITIONAL if alike and exact != formula else Verdict.FAILS,
        {"chain, gamma = 3": exact, "formula at its mean overlap": formula,
         "one row everywhere, gamma = 6": to_fraction(fixed_speed(same, costs, 6))},
        "Equal with one row at every position; on a chain the rounds start where they ended.",
    )  # fmt: skip


def break_even() -> Finding:
    """Corollary 3.9 on a grid of acceptance and cost."""
    grid = [Fraction(n, 12) for n in range(1, 12)]
    short = 0
    for alpha in grid:
        for cost in (c for c in grid if c < alpha):
            gain = (1 + alpha) / (1 + cost)
            short += iid.best_fixed(alpha, cost)[1] < gain or iid.fixed(alpha, 1, cost) != gain
    return Finding(
        verdict(short == 0),
        {"violations": short, "pairs (alpha, c)": 55},
        "One drafted token already gains (1 + alpha)/(1 + c), more than 1 iff alpha > c.",
    )


def temperature_zero() -> Finding:
    """Texts under a one-hot target, for every single-draft rule and any draft."""
    target = TableModel({"": ["0", "1"], "1": ["1", "0"], "1 0": ["1", "0"]}, ["1", "0"])
    texts = {
        text
        for seed in range(3)
        for rule in ("token", "block", "greedy_block")
        for text in analyse(target, model(f"{seed + 1}/5,{4 - seed}/5"), rule, 2, 1, 4).output_law
    }
    return Finding(
        verdict(texts == {(1, 0, 0, 0)}),
        {"texts": len(texts)},
        "One text of probability one, the target's greedy text, whatever the draft.",
    )


def lenience_cap() -> Finding:
    """nu <= p/l under the three residuals found in public code."""
    leniences = [EXACT.number(text) for text in ("1/4", "1/2", "3/4")]
    broken = dict.fromkeys(("stock", "scaled", "target"), 0)
    worst = Fraction(0)
    for p, q in seeded(30, 3, 1):
        row = p.row(())
        for least in leniences:
            for residual in broken:
                law = lenience.declared(row, q.row(()), least, residual)
                excess = positive_part(law - row / least)
                broken[residual] += excess.sum() > 0
                worst = max(worst, to_fraction(excess.max()))
    holds = broken["stock"] == broken["scaled"] == 0 < broken["target"]
    return Finding(
        Verdict.CONDITIONAL if holds else verdict(not any(broken.values())),
        {"violations, residual p": broken["target"], "stock": broken["stock"],
         "scaled": broken["scaled"], "cases": 90, "largest excess": worst},
        "Kept if a rejection draws from norm((p - q)_+) or norm((p - l q)_+), lost if from p.",
    )  # fmt: skip


CLAIMS = (
    Claim("token-lossless", PAPER, "section 2, appendix A",
          "Token verification leaves the target's output law unchanged.",
          Verdict.HOLDS, lossless, COMMAND + " --horizon 5"),
    Claim("token-acceptance", PAPER, "theorem 3.5, corollary 3.6",
          "A drafted token is kept with probability 1 - TV(p, q), and no rule keeps more.",
          Verdict.HOLDS, acceptance, COMMAND + " --gamma 1"),
    Claim("token-iid-formula", PAPER, "equation 1",
          "A round emits (1 - alpha^(gamma+1))/(1 - alpha) tokens in expectation.",
          Verdict.CONDITIONAL, iid_formula),
    Claim("token-speed-formula", PAPER, "theorem 3.8",
          "The speed-up is (1 - alpha^(gamma+1))/((1 - alpha)(1 + c gamma)).",
          Verdict.CONDITIONAL, speed_formula,
          "specproof window --target 3/5,2/5 --draft 2/5,3/5 --draft-cost 1/10"),
    Claim("token-break-even", PAPER, "corollary 3.9",
          "If alpha > c some window gains at least (1 + alpha)/(1 + c).",
          Verdict.HOLDS, break_even),
    Claim("greedy-texts-equal", PAPER, "section 2.3",
          "At temperature 0 speculative texts are identical to the target's.",
          Verdict.HOLDS, temperature_zero),
    Claim("lenience-cap", PAPER, "appendix A.5",
          "Lenience l never samples a token with more than p/l.",
          Verdict.CONDITIONAL, lenience_cap),
    speed_claim("token-speed", PAPER, "section 4", "Speed-up of 2x to 3x on T5-XXL.",
                "T5-XXL and its draft on the accelerators of the paper."),
    speed_claim("chen-speed", CHEN, "section 5", "Speed-up of 2x to 2.5x on Chinchilla 70B.",
                "Chinchilla and its 4B draft, which are not public."),
)  # fmt: skip
