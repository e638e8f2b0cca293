"""DIVERSED (2604.07622): verification against a learned ensemble of target and draft."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import (
    Formula,
    law_finding,
    number,
    value_certificate,
    value_finding,
)
from papers_check.claims.tools import SUN, model, seeded, speed_claim, verdict
from theory import clip
from theory.analysis import analyse
from theory.declared import Declared
from theory.fields import EXACT, Array, to_fraction
from theory.laws import as_row, mixture, overlap, total_variation
from theory.models import TableModel
from theory.pareto.divergences import chi2
from theory.pareto.many_contexts import Context, mixture_point, reward_frontier
from theory.pareto.one_context import least_bias
from theory.pareto.rounds import run, weighted
from theory.pareto.texts import Texts, evaluate, static
from theory.verifiers import ensemble

PAPER = "DIVERSED (2604.07622)"
COMMAND = "specproof exact --target {} --draft {} --verifier ensemble".format(*SUN)
WEIGHTS = [EXACT.number(text) for text in ("0", "1/4", "1/2", "3/4", "1")]
P3, Q3 = "1/5,3/10,1/2", "1/2,1/4,1/4"


def identities() -> Finding:
    """Law, acceptance and bias of one verified position over weights."""
    wrong = 0
    for p, q in seeded(12, 3, 1):
        row, draft = p.row(()), q.row(())
        gap = total_variation(row, draft)
        for w in WEIGHTS:
            here = ensemble.position(row, draft, w)
            wrong += list(here.law(draft)) != list(mixture(w, row, draft))
            wrong += here.alpha(draft) != 1 - w * gap
            wrong += total_variation(row, here.law(draft)) != (1 - w) * gap
    return Finding(
        verdict(wrong == 0),
        {"disagreements": wrong, "cases": 12 * len(WEIGHTS),
         "E[tau] on Sun's example, w = 1/2": analyse(*SUN, "ensemble", 2).expected_accepted},
        "The emitted law is nu = w p + (1 - w) q; acceptance and bias are linear in w.",
    )  # fmt: skip


def length_formula() -> Finding:
    """The product of mean acceptances against P(tau >= 2) on a context-dependent pair."""
    half = ["1/2", "1/2"]
    target = TableModel({"": half, "0": half, "1": ["1", "0"]}, half)
    draft = TableModel({"": ["3/4", "1/4"], "0": half, "1": ["0", "1"]}, half)
    truth = analyse(target, draft, "ensemble", 2, w="1").accepted_law[2]
    product = ["*", "3/4", ["+", ["*", "3/4", "1"], ["*", "1/4", "0"]]]
    exact = ["+", ["*", "1/2", "1"], ["*", "1/4", "0"]]
    proof = value_certificate(
        "diversed-length",
        "the product of mean overlaps is not the chance that two tokens survive",
        product,
        "!=",
        exact,
    )
    wrong = value_finding(proof, ("product formula", "P(tau >= 2)"), "")
    by_position = TableModel({"": half, "0": half, "1": half}, half)
    level = TableModel({"": ["3/4", "1/4"], "0": ["1/4", "3/4"], "1": ["1/4", "3/4"]}, half)
    right = analyse(by_position, level, "ensemble", 2, w="1").accepted_law[2]
    holds = wrong.verdict == Verdict.FAILS and right == Fraction(9, 16) and truth == Fraction(1, 2)
    return Finding(
        Verdict.CONDITIONAL if holds else verdict(wrong.verdict == Verdict.HOLDS),
        {**wrong.numbers, "enumerated": truth, "acceptance by position only": right},
        "True if acceptance depends on the position only; else average over accepted prefixes.",
        proof,
    )


def output_law() -> Finding:
    """Three tokens of the static ensemble with the bonus of engines."""
    a = analyse(*SUN, "ensemble", 2, 1, 3)
    own = analyse(*SUN, "ensemble", 2, 1, 4, bonus="ensemble").declared_distance
    return law_finding(
        "diversed-output-law",
        "the bonus token follows p, so a fully accepted block is followed by the wrong law",
        a.decoder,
        2,
        3,
        "Engines draw the bonus from p; drawn from nu, the text follows nu exactly.",
        reference=Declared("ensemble", a.decoder.target, a.decoder.draft, {"w": "1/2"}),
        with_bonus_from_nu=own,
    )


def static_frontier() -> Finding:
    """Bias of static mixtures against the least bias of any rule with that acceptance."""
    excess = [
        total_variation(p.row(()), mixture(w, p.row(()), q.row(())))
        - least_bias(p.row(()), q.row(()), 1 - w * total_variation(p.row(()), q.row(())))
        for p, q in seeded(12, 4, 1)
        for w in WEIGHTS
    ]
    return Finding(
        verdict(not any(excess)),
        {"largest excess": to_fraction(max(excess)), "cases": len(excess)},
        "Optimal for total variation at one context, though not the only optimum.",
    )


def other_divergences() -> Finding:
    """Chi-square of the mixture and of the clip law at equal acceptance."""
    p, q = as_row(P3), as_row(Q3)
    mixed = mixture(EXACT.number("1/2"), p, q)
    clipped = clip.clip_law(p, q, clip.upper_for_acceptance(p, q, overlap(q, mixed)))
    if overlap(q, clipped) != overlap(q, mixed):
        raise ArithmeticError("the two laws accept differently")
    proof = value_certificate(
        "diversed-divergences",
        "at acceptance 17/20 the clip law is closer in chi-square than the mixture",
        _chi2(p, clipped),
        "<",
        _chi2(p, mixed),
    )
    return value_finding(
        proof,
        ("chi-square of the clip law", "of the mixture"),
        "clip(q, lo p, hi p) is best for every f-divergence, mixtures for total variation only.",
        theory_agrees=to_fraction(chi2(p, clipped)) == Fraction(proof["left"]),
    )


def _chi2(p: Array, nu: Array) -> Formula:
    gaps = [["-", number(b), number(a)] for a, b in zip(p, nu, strict=True)]
    return ["+", *(["/", ["*", gap, gap], number(a)] for gap, a in zip(gaps, p, strict=True))]


def dynamic_weights() -> Finding:
    """Two contexts: acceptance minus bias for all weights, and a reward that tells them apart."""
    half = EXACT.number("1/2")
    rows = as_row("1/2,1/2,0"), as_row("1/2,0,1/2")
    contexts = [Context(half, *rows), Context(half, *rows)]
    sums = set()
    for w in WEIGHTS:
        for v in WEIGHTS:
            point = mixture_point(contexts, [w, v])
            sums.add(to_fraction(point.acceptance - point.quality))
    rewards = [as_row("1/3,1/3,1/3") * 0 + 1, EXACT.array(["1", "1", "0"])]
    vertices = [
        (to_fraction(p.acceptance), to_fraction(p.quality))
        for p in reward_frontier(contexts, rewards).points
    ]
    halfway = mixture_point(contexts, [half, half]).acceptance
    emitted = mixture(half, *rows)
    fixed = to_fraction(sum(half * (worth * emitted).sum() for worth in rewards))
    gained = dict(vertices)[to_fraction(halfway)] - fixed
    return Finding(
        Verdict.CONDITIONAL if len(sums) == 1 and gained > 0 else verdict(len(sums) > 1),
        {"reward gained at acceptance 3/4": gained, "acceptance - bias": sums.pop()},
        "By mean total variation no weights beat static ones; by task reward they can.",
    )


def calls_surrogate() -> Finding:
    """Acceptance and calls when one position is handed to the draft, for short and long blocks."""
    target = model("1/2,1/2")
    skewed = ["5/6", "1/6"]
    draft = TableModel({"": ["3/4", "1/4"], "0": skewed, "1": skewed}, ["3/4", "1/4"])
    texts = Texts.of(target, draft, 4, lambda text: 0)
    strict = static(texts, 1)
    handed = [tuple(0 * w if i == n else w for i, w in enumerate(strict)) for n in range(3)]
    accepted = [evaluate(texts, weights).acceptance for weights in handed]
    calls = {
        gamma: [run(texts, gamma, weighted(texts, weights)).calls for weights in handed]
        for gamma in (1, 4)
    }
    reverses = accepted[1] > accepted[0] and calls[1][1] > calls[1][0]
    sums = {to_fraction(a + c) for a, c in zip(accepted, calls[4], strict=True)}
    return Finding(
        Verdict.CONDITIONAL if reverses and len(sums) == 1 else verdict(not reverses),
        {"acceptance, position 1 relaxed": to_fraction(accepted[1]),
         "position 0 relaxed": to_fraction(accepted[0]),
         "calls at gamma = 1": to_fraction(calls[1][1]), "and": to_fraction(calls[1][0])},
        "True if one block covers the text, where acceptance and calls add up to a constant.",
    )  # fmt: skip


def published_decay() -> Finding:
    """Published acceptance at N = 3 and N = 15 against one i.i.d. acceptance."""
    alpha = Fraction(867, 1000)

    def rate(n: int) -> Formula:
        powers = [["*", *["867/1000"] * k] for k in range(1, n + 1)]
        return ["/", ["+", *powers], str(n)]

    at_three = sum(alpha**k for k in range(1, 4)) / 3
    if at_three < Fraction(756, 1000):
        raise ArithmeticError("alpha is too small to bound the published rate at N = 3")
    proof = value_certificate(
        "diversed-decay",
        "alpha = 0.867 already exceeds 75.6 % at N = 3, and predicts less than 64.2 % at N = 15",
        rate(15),
        "<",
        "642/1000",
    )
    return value_finding(
        proof,
        ("i.i.d. rate at N = 15, at most", "published"),
        "Accepted per proposed, w = 1, read off the authors' figures.",
        at_three=at_three,
    )


def regulariser_sign() -> Finding:
    """The adaptive weight of the acceptance term as released."""
    proof = value_certificate(
        "diversed-regulariser",
        "0.05 |loss| / reg_loss is negative, because reg_loss = -sum (1 - TV) is",
        ["/", ["*", "1/20", "1"], ["-", "0", "3/2"]],
        "<",
        "0",
    )
    return value_finding(
        proof,
        ("weight at loss 1, acceptance sum 3/2", "needed at least"),
        "Released trainer: with a non-zero reward loss acceptance is pushed down.",
    )


def logit_mixing() -> Finding:
    """Geometric mixing, as in the released trainer, against the frontier."""
    p, q = as_row("4/9,1/9,4/9"), as_row("1/9,4/9,4/9")
    mixed = as_row("1/4,1/4,1/2")
    if list(64 * mixed * mixed) != list(81 * p * q):
        raise ArithmeticError("not the normalised geometric mean")
    bias = to_fraction(total_variation(p, mixed))
    proof = value_certificate(
        "diversed-logits",
        "norm(sqrt(p q)) is further from p than a mixture that accepts as much",
        str(to_fraction(least_bias(p, q, overlap(q, mixed)))),
        "<",
        ["+", *(["max", "0", ["-", number(a), number(b)]] for a, b in zip(p, mixed, strict=True))],
    )
    return value_finding(
        proof,
        ("bias of a mixture of probabilities", "of logits"),
        "The released trainer mixes logits, the paper and transformers mix probabilities.",
        acceptance=to_fraction(overlap(q, mixed)),
        bias=bias,
    )


CLAIMS = (
    Claim("diversed-identities", PAPER, "section on relaxed acceptance",
          "A verified token follows w p + (1 - w) q and is kept with 1 - w TV(p, q).",
          Verdict.HOLDS, identities, COMMAND),
    Claim("diversed-length", PAPER, "expected length, as reported",
          "E[tau] is sum over t of prod_{i<=t} (1 - TV_i), without any i.i.d. assumption.",
          Verdict.CONDITIONAL, length_formula),
    Claim("diversed-output-law", PAPER, "method; transformers' implementation",
          "The generated text follows the ensemble.",
          Verdict.FAILS, output_law, COMMAND + " --horizon 3"),
    Claim("diversed-static", PAPER, "Pareto theorem",
          "A static ensemble is on the frontier of acceptance and total variation.",
          Verdict.HOLDS, static_frontier,
          f"specproof pareto --target {P3} --draft {Q3}"),
    Claim("diversed-divergences", f"a reading of {PAPER}", "Pareto theorem",
          "A static ensemble is optimal for every measure of faithfulness.",
          Verdict.FAILS, other_divergences,
          f"specproof pareto --target {P3} --draft {Q3} --measure chi2"),
    Claim("diversed-dynamic", PAPER, "dynamic frontier",
          "Context-dependent weights beat the static frontier.",
          Verdict.CONDITIONAL, dynamic_weights),
    Claim("diversed-surrogate", f"a reading of {PAPER}", "training objective",
          "More expected acceptance means fewer target calls.",
          Verdict.CONDITIONAL, calls_surrogate),
    Claim("diversed-decay", PAPER, "acceptance against N",
          "One i.i.d. acceptance explains the published rates at N = 3 and N = 15.",
          Verdict.FAILS, published_decay),
    Claim("diversed-regulariser", PAPER, "released trainer",
          "The released regulariser raises acceptance.",
          Verdict.FAILS, regulariser_sign),
    Claim("diversed-logits", PAPER, "released trainer",
          "Mixing logits is as good as mixing probabilities.",
          Verdict.FAILS, logit_mixing),
    speed_claim("diversed-gain", PAPER, "abstract",
                "Acceptance at least 28 % above lossy baselines at equal accuracy.",
                "Llama-3.1-8B with its trained head, and more than 100 items a task."),
)  # fmt: skip
