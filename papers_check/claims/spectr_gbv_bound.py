"""SpecTr-GBV (Lin et al. 2026): the number that it claims as the largest E[tau]."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import law_certificate, value_certificate, value_finding
from papers_check.claims.spectr_gbv import PAPER, hit
from papers_check.claims.tools import CROSSED, SUN, THREE, model, row_trees, seeded, trees, verdict
from theory.analysis import Analysis, analyse
from theory.fields import to_fraction
from theory.transport import Bounds, bounds, cic_value
from theory.transport.certificates import block_optimum

BOUNDS = "specproof bounds --target {} --draft {} --gamma 1 --drafts 2"


def optimum() -> Finding:
    """The claimed largest E[tau] against a lossless rule that accepts more, gamma = 1, K = 2."""
    found = bounds(*CROSSED, 1, 2)
    a = analyse(*CROSSED, "max_ratio_block", 1, 2, 2)
    return _more_than_claimed("gbv-optimal", a, found)


def baseline() -> Finding:
    """SpecTr's own rule against the bound."""
    found = bounds(*THREE, 1, 2)
    a = analyse(*THREE, "kseq", 1, 2, 2)
    return _more_than_claimed("gbv-bound", a, found)


def _more_than_claimed(name: str, a: Analysis, found: Bounds) -> Finding:
    """FAILS if a lossless rule accepts more than the claimed maximum, gamma = 1."""
    rule, kept = a.entry.name, a.expected_accepted
    numbers = {f"E[tau] of {rule}": kept, "claimed maximum": found.cic,
               "proved optimum": found.block_optimum}  # fmt: skip
    if not (a.lossless and kept > found.cic):
        return Finding(Verdict.HOLDS, numbers)
    refutes = f"{rule} is lossless here and accepts more than the claimed maximum"
    proof = law_certificate(name, refutes, a.decoder, 1, 2, claimed=found.cic)
    note = "The bound is that of one restricted kind of coupling, not of all rules."
    return Finding(Verdict.FAILS, numbers, note, proof)


def without_state() -> Finding:
    """The best rule without state against the bound, gamma = 2, K = 2."""
    pair = row_trees(SUN, 2)
    best = block_optimum(*pair, 2, stateless=True)
    claimed = to_fraction(cic_value(*pair, 2))
    a = analyse(*SUN, "max_ratio_block", 2, 2, 3)
    found = {"E[tau] without state": a.expected_accepted, "claimed maximum": claimed,
             "proved optimum without state": best.lower}  # fmt: skip
    if not (a.lossless and a.expected_accepted > claimed):
        return Finding(Verdict.HOLDS, found)
    refutes = "a lossless rule without state accepts more than the stateful maximum"
    proof = law_certificate("gbv-state-needed", refutes, a.decoder, 2, 3, claimed=claimed)
    return Finding(Verdict.FAILS, found, "Max-ratio block verification on Sun's example.", proof)


def increasing() -> Finding:
    """The bound for growing K on seeded models, and on equal laws."""
    rising = all(
        cic_value(*trees(p, q, 2), k) < cic_value(*trees(p, q, 2), k + 1)
        for p, q in seeded(8, 2, 2, zeros=False)
        for k in (1, 2, 3)
    )
    same = row_trees(("1/3,2/3", "1/3,2/3"), 2)
    flat = [to_fraction(cic_value(*same, k)) for k in (1, 2)]
    return Finding(
        Verdict.CONDITIONAL if rising and flat[0] == flat[1] else verdict(rising),
        {"p = q: K = 1": flat[0], "K = 2": flat[1], "seeded models that rise": 8 * rising},
        "Strict iff some string has 0 < Q(v) < P(v).",
    )


def coupling() -> Finding:
    """The best conditionally independent coupling of two i.i.d. drafts over two tokens.

    P(X_k = 0 | Y) = q0 + d_k p1 or q0 - d_k p0; i.i.d. drafts need d_1 d_2 = 0, so one draft
    ignores the target, and the value is linear in the other d. (The paper's couplings are those
    with P(x_1, .., x_K | y) = prod P_k(x_k | y); reconstructed from its theorem.)
    """
    (p0, p1), (q0, _) = ([to_fraction(x) for x in model(row).row(())] for row in CROSSED)
    ends = [max(-q0 / p1, -(1 - q0) / p0), min((1 - q0) / p1, q0 / p0)]
    values = []
    for d in ends:
        hit0, hit1 = q0 + d * p1, 1 - q0 + d * p0
        values.append(p0 * (1 - (1 - hit0) * (1 - q0)) + p1 * (1 - (1 - hit1) * q0))
    r = [["min", "1", ["/", a, b]] for a, b in (("1/4", "3/4"), ("3/4", "1/4"))]
    kept = [
        ["*", p, ["-", "1", ["*", ["-", "1", ratio], ["-", "1", q]]]]
        for p, q, ratio in zip(("3/4", "1/4"), ("1/4", "3/4"), r, strict=True)
    ]
    bound = [["*", p, hit(ratio)] for p, ratio in zip(("3/4", "1/4"), r, strict=True)]
    proof = value_certificate(
        "gbv-coupling",
        "i.i.d. drafts leave only one draft to be coupled with the target token",
        ["+", *kept],
        "<",
        ["+", *bound],
    )
    return value_finding(
        proof,
        ("best such coupling", "claimed value"),
        "Independence given the target and independence of the drafts nearly exclude each other.",
        search_agrees=max(values) == Fraction(proof["left"]),
    )


def number_attainable() -> Finding:
    """The claimed value against the proved optimum on seeded models."""
    short = below = 0
    for p, q in seeded(6, 2, 2):
        pair = trees(p, q, 2)
        best = block_optimum(*pair, 2)
        short += best.lower < to_fraction(cic_value(*pair, 2))
        below += best.lower > to_fraction(cic_value(*pair, 2))
    return Finding(
        verdict(short == 0),
        {
            "models where no rule reaches it": short,
            "models": 6,
            "where some rule exceeds it": below,
            "value on Sun's example, gamma = 1": to_fraction(cic_value(*row_trees(SUN, 1), 2)),
        },
        "Proved by winner laws in rationals: attainable, but not the maximum.",
    )


CLAIMS = (
    Claim("gbv-optimal", PAPER, "theorem 5.3",
          "sum P phi_K(min(1, Q/P)) is the largest E[tau] of K i.i.d. drafts.",
          Verdict.FAILS, optimum, BOUNDS.format(*CROSSED)),
    Claim("gbv-bound", PAPER, "upper bound",
          "Baselines such as K-SEQ stay below sum P phi_K(min(1, Q/P)).",
          Verdict.FAILS, baseline, BOUNDS.format(*THREE)),
    Claim("gbv-state-needed", f"a reading of {PAPER}", "theorem 5.3",
          "No rule without state across rounds exceeds sum P phi_K(min(1, Q/P)).",
          Verdict.FAILS, without_state, BOUNDS.format(*SUN).replace("gamma 1", "gamma 2")),
    Claim("gbv-increasing", PAPER, "monotonicity",
          "sum P phi_K(min(1, Q/P)) rises strictly with K.",
          Verdict.CONDITIONAL, increasing),
    Claim("gbv-coupling", PAPER, "lemma 4.1",
          "Conditionally independent couplings of i.i.d. drafts attain sum P phi(min(1, Q/P)).",
          Verdict.FAILS, coupling),
    Claim("gbv-attainable", PAPER, "theorem 5.3",
          "Some lossless rule accepts sum P phi_K(min(1, Q/P)) tokens.",
          Verdict.HOLDS, number_attainable, BOUNDS.format(*SUN)),
)  # fmt: skip
