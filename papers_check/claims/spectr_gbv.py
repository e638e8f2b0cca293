"""SpecTr-GBV (Lin et al. 2026): the multi-draft greedy block rule and its release."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import (
    Formula,
    law_finding,
    number,
    value_certificate,
    value_finding,
)
from papers_check.claims.tools import CROSSED, SUN, model, seeded, speed_claim
from theory.analysis import analyse
from theory.fields import to_fraction

PAPER = "SpecTr-GBV: Lin et al. 2026 (2604.25925)"
RULE = "specproof exact --target {} --draft {} --verifier spectr_gbv"


def lossless() -> Finding:
    """First token of one round of the released rule, K = 2, gamma = 1."""
    a = analyse(*CROSSED, "spectr_gbv", 1, 2, 2)
    consulted = analyse(*CROSSED, "spectr_gbv", 1, 2, 2, last_position="consulted")
    return law_finding(
        "gbv-lossless",
        "a draft that passes pre-empts the others, so kept masses are not P phi(r)",
        a.decoder,
        1,
        1,
        "P(first token 0) should be 3/4. Remembering refused full blocks does not help.",
        other_reading=to_fraction(consulted.distance),
    )


def one_draft() -> Finding:
    """K = 1, with and without the modified targets of Algorithm 2."""
    with_it = [
        analyse(p, q, "spectr_gbv", 2, 1, 4, modification=True).distance for p, q in seeded(5, 2, 4)
    ]
    without = analyse(*SUN, "spectr_gbv", 2, 1, 5).distance
    several = analyse(*CROSSED, "spectr_gbv", 1, 2, 2, modification=True).distance
    holds = not any(with_it) and without > 0 and several > 0
    return Finding(
        Verdict.CONDITIONAL if holds else Verdict.FAILS,
        {"distance, K = 1": max(with_it), "K = 1 without Algorithm 2": without,
         "K = 2 with it": several},
        "For one draft it is greedy block verification, lossless with the modified targets.",
    )  # fmt: skip


def release() -> Finding:
    """K = 1 as released: no modification after a partly kept block."""
    return law_finding(
        "gbv-release",
        "without Algorithm 2 the tokens after a partly kept block follow the wrong law",
        analyse(*SUN, "spectr_gbv", 2, 1, 3).decoder,
        2,
        3,
        "One unmodified round, then the target itself; the first three tokens.",
    )


def attained() -> Finding:
    """E[tau] of Algorithm 1, refused strings remembered, against the number claimed for it."""
    p, q = (model(row).row(()) for row in CROSSED)
    h = [
        ["/", ["*", number(a), hit(["min", "1", ["/", number(b), number(a)]])], hit(number(b))]
        for a, b in zip(p, q, strict=True)
    ]
    kept = [
        ["*", number(q[y]), h[y], ["+", "1", ["*", number(q[1 - y]), ["-", "1", h[1 - y]]]]]
        for y in (0, 1)
    ]
    proof = value_certificate(
        "gbv-attained",
        "accepted mass q h (1 + q' (1 - h')) where q h (2 - q) is needed",
        ["+", *kept],
        "!=",
        ["+", *(["*", number(a), hit(["min", "1", ["/", number(b), number(a)]])]
                for a, b in zip(p, q, strict=True))],
    )  # fmt: skip
    released = analyse(*CROSSED, "spectr_gbv", 1, 2).expected_accepted
    enumerated = analyse(*CROSSED, "spectr_gbv", 1, 2, last_position="consulted").expected_accepted
    return value_finding(
        proof,
        ("E[tau] of Algorithm 1", "claimed value"),
        "The release, which tests refused full blocks again, reaches yet another value.",
        enumerated=enumerated,
        release=released,
    )


def correction() -> Finding:
    """First token of the correction law: exponent inside or outside the bracket."""
    p, r = ("1/2", "3/8", "1/8"), ("1/4", "2/3", "1")
    coded = [["*", a, ["-", "1", ["*", b, b]]] for a, b in zip(p, r, strict=True)]
    needed = [["*", a, ["-", "1", b], ["-", "1", b]] for a, b in zip(p, r, strict=True)]
    proof = value_certificate(
        "gbv-correction",
        "norm(P (1 - r^K)) is not norm(P (1 - r)^K) for K = 2",
        ["/", coded[0], ["+", *coded]],
        "!=",
        ["/", needed[0], ["+", *needed]],
    )
    rows = "1/2,3/8,1/8", "1/8,1/4,5/8"
    laws = [
        analyse(*rows, "spectr_gbv", 1, drafts, 2, residual=kind).output_law
        for drafts in (1, 2)
        for kind in ("code", "consistent")
    ]
    return value_finding(
        proof,
        ("chance of token 0 in the code", "needed for f = P phi(r)"),
        "For K = 1 both agree.",
        laws_agree_for_one_draft=laws[0] == laws[1],
        laws_agree_for_two=laws[2] == laws[3],
    )


def single_precision() -> Finding:
    """1 - (1 - m)^K in float32 at m = 2^-25, K = 7."""
    one, m = np.float32(1), np.float32(2.0**-25)
    computed = one - (one - m) ** np.float32(7)
    missed = ["-", "1", str(Fraction(1, 2**25))]
    proof = value_certificate(
        "gbv-float32",
        "float32 rounds 1 - 2^-25 to 1, so the denominator of the test becomes 0",
        str(Fraction(float(computed))),
        "!=",
        ["-", "1", ["*", *[missed] * 7]],
    )
    return value_finding(
        proof,
        ("float32", "exact"),
        "Joint probabilities of a few tokens are below 2^-25: tests blow up and accept everything. "
        "-expm1(K log1p(-m)) is accurate.",
    )


def hit(chance: Formula) -> Formula:
    """1 - (1 - a)^2: that one of two drafts succeeds."""
    return ["-", "1", ["*", ["-", "1", chance], ["-", "1", chance]]]


CLAIMS = (
    Claim("gbv-lossless", PAPER, "theorem 3.2",
          "Algorithm 1 of SpecTr-GBV is lossless for any number of drafts.",
          Verdict.FAILS, lossless, RULE.format(*CROSSED) + " --gamma 1 --drafts 2 --horizon 2"),
    Claim("gbv-one-draft", PAPER, "K = 1", "For one draft SpecTr-GBV is lossless.",
          Verdict.CONDITIONAL, one_draft, RULE.format(*SUN) + " --horizon 5"),
    Claim("gbv-release", PAPER, "official code",
          "The released SpecTr-GBV verifier is lossless for one draft.",
          Verdict.FAILS, release, RULE.format(*SUN) + " --horizon 5"),
    Claim("gbv-attained", PAPER, "theorem 5.3",
          "Algorithm 1 accepts sum P phi_K(min(1, Q/P)) tokens.",
          Verdict.FAILS, attained, RULE.format(*CROSSED) + " --gamma 1 --drafts 2"),
    Claim("gbv-correction", PAPER, "equation 4; official code",
          "The correction law of the code is the one that the acceptance needs.",
          Verdict.FAILS, correction),
    Claim("gbv-float32", PAPER, "official code",
          "The released acceptance test can be computed as written in float32.",
          Verdict.FAILS, single_precision),
    speed_claim("gbv-speed", PAPER, "abstract",
                "DeepSeek-33B: block efficiency +12.4 %, speed-up +29.3 % over one draft.",
                "The paper's models and GPU, and a verifier that is lossless."),
    speed_claim("gbv-release-table", PAPER, "official code, README",
                "Block efficiency 3.17 to 3.54 with 68M and 160M drafts, K = 7, gamma = 6.",
                "Those models, and float64: the release's float32 test inflates acceptance."),
)  # fmt: skip
