"""Ouroboros (2402.13720): drafts lengthened by phrases, verified in one pass, greedy decoding."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import seeded, speed_claim, verdict
from theory.drafting import Drafting, best_tokens, fixed
from theory.effects import Effects
from theory.fields import to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.laws import point_mass
from theory.models import Prefix, Rows, TableModel, prefixes
from theory.verifiers import load_program

PAPER = "Ouroboros: Zhao et al. 2024 (2402.13720)"
PHRASES: tuple[Prefix, ...] = ((0, 1), (1, 1), (1, 0))
"""The pool: phrases that continue any draft."""


def with_phrases(length: int, phrases: tuple[Prefix, ...]) -> Drafting:
    """The draft's greedy path of ``length`` tokens, then every phrase as a branch behind it."""

    def drafting(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
        path: Prefix = ()
        for _ in range(min(length, cap)):
            path = (*path, best_tokens(draft(path), 1)[0])
        return tuple((path + phrase)[:cap] for phrase in phrases or ((),))

    return drafting


def greedy_model(model: TableModel, depth: int) -> TableModel:
    """The one-hot rows of a model at temperature 0."""
    rows = {
        prefix: list(point_mass(best_tokens(model.row(prefix), 1)[0], model.vocab))
        for length in range(depth)
        for prefix in prefixes(model.vocab, length)
    }
    return TableModel(rows)


def _decoder(target: TableModel, draft: TableModel, phrases: tuple[Prefix, ...]) -> Decoder:
    verifier = load_program("point_mass")
    return Decoder(target, draft, verifier, fixed(2), drafting=with_phrases(2, phrases))


def lossless() -> Finding:
    """Greedy texts with phrases against the target's own, and the law under sampling."""
    greedy: list[Fraction] = []
    sampled: list[Fraction] = []
    for p, q in seeded(6, 2, 6):
        cold = greedy_model(p, 6)
        for target, found in ((cold, greedy), (p, sampled)):
            law = generate(_decoder(target, q, PHRASES), 5).tokens
            found.append(to_fraction(distance(law, autoregressive(target, 5))))
    return Finding(
        verdict(not any(greedy) and not any(sampled)),
        {"largest distance, greedy": max(greedy), "under sampling": max(sampled), "models": 6},
        "A tree of draft and phrases is fixed before the target is read: exact at any temperature.",
    )


def longer_rounds() -> Finding:
    """E[tau] of a round with and without phrases."""
    gains = []
    for p, q in seeded(10, 2, 6):
        lengths = []
        for phrases in ((), PHRASES):
            law = _decoder(p, q, phrases).round_law((), (), 4)
            lengths.append(to_fraction(sum(mass * out.accepted for out, mass in law.items())))
        gains.append(lengths[1] - lengths[0])
    return Finding(
        verdict(min(gains) >= 0 < max(gains)),
        {"smallest gain": min(gains), "largest": float(max(gains)), "models": len(gains)},
        "Phrases add nodes to the verified tree and take none away.",
    )


CLAIMS = (
    Claim("ouroboros-lossless", PAPER, "method", "Phrases and their verification keep the text.",
          Verdict.HOLDS, lossless),
    Claim("ouroboros-longer", PAPER, "lengthening drafts by phrases",
          "Phrases never shorten a round.",
          Verdict.HOLDS, longer_rounds),
    speed_claim("ouroboros-speed", PAPER, "abstract",
                "Up to 2.8x over speculative decoding and 1.9x over lookahead decoding.",
                "The paper's pairs and GPU; its pool is kept across prompts, so order matters."),
)  # fmt: skip
