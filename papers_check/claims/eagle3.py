"""EAGLE-3 (2503.01840) and its trees of deterministic children (EAGLE-2, 2406.16858)."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.claims.certificates import law_finding
from papers_check.claims.tools import model, seeded, speed_claim, trees, verdict
from theory.accepted_length import token
from theory.analysis import analyse
from theory.drafting import fixed, independent, likeliest
from theory.fields import to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.laws import overlap
from theory.models import Model, Prefix, prefixes
from theory.verifiers import load_program

EAGLE = "EAGLE-3: Li et al. 2025 (2503.01840)"
EAGLE2 = "EAGLE-2: Li et al. 2024 (2406.16858)"


def lossless() -> Finding:
    """Exact output law of trees of the draft's likeliest tokens."""
    distances = [
        analyse(p, q, "point_mass", gamma, width, 4).distance
        for p, q in seeded(4, 3, 4)
        for gamma, width in ((2, 2), (3, 1))
    ]
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "trees": len(distances)},
        "Children tested with p(x) over the mass left, zeroed and renormalised: draws from p.",
    )


def soft_probabilities() -> Finding:
    """A top-1 draft tested with its softmax probability as if it had been sampled."""
    decoder = Decoder(
        model("1/2,1/2"),
        model("3/4,1/4"),
        load_program("token"),
        fixed(1),
        drafting=likeliest((1,)),
    )
    return law_finding(
        "eagle-soft-q",
        "the argmax is drafted with certainty but divided by its softmax probability 3/4",
        decoder,
        1,
        1,
        "Faults seen in SafeAILab/EAGLE#221, z-lab/dflash#74 and huggingface/transformers#47932.",
    )


def sampled_as_certain() -> Finding:
    """A sampled draft tested as a point mass: law and acceptance."""
    distances, losses = [], []
    for p, q in seeded(5, 3, 3):
        drafting = independent(fixed(2))
        decoder = Decoder(p, q, load_program("point_mass"), fixed(2), drafting=drafting)
        law = generate(decoder, 3).tokens
        distances.append(to_fraction(distance(law, autoregressive(p, 3))))
        kept = sum(m * out.accepted for out, m in decoder.round_law((), (), 2).items())
        losses.append(to_fraction(token(*trees(p, q, 2), 2) - kept))
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "tokens lost a round, smallest": min(losses),
         "largest": float(max(losses))},
        "Lossless, but it keeps sum p q instead of sum min(p, q) at a position.",
    )  # fmt: skip


def best_tree(values: dict[Prefix, Fraction], size: int) -> tuple[Prefix, ...]:
    """The ``size`` nodes of largest value, short ones first among equals."""
    return tuple(sorted(values, key=lambda v: (-values[v], len(v), v))[:size])


def joint(source: Model, depth: int) -> dict[Prefix, Fraction]:
    """Probabilities of all strings up to ``depth``."""
    masses: dict[Prefix, Fraction] = {(): Fraction(1)}
    for length in range(depth):
        for v in prefixes(source.vocab, length):
            for x, share in enumerate(source.row(v)):
                masses[(*v, x)] = masses[v] * to_fraction(share)
    del masses[()]
    return masses


def dynamic_tree() -> Finding:
    """Trees of five nodes: highest confidence against the best of all trees."""
    size, right, short = 5, 0, 0
    for p, q in seeded(6, 2, 3, zeros=False):
        gain, belief = joint(p, 3), joint(q, 3)
        closed = (
            nodes
            for nodes in combinations(gain, size)
            if all(len(v) == 1 or v[:-1] in nodes for v in nodes)
        )
        best = max(sum(gain[v] for v in nodes) for nodes in closed)
        right += sum(gain[v] for v in best_tree(gain, size)) == best
        short += sum(gain[v] for v in best_tree(belief, size)) < best
    return Finding(
        Verdict.CONDITIONAL if right == 6 and short else verdict(right == 6),
        {"optimal with true confidences": right, "short with the draft's own": short, "models": 6},
        "The tree of the n largest path probabilities is closed and optimal if confidence is "
        "acceptance; the draft's confidence is not.",
    )


def small_vocabulary() -> Finding:
    """A draft that never proposes one token of the target."""
    draft = ["1/2", "1/2", "0"]
    distances, kept = [], []
    for p, _ in seeded(4, 3, 4, zeros=False):
        for rule in ("token", "block", "greedy_block"):
            distances.append(analyse(p, draft, rule, 2, 1, 4).distance)
        kept.append(to_fraction(overlap(p.row(()), model("1/2,1/2,0").row(()))))
    return Finding(
        verdict(not any(distances)),
        {"largest distance": max(distances), "laws": len(distances),
         "largest acceptance": max(kept)},
        "Missing tokens come from the correction; only acceptance is lost.",
    )  # fmt: skip


CLAIMS = (
    Claim("eagle-lossless", EAGLE, "tree verification",
          "Trees of top-k drafts keep the output law.",
          Verdict.HOLDS, lossless,
          "specproof exact --target 1/2,1/3,1/6 --draft 1/6,1/3,1/2 --verifier point_mass "
          "--drafts 2"),
    Claim("eagle-soft-q", EAGLE, "public code",
          "Top-k drafts may be tested with the draft's softmax probabilities.",
          Verdict.FAILS, soft_probabilities),
    Claim("eagle-point-mass", EAGLE, "engines that pass no draft probabilities",
          "A sampled draft may be tested as if it were certain.",
          Verdict.HOLDS, sampled_as_certain),
    Claim("eagle-dynamic-tree", EAGLE2, "dynamic draft trees",
          "Keeping the nodes of highest confidence maximises the expected acceptance.",
          Verdict.CONDITIONAL, dynamic_tree),
    Claim("eagle-vocabulary", EAGLE, "reduced draft vocabulary",
          "A draft vocabulary smaller than the target's keeps the output law.",
          Verdict.HOLDS, small_vocabulary,
          "specproof exact --target 1/2,1/3,1/6 --draft 1/2,1/2,0 --verifier block --horizon 4"),
    speed_claim("eagle-speed", EAGLE, "abstract", "Up to 6.5x over plain decoding.",
                "The released drafters with their 8B to 70B targets and GPUs."),
)  # fmt: skip
