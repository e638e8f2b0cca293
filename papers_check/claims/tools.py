"""What the checks of claims share: example rows, seeded models, verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.pairs import random_table
from theory.analysis import analyse
from theory.fields import to_fraction
from theory.generation import autoregressive, distance, generate
from theory.models import MarkovModel, Model, RowTree, TableModel
from theory.verifiers import load_program
from theory.windows import AdaptiveDecoder, Rule, Stopping

SUN = ("1/3,2/3", "2/3,1/3")
"""The two-token example of Sun et al. 2024."""
CROSSED = ("3/4,1/4", "1/4,3/4")
"""A target and a draft that prefer opposite tokens."""
THREE = ("0,1/2,1/2", "1/2,1/6,1/3")
"""Three tokens, one of which the target never emits."""


def verdict(holds: bool) -> Verdict:
    """HOLDS or FAILS."""
    return Verdict.HOLDS if holds else Verdict.FAILS


def model(row: str) -> MarkovModel:
    """The same row at every position."""
    return MarkovModel(row.split(","))


def seeded(
    count: int, vocab: int, depth: int, zeros: bool = True
) -> Iterator[tuple[TableModel, TableModel]]:
    """Pairs of seeded tables whose rows depend on the whole prefix, zeros among them."""
    for seed in range(count):
        yield random_table(vocab, depth, seed, zeros), random_table(vocab, depth, seed + 100, zeros)


def trees(target: Model, draft: Model, depth: int) -> tuple[RowTree, RowTree]:
    """The row trees of a pair."""
    return RowTree.of(target, depth), RowTree.of(draft, depth)


def row_trees(rows: tuple[str, str], depth: int) -> tuple[RowTree, RowTree]:
    """The row trees of a pair with the same row at every position."""
    return trees(model(rows[0]), model(rows[1]), depth)


def largest_distance(
    rule: str, vocab: int, gamma: int, drafts: int, horizon: int, models: int = 4, **params: Any
) -> Fraction:
    """The largest distance of a rule's output law to the target's, over seeded models."""
    return max(
        to_fraction(analyse(p, q, rule, gamma, drafts, horizon, **params).distance)
        for p, q in seeded(models, vocab, horizon)
    )


def adaptive_distance(
    rule: Rule, verifier: str, models: int = 4, horizon: int = 4, tell: bool = False
) -> Fraction:
    """The largest distance to the target with a window that ``rule`` ends, over seeded models."""
    distances = []
    for p, q in seeded(models, 2, horizon):
        decoder = AdaptiveDecoder(p, q, load_program(verifier), Stopping(rule), tell=tell)
        law = generate(decoder, horizon).tokens
        distances.append(to_fraction(distance(law, autoregressive(p, horizon))))
    return max(distances)


def speed_claim(name: str, paper: str, place: str, statement: str, needs: str) -> Claim:
    """A measurement that exact computation cannot repeat; ``needs``: what it would take."""
    return Claim(
        name,
        paper,
        place,
        statement,
        Verdict.UNCHECKABLE,
        lambda: Finding(Verdict.UNCHECKABLE, {}, needs),
    )
