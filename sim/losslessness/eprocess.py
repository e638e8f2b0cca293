"""The audit: a test martingale on the conditional law of each next token.

Under a correct engine every sampled token follows the target's processed row at its prefix, given
all that was sampled before. Each bet (``sim.losslessness.bets``) multiplies its capital by
b(x)/p(x); the audit holds a mixture of all of them, of capital 1 at the start. Its capital is the
e-value E: at every time, and at every data-dependent time of stopping,

    P(E ever reaches 1/level)  <=  level                         (Ville 1939),

so min(1, 1/max E) is a p-value at all times. Tokens of target probability zero are no matter of
evidence: one of them is proof, and is reported with its place.

``places`` also bets on single places of the round. That is right for rules under which a token's
law given its place is the target's (token, block, and multi-draft rules without state); a
stateful rule such as greedy block verification is lossless without having this property.

The capital is compared every ``step`` tokens, where the step grows with the sample. For each bet
the log capital is also kept by position, rank and round place: where the evidence comes from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from sim.losslessness import bets as betting
from sim.losslessness.bets import Bet, Round
from sim.losslessness.mean_tv import MeanTV
from sim.losslessness.memory import Memory
from sim.losslessness.observations import (
    EDGES,
    Floats,
    Ints,
    Summary,
    Tokens,
    mix,
    summarise,
)

LEVEL = 1e-9
"""Default false-alarm probability of an audit, whenever it is stopped."""
FIRST_STEP, STEP_SHARE = 64, 4
"""The step is the larger of the first and this share (one n-th) of the tokens seen."""
POSITIONS = tuple(2**k for k in range(12))
"""Lower edges, less one, of the bins of positions: 0, 1-2, 3-6, 7-14, ..."""
CURVE = 400
"""Points kept of the evidence against samples."""


@dataclass(frozen=True)
class Violation:
    """A sampled token that the target cannot emit there."""

    sequence: int
    position: int
    token: int


@dataclass
class Audit:
    """A running audit; feed it with :meth:`update`, read it at any time.

    Attributes:
        level: false-alarm probability.
        places: whether to bet on places of the round.
        tokens, sequences: what was seen.
        bets, capital: the bets and their log capital.
        evidence: log capital by category, [categories, bets].
        violations: impossible tokens.
        curve: (tokens, sequences, log E) along the way.
        largest: the largest log E so far.
        found_at: (tokens, sequences) when 1/level was first reached, or None.
    """

    level: float = LEVEL
    places: bool = False
    tokens: int = 0
    sequences: int = 0
    bets: tuple[Bet, ...] = ()
    capital: Floats = field(default_factory=lambda: np.zeros(0))
    evidence: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    seen: Floats = field(default_factory=lambda: np.zeros((len(categories()), 2)))
    violations: list[Violation] = field(default_factory=list)
    curve: list[tuple[int, int, float]] = field(default_factory=list)
    largest: float = 0.0
    found_at: tuple[int, int] | None = None
    memory: Memory = field(default_factory=Memory)
    placed: Memory = field(default_factory=Memory)
    mean_tv: MeanTV = field(default_factory=MeanTV)

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}; give a probability such as 1e-9")

    @property
    def prior(self) -> Floats:
        """The capital of each bet at the start."""
        draft = any(bet.family == "draft" for bet in self.bets)
        return betting.prior(draft, self.places)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories: the rows of ``evidence`` and ``seen``."""
        return categories()

    @property
    def log_e(self) -> float:
        """The log of the e-value."""
        if not self.bets:
            return 0.0
        return float(special.logsumexp(self.capital, b=self.prior))

    @property
    def found(self) -> bool:
        """Whether the engine is found not to be lossless."""
        return bool(self.violations) or self.found_at is not None

    def update(self, chunk: Tokens) -> None:
        """Add a chunk of tokens, in the order in which they were sampled.

        Raises:
            ValueError: tokens outside the vocabulary, rows that are no laws, or draft rows that
                come or go between chunks.
        """
        summary = summarise(chunk)
        self.add(summary, chunk)

    def add(self, summary: Summary, chunk: Tokens) -> None:
        """Add summarised tokens; ``chunk.log_rows`` is not read."""
        impossible = summary.p == 0
        for i in np.flatnonzero(impossible):
            place = int(chunk.sequence[i]), int(chunk.position[i])
            self.violations.append(Violation(*place, int(chunk.tokens[i])))
        kept = np.flatnonzero(~impossible)
        start = 0
        while start < len(kept):
            step = max(FIRST_STEP, self.tokens // STEP_SHARE)
            self._step(*_select(summary, chunk, kept[start : start + step]))
            start += step
        self.sequences = max(self.sequences, int(chunk.sequence.max(initial=-1)) + 1)

    def _step(self, summary: Summary, chunk: Tokens) -> None:
        where = Round(chunk.position, chunk.place, chunk.before)
        recalled = self.memory.recall(chunk.context, chunk.tokens)
        context = mix(mix(chunk.context, chunk.place + 1), chunk.before + 1)
        placed = self.placed.recall(context, chunk.tokens) if self.places else None
        values = betting.factors(summary, where, recalled, placed)
        bets = betting.bets(summary.likelihood is not None, self.places)
        if not self.bets:
            self.bets = bets
            self.capital = np.zeros(len(bets))
            self.evidence = np.zeros((len(categories()), len(bets)))
        if len(bets) != len(self.bets):
            raise ValueError("some chunks have draft rows and some have not; give them always")
        logs = np.log(np.maximum(values, 1e-300)) - summary.rounding
        member = membership(summary, where)
        self.capital = self.capital + logs.sum(axis=0)
        self.evidence = self.evidence + member.T @ logs
        self.seen = self.seen + _rank_counts(summary, member)
        self.memory.learn(chunk.context, chunk.tokens)
        if self.places:
            self.placed.learn(context, chunk.tokens)
        self.mean_tv.add(summary)
        self.tokens += len(logs)
        self.sequences = max(self.sequences, int(chunk.sequence[-1]) + 1)
        self._look()

    def _look(self) -> None:
        log_e = self.log_e
        self.largest = max(self.largest, log_e)
        if self.found_at is None and log_e >= -math.log(self.level):
            self.found_at = (self.tokens, self.sequences)
        self.curve.append((self.tokens, self.sequences, log_e))
        if len(self.curve) > CURVE:
            del self.curve[-2:0:-2]

    def leading(self) -> tuple[Bet, float]:
        """The bet with the largest share of the capital, and its log capital."""
        if not self.bets:
            return Bet("", ""), 0.0
        best = int(np.argmax(self.capital + np.log(self.prior)))
        return self.bets[best], float(self.capital[best])

    def by_category(self) -> Mapping[str, float]:
        """Log capital of the leading bet by position, rank and round place."""
        if not self.bets:
            return {}
        best = self.bets.index(self.leading()[0])
        found = self.evidence[:, best]
        return {name: float(x) for name, x in zip(categories(), found, strict=True) if x != 0}


def categories() -> tuple[str, ...]:
    """Names of the categories of evidence."""
    positions = [f"position {_range(low - 1, 2 * low - 1)}" for low in POSITIONS[:-1]]
    positions.append(f"position {POSITIONS[-1] - 1} on")
    edges = (0, *EDGES)
    ranks = [f"rank {_range(a + 1, b + 1)}" for a, b in zip(edges, EDGES, strict=False)]
    places = [f"place {name}" for name in betting.PLACES]
    return (*positions, *ranks, f"rank {EDGES[-1] + 1} on", *places)


def membership(summary: Summary, where: Round) -> Floats:
    """To which categories each token belongs, 0 or 1, [n, categories]."""
    edges = np.array((0, *EDGES))
    positions = np.searchsorted(POSITIONS, where.position + 1, side="right") - 1
    ranks = np.searchsorted(edges, summary.rank, side="right") - 1
    one_hot = (np.eye(len(POSITIONS))[positions], np.eye(len(edges))[ranks])
    places = np.stack([betting.at_place(where, name) for name in betting.PLACES], axis=1)
    return np.concatenate([*one_hot, places], axis=1)


def _range(low: int, high: int) -> str:
    return str(low) if high - low == 1 else f"{low}-{high - 1}"


def _rank_counts(summary: Summary, member: Floats) -> Floats:
    """Tokens of each category, and the tokens expected of each rank band, [categories, 2]."""
    edges = np.zeros((len(member), len(EDGES) + 2))
    edges[:, 1:-1], edges[:, -1] = summary.heads, 1.0
    bands = np.diff(edges, axis=1).sum(axis=0)
    counts = np.zeros((member.shape[1], 2))
    counts[:, 0] = member.sum(axis=0)
    first = len(POSITIONS)
    counts[first : first + len(EDGES) + 1, 1] = bands
    return counts


def _select(summary: Summary, chunk: Tokens, rows: Ints) -> tuple[Summary, Tokens]:
    def part(value: Any) -> Any:
        return value[rows] if isinstance(value, np.ndarray) else value

    fields = {name: part(getattr(chunk, name)) for name in chunk._fields[1:7]}
    return Summary(*map(part, summary)), Tokens(chunk.log_rows[:0], **fields)
