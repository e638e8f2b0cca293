"""Hybrid Verified Decoding (2606.01019): a cache draft or a model draft, chosen each round."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import cast

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import law_finding, value_certificate, value_finding
from papers_check.claims.tools import model, seeded, speed_claim, verdict
from theory import payoff, payoff_traces
from theory.drafting import fixed, independent
from theory.effects import Effects, Scoped
from theory.fields import to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.models import Prefix, Rows
from theory.verifiers import point_mass, token
from theory.verifiers.common import Carry, Program, Round

PAPER = "HVD: Su et al. 2026 (2606.01019)"
CACHED: Prefix = (1, 0)
"""What the cache proposes."""


def switching(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """A cache draft where it looks long enough, else the model's draft: from what precedes them.

    The features are the draft's own belief in the cached tokens, which no target row enters.
    """
    gamma = len(drafts[0])
    if gamma and 2 * draft(())[CACHED[0]] > 1:
        return point_mass.program(fx, target, draft, (CACHED[:gamma],), carry)
    return token.program(fx, target, draft, drafts, carry)


def lossless() -> Finding:
    """Exact law of texts whose source is chosen by prefix and draft."""
    distances, used = [], set()
    for p, q in seeded(8, 2, 5):
        decoder = Decoder(p, q, cast(Program, switching), fixed(2))
        distances.append(to_fraction(distance(generate(decoder, 4).tokens, autoregressive(p, 4))))
        used.add(bool(2 * q.row(())[CACHED[0]] > 1))
    return Finding(
        verdict(not any(distances) and len(used) == 2),
        {"largest distance": max(distances), "models": len(distances)},
        "The choice reads committed tokens and draft rows only; both sources were used.",
    )


def keep_the_better(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """Verify two drafts with separate coins and keep the outcome that accepted more."""
    outcomes = [
        token.program(Scoped(fx, k), target, draft, (path,), carry) for k, path in enumerate(drafts)
    ]
    return max(outcomes, key=lambda outcome: outcome.accepted)


def better_of_two() -> Finding:
    """First token when the better of two verified drafts is kept."""
    decoder = Decoder(
        model("3/4,1/4"), model("1/4,3/4"), cast(Program, keep_the_better), fixed(1), 2,
        drafting=independent(fixed(1), 2),
    )  # fmt: skip
    return law_finding(
        "hvd-better-of-two",
        "choosing after verification favours tokens that are easy to accept",
        decoder,
        1,
        1,
        "The choice must be made before target rows are read.",
    )


def threshold_six() -> Finding:
    """The optimal threshold implied by the published averages."""
    m = Fraction(1000, 571) - 1
    cycle, cache_cycle = Fraction("39.6"), Fraction("48.4")
    model_cycle = cycle / (Fraction(571, 200) / Fraction("2.73"))
    rate = 5 / cycle
    theta = payoff.threshold(rate, m, cache_cycle, model_cycle)
    needed = 6 - (theta - m)
    return Finding(
        Verdict.CONDITIONAL if theta < 6 else Verdict.HOLDS,
        {"implied threshold": float(theta), "mean length of the model draft": float(m),
         "mean length that would justify 6": float(needed)},
        "theta* = mu_m + lambda* (C_C - C_m), from 571 and 200 cycles per 1000 tokens, 39.6 and "
        "48.4 ms a cycle, 2.73x (averages of unknown mixes, reported by readers).",
    )  # fmt: skip


def ratio_rule() -> Finding:
    """Comparing tokens per time of the two drafts of each round, against the optimum."""
    problem = payoff.choice(["1/2", "1/2"], [[1, 3], [0, 0]], [[1, "5/2"], [20, 20]])
    found = payoff.best(problem)
    by_ratio = [int(((problem.accepted + 1) / problem.costs)[s].argmax()) for s in range(2)]
    proof = value_certificate(
        "hvd-ratio-rule",
        "2 tokens for 1 beats 4 for 5/2 by itself, but not among rounds of cost 20",
        ["/", ["+", "2", "1"], ["+", "1", "20"]],
        "<",
        ["/", ["+", "4", "1"], ["+", "5/2", "20"]],
    )
    return value_finding(
        proof,
        ("rate of the ratio rule", "optimum"),
        "What a round is worth depends on the long-run rate, not on its own ratio.",
        enumerated=payoff.rate(problem, by_ratio) == Fraction(proof["left"]),
        dinkelbach=found.rate == Fraction(proof["right"]),
    )


def threshold_form() -> Finding:
    """A threshold on the cache's mean length against all policies; regret as mean loss."""
    wrong = cases = 0
    for seed in range(12):
        lengths = [[(3 * seed + 5 * s) % 9, (seed + s) % 4] for s in range(4)]
        problem = payoff.choice(["1/4"] * 4, lengths, [Fraction(6 + seed % 3, 2), 3])
        best = payoff.best(problem)
        at = best.rate
        mu, cost = ([list(map(to_fraction, row)) for row in table]
                    for table in (problem.accepted, problem.costs))  # fmt: skip
        theta = [payoff.threshold(at, m[1], *c) for m, c in zip(mu, cost, strict=True)]
        chosen = [0 if mu[s][0] >= theta[s] else 1 for s in range(4)]
        wrong += payoff.rate(problem, chosen) != at
        for policy in product((0, 1), repeat=4):
            cases += 1
            wrong += at - payoff.rate(problem, policy) != payoff.regret(problem, policy)
            wrong += payoff.rate(problem, policy) > at
    return Finding(
        verdict(wrong == 0),
        {"disagreements": wrong, "policies": cases},
        "Cache iff mu_C >= mu_m + lambda* (C_C - C_m); regret is the mean loss on the wrong side.",
    )


def replay_bias() -> Finding:
    """High-payoff share over all positions of a trace and over the rounds of a deployed policy."""
    run, copies, gap = 20, 3, 10
    cache: list[int] = []
    for _ in range(copies):  # inside a copied run of 20 tokens the cache continues to its end
        cache += [min(16, run - i) for i in range(run)] + [0] * gap
    tour = payoff_traces.follow([cache, [1] * len(cache)], [1, 1], lambda s: int(cache[s] < 6))
    starts = [s for s, _ in tour.rounds]
    visited = sum(cache[s] >= 6 for s in starts)
    positions = sum(length >= 6 for length in cache)
    proof = value_certificate(
        "hvd-replay",
        "a run of 20 copied tokens counts as 15 positions but is one round of a policy",
        ["/", str(visited), str(len(starts))],
        "!=",
        ["/", str(positions), str(len(cache))],
    )
    return value_finding(
        proof,
        ("share of rounds with payoff >= 6", "share of replayed positions"),
        "Training at every position over-represents what a policy decides once.",
    )


def myopic() -> Finding:
    """Longest draft first against the best sequence of sources on recorded traces."""
    accepted = [[2, 0, 1, 2, 0, 3], [3, 1, 0, 3, 0, 1]]
    best = payoff_traces.oracle(accepted, [1, 1])
    greedy = payoff_traces.myopic(accepted, [1, 1], best.rate)
    worse = 0
    for seed in range(40):
        texts = [_consistent(seed + 7 * arm) for arm in (0, 1)]
        top = payoff_traces.oracle(texts, [1, 1])
        first = [int(b > a) for a, b in zip(*texts, strict=True)]
        longest = payoff_traces.follow(texts, [1, 1], first.__getitem__)
        worse += longest.cost > top.cost
    return Finding(
        Verdict.CONDITIONAL if worse == 0 and greedy.cost > best.cost else verdict(worse == 0),
        {"rounds, longest first": greedy.cost, "rounds, best sequence": best.cost,
         "consistent traces where longest first loses": worse, "of": 40},
        "Optimal for equal costs and prefix-consistent drafts, tau(s + 1) >= tau(s) - 1.",
    )  # fmt: skip


def _consistent(seed: int) -> list[int]:
    """Accepted lengths of 12 positions with tau(s + 1) >= tau(s) - 1."""
    lengths = [0] * 13
    for s in range(11, -1, -1):
        lengths[s] = min((seed * (s + 3) + s * s) % 6, lengths[s + 1] + 1)
    return lengths[:12]


CLAIMS = (
    Claim("hvd-lossless", PAPER, "method",
          "Choosing the draft source from prefix and draft keeps the output law.",
          Verdict.HOLDS, lossless),
    Claim("hvd-better-of-two", f"a variant of {PAPER}", "method",
          "Both drafts may be verified and the longer outcome kept.",
          Verdict.FAILS, better_of_two),
    Claim("hvd-threshold-form", PAPER, "decision rule",
          "The optimal switch is a threshold on the cache's expected accepted length.",
          Verdict.HOLDS, threshold_form),
    Claim("hvd-threshold-six", PAPER, "theta = 6 for all models",
          "A cache draft is worth verifying from 6 expected tokens on.",
          Verdict.CONDITIONAL, threshold_six),
    Claim("hvd-ratio-rule", f"a variant of {PAPER}", "decision rule",
          "The draft with more tokens per time in its own round is the better choice.",
          Verdict.FAILS, ratio_rule),
    Claim("hvd-replay", f"a reading of {PAPER}", "trace replay",
          "Replaying every position gives the payoffs that a policy meets.",
          Verdict.FAILS, replay_bias),
    Claim("hvd-longest", f"a reading of {PAPER}", "oracle",
          "Taking the longest draft in every round is optimal.",
          Verdict.CONDITIONAL, myopic),
    speed_claim("hvd-speed", PAPER, "abstract", "2.73x over EAGLE-3 on agentic workloads.",
                "The paper's traces, Qwen3-8B with EAGLE-3 and an H100."),
    speed_claim("hvd-precision", PAPER, "predictor",
                "Precision 78 % to 88 % and recall 61 % to 80 % at 6 accepted tokens.",
                "Its traces; a leaky history feature reaches the same band, so test for that."),
)  # fmt: skip
