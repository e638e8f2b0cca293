"""Speculative cascades (2405.19261) and typical acceptance (Medusa): deferral to the draft."""

from __future__ import annotations

from typing import Any

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import (
    law_finding,
    overlap_formula,
    value_certificate,
    value_finding,
)
from papers_check.claims.tools import seeded, speed_claim, verdict
from theory.analysis import analyse
from theory.fields import EXACT, to_fraction
from theory.laws import as_row, overlap, point_mass, total_variation
from theory.pareto.one_context import excess_bias
from theory.verifiers import cascade, typical

PAPER = "speculative cascades (2405.19261)"
MEDUSA = "Medusa: Cai et al. 2024 (2401.10774)"
ROWS = ("1/5,3/10,1/2", "1/2,1/4,1/4")
PEAKED = ("7/10" + 10 * ",3/100", "2/5" + 10 * ",3/50")
"""One likely token and ten unlikely ones."""
STRICT: dict[str, Any] = {"chow": 0, "diff": -1, "opt": -1000, "token_v1": -1, "token_v2": -1}
"""Knob at which each rule is said to be standard verification; TokenV3 apart."""


def declared_law() -> Finding:
    """Generated texts against the law each rule declares (with its bonus), over rounds."""
    rules = [*cascade.SWITCHES, *cascade.DROPS]
    distances = [
        to_fraction(analyse(p, q, "cascade", 2, 1, 4, rule=rule, knob="1/4").declared_distance)
        for p, q in seeded(3, 2, 4)
        for rule in rules
        if rule != "chow_log"
    ]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "rules": len(rules) - 1, "models": 3},
        "Each rule emits its target law nu wherever a token is verified.",
    )


def strict_knobs() -> Finding:
    """nu = p at the strict knobs, on rows with full support and with a one-hot draft."""
    wrong = dict.fromkeys(STRICT, 0)
    for p, q in seeded(20, 3, 1, zeros=False):
        for name, knob in STRICT.items():
            law = cascade.declared(p.row(()), q.row(()), name, EXACT.number(knob))
            wrong[name] += list(law) != list(p.row(()))
    row, certain = as_row(ROWS[0]), point_mass(2, 3)
    one_hot = [
        name
        for name, knob in STRICT.items()
        if list(cascade.declared(row, certain, name, EXACT.number(knob))) != list(row)
    ]
    holds = not any(wrong.values())
    return Finding(
        Verdict.CONDITIONAL if holds and one_hot else verdict(holds),
        {"rules lossy on a one-hot draft": ", ".join(one_hot), "others wrong": sum(wrong.values())},
        "Chow with knob 0 still defers to a draft of probability 1, as at temperature 0.",
    )


def token_v3_zero() -> Finding:
    """First token of TokenV3 with knob 0."""
    a = analyse(*ROWS, "cascade", 1, 1, 2, rule="token_v3", knob="0")
    return law_finding(
        "cascade-token-v3",
        "tokens that tie with the target's best one keep the draft's mass",
        a.decoder,
        1,
        1,
        "The law is (3/20, 9/40, 5/8) instead of (1/5, 3/10, 1/2).",
    )


def switches_on_frontier() -> Finding:
    """Excess bias of the hard switches over the frontier of acceptance and total variation."""
    knobs = {"chow": "1/3", "diff": "1/10", "opt": "1/2"}
    excess = [
        to_fraction(excess_bias("cascade", p.row(()), q.row(()), rule=rule, knob=knob))
        for p, q in seeded(30, 4, 1)
        for rule, knob in knobs.items()
    ]
    return Finding(
        verdict(not any(excess)),
        {"largest excess": max(excess), "cases": len(excess)},
        "At one context nu is p or q, and both lie on the frontier.",
    )


def token_rules() -> Finding:
    """TokenV3 against lossless verification: acceptance at a positive bias."""
    p, q = as_row(ROWS[0]), as_row(ROWS[1])
    law = cascade.declared(p, q, "token_v3", EXACT.number("1/5"))
    proof = value_certificate(
        "cascade-token-frontier",
        "a biased rule that accepts less than lossless verification",
        overlap_formula(q, law),
        "<",
        overlap_formula(p, q),
    )
    worst = max(
        to_fraction(excess_bias("cascade", a.row(()), b.row(()), rule="token_v3", knob="2/5"))
        for a, b in seeded(30, 4, 1)
    )
    return value_finding(
        proof,
        ("acceptance of TokenV3, knob 1/5", "lossless acceptance"),
        "Kept tokens also receive target mass, so the law leaves the box between p and q.",
        bias=to_fraction(total_variation(p, law)),
        largest_excess=worst,
    )


def typical_frontier() -> Finding:
    """Bias and acceptance of typical acceptance against lossless verification."""
    p, q = as_row(PEAKED[0]), as_row(PEAKED[1])
    here = typical.position(p, q)
    law = here.law(q)
    proof = value_certificate(
        "typical-frontier",
        "ten tokens of 3/100 each are below the threshold and are always refused",
        str(to_fraction(here.alpha(q))),
        "<",
        overlap_formula(p, q),
    )
    return value_finding(
        proof,
        ("acceptance of typical acceptance", "lossless acceptance"),
        "With its default parameters, and it is biased here as well.",
        bias=to_fraction(total_variation(p, law)),
    )


def typical_cold() -> Finding:
    """Typical acceptance of greedy drafts at temperature 0."""
    wrong = 0
    for token in range(3):
        for drafted in range(3):
            p, q = point_mass(token, 3), point_mass(drafted, 3)
            wrong += list(typical.position(p, q).law(q)) != list(p)
    same = to_fraction(overlap(point_mass(0, 3), point_mass(0, 3)))
    return Finding(
        verdict(wrong == 0),
        {"wrong laws": wrong, "cases": 9, "acceptance where they agree": same},
        "Entropy 0 makes the threshold min(eps, delta): only the target's token passes.",
    )


CLAIMS = (
    Claim("cascade-law", PAPER, "theorem on speculative execution",
          "Every deferral rule emits its own target law.",
          Verdict.HOLDS, declared_law),
    Claim("cascade-strict", PAPER, "knobs",
          "At its strict knob each rule is standard verification.",
          Verdict.CONDITIONAL, strict_knobs),
    Claim("cascade-token-v3", PAPER, "public notebook",
          "TokenV3 with knob 0 is standard verification.",
          Verdict.FAILS, token_v3_zero),
    Claim("cascade-switches", PAPER, "Chow, Diff, OPT",
          "Chow, Diff and OPT trade acceptance for total variation optimally at one context.",
          Verdict.HOLDS, switches_on_frontier),
    Claim("cascade-token-frontier", PAPER, "token-specific rules",
          "The token-specific deferral rules trade them optimally as well.",
          Verdict.FAILS, token_rules,
          "specproof pareto --target {} --draft {}".format(*ROWS)),
    Claim("typical-cold", MEDUSA, "section on typical acceptance",
          "At temperature 0 typical acceptance reproduces greedy decoding.",
          Verdict.HOLDS, typical_cold),
    Claim("typical-frontier", f"a reading of {MEDUSA}", "section on typical acceptance",
          "Typical acceptance accepts at least as much as lossless verification.",
          Verdict.FAILS, typical_frontier,
          "specproof pareto --target {} --draft {}".format(*PEAKED)),
    speed_claim("cascade-speed", PAPER, "experiments",
                "Better cost and quality than cascades and speculative decoding alone.",
                "The paper's T5 and Gemma models with their task scores."),
)  # fmt: skip
