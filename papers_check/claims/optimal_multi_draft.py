"""Optimal transport for several drafts: Hu et al., Khisti et al., Global Resolution."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import optimum_formula, value_certificate, value_finding
from papers_check.claims.tools import (
    CROSSED,
    SUN,
    THREE,
    model,
    seeded,
    speed_claim,
    trees,
    verdict,
)
from theory.analysis import analyse
from theory.drafting import best_tokens, without
from theory.effects import Effects, exact_law
from theory.fields import Array, minimum, to_fraction
from theory.laws import residual
from theory.models import TableModel
from theory.transport import alpha_star, alpha_star_subsets, bounds, clipped_law
from theory.transport.certificates import block_optimum
from theory.transport.one_position import hit_probability

HU = "Hu et al. 2025 (2502.18779)"
KHISTI = "Khisti et al. 2024 (2410.18234)"
RESOLUTION = "Global Resolution: Thomas and Pal 2025 (2511.15898)"
ROWS = (SUN, CROSSED, THREE, ("1/5,3/10,1/2", "1/2,1/4,1/4"))
EXACT = "specproof exact --target {} --draft {} --verifier optimal_transport --gamma 1".format(
    *CROSSED
)
COMMAND = "specproof bounds --target {} --draft {} --gamma 1 --drafts 2".format(*CROSSED)


def formula() -> Finding:
    """The formula for alpha* against proved optima of the transport program."""
    wrong = unproved = 0
    for target, draft in ROWS:
        p, q = trees(model(target), model(draft), 1)
        for k in (1, 2, 3):
            best = block_optimum(p, q, k)
            unproved += not best.proved
            wrong += best.upper != alpha_star(target, draft, k)
    return Finding(
        verdict(wrong == unproved == 0),
        {"disagreements": wrong, "programs": 3 * len(ROWS), "unproved optima": unproved,
         "alpha*, 3/4, 1/4 against 1/4, 3/4": alpha_star(*CROSSED, 2)},
        "Each optimum is proved by a pair of rational certificates, an upper and a lower bound.",
    )  # fmt: skip


def one_sort() -> Finding:
    """Minimum over the V + 1 threshold sets against the minimum over all 2^V sets."""
    wrong = 0
    for p, q in seeded(20, 5, 1):
        for k in (2, 3):
            every = alpha_star_subsets(p.row(()), q.row(()), k)
            wrong += alpha_star(p.row(()), q.row(()), k) != to_fraction(every)
    return Finding(
        verdict(wrong == 0),
        {"disagreements": wrong, "cases": 40, "sets": 2**5},
        "The worst set is always one of large p/q, so one sort finds it.",
    )


def perfect_acceptance() -> Finding:
    """alpha* = 1 against the condition p(A) >= q(A)^K for all A."""
    wrong = perfect = 0
    for p, q in seeded(20, 3, 1, zeros=False):
        for k in (2, 3, 4):
            reached = alpha_star(p.row(()), q.row(()), k) == 1
            sets = [np.array(chosen) for chosen in product((0, 1), repeat=3)]
            holds = all((p.row(()) * a).sum() >= (q.row(()) * a).sum() ** k for a in sets)
            wrong += reached != holds
            perfect += reached
    return Finding(
        verdict(wrong == 0 and 0 < perfect < 60),
        {"disagreements": wrong, "cases": 60, "with alpha* = 1": perfect},
        "Both directions, over every set of tokens.",
    )


def selection() -> Finding:
    """Select one draft, then verify it alone: acceptance and law against the optimum."""
    gaps, distances, shifted = [], [], 0
    for p, q in seeded(6, 3, 3):
        a = analyse(p, q, "optimal_transport", 1, 2, 2)
        best = alpha_star(p.row(()), q.row(()), 2)
        law, _, _ = clipped_law(p.row(()), q.row(()), 2)
        shared = to_fraction(minimum(p.row(()), law).sum())
        gaps += [a.expected_accepted - best, shared - best]
        distances.append(a.distance)
        shifted += list(law) != list(q.row(()))
    return Finding(
        verdict(not any(gaps) and not any(distances)),
        {"largest gap": max(map(abs, gaps)), "largest distance": max(distances), "models": 6},
        "An importance-weighted winner of the clipped law, then min(1, p/g): alpha*, losslessly.",
    )


def greedy_drafts() -> Finding:
    """The likeliest token and one drawn from the rest: an exact rule against its optimum."""
    worst, gain, gaps = Fraction(0), Fraction(0), list[Fraction]()
    for p, q in seeded(12, 4, 1, zeros=False):
        row, draft = p.row(()), q.row(())
        top, rest = best_tokens(draft, 1)[0], without(draft, best_tokens(draft, 1)[0])

        def rule(fx: Effects, row: Array = row, rest: Array = rest) -> tuple[int, int]:
            x = fx.choose(rest, "draft")
            if fx.flip(minimum(1, row[x] / rest[x]), "test"):
                return x, x
            return x, fx.choose(residual(row, rest), "correction")

        law, kept = [Fraction(0)] * 4, Fraction(0)
        for (x, y), mass in exact_law(rule).items():
            law[y] += to_fraction(mass)
            kept += to_fraction(mass) * (y in (x, top))
        worst = max(worst, *(abs(a - to_fraction(b)) for a, b in zip(law, row, strict=True)))
        gaps.append(kept - _best(row, rest, top))
        gain = max(gain, kept - alpha_star(row, draft, 2))
    return Finding(
        verdict(worst == 0 and not any(gaps)),
        {"largest gap": max(map(abs, gaps)), "largest error of the law": worst, "models": len(gaps),
         "largest gain over i.i.d. drafts": gain},
        "Single-draft verification of the drawn token; the deterministic one is kept if emitted.",
    )  # fmt: skip


def _best(row: Array, rest: Array, top: int) -> Fraction:
    """Max-flow min-cut for the drafts {top, x}, x from ``rest``: over all sets of tokens."""
    values = []
    for chosen in product((0, 1), repeat=len(row)):
        inside = np.array(chosen)
        met = 1 if chosen[top] else (inside * rest).sum()
        values.append(to_fraction(((1 - inside) * row).sum() + met))
    return min(values)


def every_level() -> Finding:
    """A pair whose two levels cannot both be optimal, by a rational dual bound."""
    target = TableModel({"": ["1/2", "1/2"], "0": ["0", "1"], "1": ["1/4", "3/4"]})
    draft = TableModel({"": ["1/2", "1/2"], "0": ["1/4", "3/4"], "1": ["1", "0"]})
    found = bounds(target, draft, 2, 2)
    proof = value_certificate(
        "levels-together",
        "weak duality bounds every rule below the sum of the optima of the levels",
        optimum_formula(found.certificates["block_optimum"]),
        "<",
        str(found.level_wise),
    )
    return value_finding(
        proof,
        ("block optimum", "sum of level optima"),
        "With one draft both agree; with two, what serves one length can cost the next.",
    )


def marginal_bound() -> Finding:
    """The token-by-token bound against the optimum."""
    target, draft = "1/2,1/2,0", "1/3,1/3,1/3"
    found = bounds(target, draft, 1, 2)
    rows = zip(*(model(row).row(()) for row in (target, draft)), strict=True)
    terms = [["min", str(to_fraction(p)), str(to_fraction(hit_probability(q, 2)))] for p, q in rows]
    proof = value_certificate(
        "marginal-attained",
        "weak duality bounds every rule below sum min(p, 1 - (1 - q)^K)",
        optimum_formula(found.certificates["block_optimum"]),
        "<",
        ["+", *terms],
    )
    return value_finding(
        proof, ("alpha*", "token-by-token bound"), "Two tokens share drafts that hold both."
    )


CLAIMS = (
    Claim("alpha-star-formula", HU, "formula for alpha*",
          "The optimum of one position is 1 + min_A [p(A) - q(A)^K].",
          Verdict.HOLDS, formula, COMMAND),
    Claim("alpha-star-sort", HU, "computation by sorting",
          "The minimising set is a threshold set of p/q: O(V log V).",
          Verdict.HOLDS, one_sort),
    Claim("alpha-star-one", KHISTI, "theorem on full acceptance",
          "Everything can be accepted iff p(A) >= q(A)^K for every set A.",
          Verdict.HOLDS, perfect_acceptance),
    Claim("select-then-verify", KHISTI, "canonical decomposition",
          "Selecting one draft and verifying it alone attains the optimum.",
          Verdict.HOLDS, selection, EXACT),
    Claim("greedy-drafts-exact", HU, "greedy draft construction",
          "For the top token plus one random token the optimum has an exact simple rule.",
          Verdict.HOLDS, greedy_drafts),
    Claim("levels-together", "folklore", "one-position optima applied level by level",
          "Every length of a block can be accepted optimally at once.",
          Verdict.FAILS, every_level),
    Claim("marginal-attained", "folklore", "upper bound read as optimum",
          "sum min(p, 1 - (1 - q)^K) can be attained.",
          Verdict.FAILS, marginal_bound,
          "specproof bounds --target 1/2,1/2,0 --draft 1/3,1/3,1/3 --gamma 1 --drafts 2"),
    speed_claim("global-resolution-time", RESOLUTION, "abstract",
                "An exact sampler in under 100 ms a token at over 90 % acceptance.",
                "The paper's truncated vocabularies and hardware; here the value and a sampler of "
                "one position cost one sort."),
)  # fmt: skip
