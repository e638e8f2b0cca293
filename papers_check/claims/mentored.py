"""Optimal relaxed laws: mentored decoding (Tran-Thien and Nock) and the limits of Yin et al."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import model, seeded, trees, verdict
from theory import clip
from theory.accepted_length.calls import calls_over_tree
from theory.fields import EXACT, Array, Number, minimum, positive_part, to_fraction
from theory.laws import as_row, normalise, overlap, total_variation
from theory.pareto import rounds
from theory.pareto.divergences import DIVERGENCES, chi2
from theory.pareto.one_context import least_bias_given
from theory.pareto.texts import Texts, static

MENTORED = "Tran-Thien 2023; Tran-Thien and Nock (2609.30474)"
YIN = "Yin et al. 2024 (2411.00841)"
PAIRS = (("1/5,3/10,1/2", "1/2,1/4,1/4"), ("1/2,1/3,1/6", "1/6,1/6,2/3"))


def universal() -> Finding:
    """Clip laws against every law on a grid that accepts as much, for several divergences."""
    beaten = compared = 0
    for target, draft in PAIRS:
        p, q = as_row(target), as_row(draft)
        laws = [EXACT.array([Fraction(n, 20) for n in parts]) for parts in _parts(20)]
        for hi in ("6/5", "3/2", "2"):
            best = clip.clip_law(p, q, EXACT.number(hi))
            for nu in laws:
                if overlap(q, nu) < overlap(q, best):
                    continue
                compared += 1
                beaten += total_variation(p, nu) < total_variation(p, best)
                beaten += chi2(p, nu) < chi2(p, best)
                beaten += _float_divergences_beaten(p, nu, best)
    return Finding(
        verdict(beaten == 0),
        {"laws that beat the clip law": beaten, "comparisons": 6 * compared},
        "TV and chi-square in rationals; KL both ways, Hellinger and JS in floats.",
    )


def _parts(total: int) -> list[tuple[int, int, int]]:
    return [(a, b, total - a - b) for a, b in product(range(total + 1), repeat=2) if a + b <= total]


def _float_divergences_beaten(p: Array, nu: Array, best: Array) -> int:
    names = ("kl", "reverse_kl", "hellinger", "js")
    return sum(DIVERGENCES[name](p, nu) < DIVERGENCES[name](p, best) - 1e-12 for name in names)


def acceptance_path() -> Finding:
    """One threshold on p, one on q: every acceptance level is met exactly by one clip law."""
    wrong = 0
    for target, draft in PAIRS:
        p, q = as_row(target), as_row(draft)
        low = overlap(p, q)
        for step in range(9):
            alpha = low + (1 - low) * step / 8
            law = clip.clip_law(p, q, clip.upper_for_acceptance(p, q, alpha))
            wrong += overlap(q, law) != alpha or law.sum() != 1
    return Finding(
        verdict(wrong == 0),
        {"levels missed": wrong, "levels": 18},
        "Both bounds follow from the acceptance by sorting, in rationals.",
    )


def rejections() -> Finding:
    """Expected calls with one block for the whole text against the sum of expected distances."""
    gaps = []
    for p, q in seeded(8, 3, 4):
        pair = trees(p, q, 4)
        reach: Array = EXACT.array([1])
        rejected: Number = EXACT.zero
        for level in range(3):
            rows = pair[0].levels[level], pair[1].levels[level]
            rejected = rejected + (reach * total_variation(*rows)).sum()
            reach = (reach[:, None] * rows[0]).reshape(-1)
        gaps.append(to_fraction(calls_over_tree(*pair, 4, 4) - 1 - rejected))
    return Finding(
        verdict(not any(gaps)),
        {"largest gap": max(map(abs, gaps)), "models": len(gaps)},
        "Four tokens; the last one is never drafted, as in engines.",
    )


def fewest_rejections() -> Finding:
    """A lossless rule whose deviations cancel between places, against token verification."""
    texts = Texts.of(model("1/2,1/2"), model("3/4,1/4"), 4, lambda text: 0)
    strict = rounds.weighted(texts, static(texts, 1))

    def traded(level: int, place: int) -> tuple[Array, Array]:
        kept, corrected = (part.copy() for part in strict(level, place))
        if level == 1:
            more = EXACT.number("1/4") * (1 if place == 0 else -1)
            kept[1, 0] += more
            corrected[1, 1] -= more
        return kept, corrected

    standard, other = rounds.run(texts, 2, strict), rounds.run(texts, 2, traded)
    fewer = other.distance == 0 and other.calls < standard.calls
    whole = rounds.run(texts, 4, strict).calls, rounds.run(texts, 4, traded).calls
    return Finding(
        Verdict.CONDITIONAL if fewer and whole[0] <= whole[1] else verdict(not fewer),
        {"calls, token verification, gamma = 2": to_fraction(standard.calls),
         "lossless rule that trades places": to_fraction(other.calls),
         "its distance": to_fraction(other.distance), "gamma = 4": to_fraction(whole[0]),
         "trading": to_fraction(whole[1])},
        "True with one block for the whole text. With short blocks a rule may keep too many tokens "
        "after (1) at one place and too few at another: exact texts, fewer calls.",
    )  # fmt: skip


def least_loss() -> Finding:
    """Bias of the best correction for given acceptances, attained and never beaten."""
    wrong = 0
    for p, q in seeded(15, 3, 1):
        row, draft = p.row(()), q.row(())
        for accept in (EXACT.array(["1", "1/2", "1/4"]), EXACT.array(["1/3", "1", "2/3"])):
            kept = accept * draft
            least = least_bias_given(row, draft, accept)
            room = positive_part(row - kept)
            laws = [normalise(room, fallback=row), row, EXACT.array(["1", "0", "0"])]
            biases = [total_variation(row, kept + (1 - kept.sum()) * law) for law in laws]
            filled = 1 - kept.sum() <= room.sum()
            wrong += min(biases) < least or (filled and biases[0] != least)
    shared = [minimum(p.row(()), q.row(())).sum() for p, q in seeded(15, 3, 1)]
    return Finding(
        verdict(wrong == 0),
        {"disagreements": wrong, "cases": 30, "largest overlap": to_fraction(max(shared))},
        "With acceptances b the least bias is sum (b q - p)_+, attained by filling what is short.",
    )


CLAIMS = (
    Claim("mentored-universal", MENTORED, "optimal structure",
          "clip(q, lo p, hi p) is optimal whatever the divergence.",
          Verdict.HOLDS, universal),
    Claim("mentored-path", MENTORED, "computation",
          "The two bounds of the clip law are found exactly for every acceptance level.",
          Verdict.HOLDS, acceptance_path),
    Claim("yin-rejections", YIN, "theorem 1",
          "The expected number of rejections is the sum of expected TV along target text.",
          Verdict.HOLDS, rejections),
    Claim("yin-optimal", f"a reading of {YIN}", "theorem 2",
          "No unbiased rule needs fewer target calls than token verification.",
          Verdict.CONDITIONAL, fewest_rejections),
    Claim("yin-least-loss", YIN, "optimal relaxed rules",
          "Given acceptances b, the least bias of any correction is sum (b q - p)_+.",
          Verdict.HOLDS, least_loss),
)  # fmt: skip
