"""SuffixDecoding (Oliaro et al. 2024): drafts looked up in a cache of earlier text."""

from __future__ import annotations

from fractions import Fraction

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.tools import seeded, speed_claim, verdict
from theory.drafting import Drafting, fixed
from theory.effects import Effects
from theory.fields import Number, to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.models import Model, Prefix, Rows
from theory.verifiers import load_program
from theory.verifiers.common import Carry, Round

PAPER = "SuffixDecoding: Oliaro et al. 2024 (2411.04975)"
CACHED: Prefix = (0, 1, 1, 0, 1, 0, 0, 1)
"""Text of earlier requests."""


class Cached(Decoder):
    """A decoder that drafts the continuation of the longest suffix found in cached text."""

    def round_law(self, prefix: Prefix, carry: Carry, cap: int) -> dict[Round, Number]:
        """One round after ``prefix`` with the draft looked up there."""
        drafting = looked_up(prefix)
        plain = Decoder(self.target, self.draft, self.verifier, self.window, drafting=drafting)
        return plain.round_law(prefix, carry, cap)


def looked_up(prefix: Prefix) -> Drafting:
    """The draft of a round after ``prefix``: a function of committed tokens only."""

    def drafting(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
        return (continuation(prefix)[:cap],)

    return drafting


def continuation(prefix: Prefix) -> Prefix:
    """What followed the longest suffix of ``prefix`` in the cached text (its first occurrence)."""
    for start in range(len(prefix)):
        suffix = prefix[start:]
        for place in range(len(CACHED) - len(suffix)):
            if CACHED[place : place + len(suffix)] == suffix:
                return CACHED[place + len(suffix) :]
    return CACHED


def path_mass(target: Model, path: Prefix) -> Fraction:
    """sum over the prefixes v of a path of P(v)."""
    total, mass = Fraction(0), Fraction(1)
    for i, x in enumerate(path):
        mass *= to_fraction(target.row(path[:i])[x])
        total += mass
    return total


def lossless() -> Finding:
    """Exact law of sampled texts whose drafts are looked up."""
    distances = []
    for p, q in seeded(6, 2, 6):
        decoder = Cached(p, q, load_program("point_mass"), fixed(3))
        law = generate(decoder, 5).tokens
        distances.append(to_fraction(distance(law, autoregressive(p, 5))))
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "models": 6},
        "Deterministic drafts: draw from p and go on while the draw is drafted.",
    )


def expected_length() -> Finding:
    """E[tau] of a looked-up draft against the sum of its path probabilities."""
    gaps = []
    for p, q in seeded(8, 2, 6):
        decoder = Cached(p, q, load_program("point_mass"), fixed(3))
        law = decoder.round_law((), (), 3)
        kept = sum((to_fraction(m) * out.accepted for out, m in law.items()), Fraction(0))
        gaps.append(kept - path_mass(p, CACHED[:3]))
    return Finding(
        verdict(not any(gaps)),
        {"largest gap": max(map(abs, gaps)), "models": len(gaps)},
        "The l-th token survives with the target's probability of the whole prefix.",
    )


def frequency(corpus: dict[Prefix, Number], suffix: Prefix, x: int, anywhere: bool) -> Fraction:
    """How often ``x`` follows ``suffix`` in a corpus: anywhere, or at the start of a text."""
    size = len(suffix)
    seen = followed = Fraction(0)
    for text, mass in corpus.items():
        for place in range(len(text) - size if anywhere else 1):
            if text[place : place + size] == suffix:
                seen += to_fraction(mass)
                followed += to_fraction(mass) * (text[place + size] == x)
    return followed / seen if seen else Fraction(0)


def score() -> Finding:
    """The score of a path, sum of estimated path probabilities, against E[tau].

    The corpus is the target's own text, weighted by its probability.
    """
    path = CACHED[:3]
    errors: dict[bool, list[Fraction]] = {False: [], True: []}
    for p, _ in seeded(8, 2, 5, zeros=False):
        corpus = autoregressive(p, 5)
        for anywhere, found in errors.items():
            estimate, survival = Fraction(0), Fraction(1)
            for i, x in enumerate(path):
                suffix = path[max(i - 1, 0) : i] if anywhere else path[:i]
                survival *= frequency(corpus, suffix, x, anywhere)
                estimate += survival
            found.append(abs(estimate - path_mass(p, path)))
    return Finding(
        Verdict.CONDITIONAL if max(errors[False]) == 0 < max(errors[True]) else verdict(False),
        {"largest error, whole context matched": max(errors[False]),
         "matched by one token": float(max(errors[True])), "models": 8},
        "Exact on the target's own text if the match covers the context that matters.",
    )  # fmt: skip


CLAIMS = (
    Claim("suffix-lossless", PAPER, "verification", "Drafts from a cache keep the output law.",
          Verdict.HOLDS, lossless),
    Claim("suffix-length", PAPER, "expected gain",
          "A cached draft is expected to keep the sum of its path probabilities.",
          Verdict.HOLDS, expected_length),
    Claim("suffix-score", PAPER, "choice of the draft",
          "The frequency score estimates the accepted length.",
          Verdict.CONDITIONAL, score),
    speed_claim("suffix-speed", PAPER, "abstract",
                "Up to 5.3x on AgenticSQL, 2.8x over EAGLE-2/3.",
                "Agentic traces, an 8B model and a GPU."),
)  # fmt: skip
