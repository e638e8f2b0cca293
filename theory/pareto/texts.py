"""The trade-off over whole texts: DIVERSED's own objective, exactly.

A weight map w(prefix) makes a text of T tokens follow nu = w p + (1 - w) q at each prefix. The
objective E[R + lam sum_t (1 - TV(q, nu))] is a decision process whose stage return 1 - w TV(p, q)
and transition are AFFINE in w, so some optimum has w in {0, 1} everywhere: with values val,

    choose p iff  sum_x (p - q)(x) val(prefix x) > lam TV(p, q)        (:func:`best_weights`).

The frontier of (E sum acceptance, E R) is the occupancy program over y = u + v, u = y w,
v = y (1 - w); an optimal vertex has at most ONE soft prefix, 0 < w < 1 (:func:`occupancy`).
With the total variation of the text laws as quality the program is linear as well, but with one
variable a text, and more prefixes are soft.

Weights for every token instead of every prefix (any nu in the box between p and q) keep the
one-step TV trade-off and are filled greedily by val(prefix x) + lam [q > p] (:func:`best_box`).

Source: the objective of DIVERSED (arXiv 2604.07622); the reduction is derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from theory.fields import Array, Field, Number, minimum, positive_part
from theory.laws import total_variation
from theory.models import Model, Prefix, RowTree, check_pair, prefixes
from theory.pareto.frontier import Frontier, Point
from theory.pareto.linear import Program, Terms, scaled, value

Weights = tuple[Array, ...]
"""A weight for every prefix: level t has shape [V**t], in the order of ``RowTree``."""

Goal = Literal["reward", "tv"]

SOFT = 1e-9
"""A float weight this close to 0 or 1 counts as hard."""


@dataclass(frozen=True)
class Texts:
    """Texts of T tokens and what they are worth.

    Attributes:
        target, draft: row trees of depth T.
        reward: [V**T], by text in the order of ``RowTree``.
    """

    target: RowTree
    draft: RowTree
    reward: Array

    @staticmethod
    def of(target: Model, draft: Model, length: int, reward: Callable[[Prefix], Number]) -> Texts:
        """Tabulate two models and a reward of texts of ``length`` tokens."""
        check_pair(target, draft)
        values = [reward(text) for text in prefixes(target.vocab, length)]
        trees = RowTree.of(target, length), RowTree.of(draft, length)
        return Texts(*trees, target.field.array(values))

    @property
    def length(self) -> int:
        return self.target.depth

    @property
    def vocab(self) -> int:
        return self.target.vocab

    @property
    def field(self) -> Field:
        return self.target.field

    def law(self, rows: Iterable[Array]) -> Array:
        """[V**T], the law of the text when level t follows ``rows[t]``, shape [V**t, V]."""
        mass = self.field.array([1])
        for row in rows:
            mass = (mass[:, None] * row).reshape(-1)
        return mass

    def truth(self) -> Array:
        """[V**T], the target's law of the text."""
        return self.law(self.target.levels)


def static(texts: Texts, w: Number | str) -> Weights:
    """The same weight at every prefix."""
    weight = texts.field.number(w)
    return tuple(texts.field.array([0] * len(level)) + weight for level in texts.target.levels)


def mixed_rows(texts: Texts, weights: Weights) -> tuple[Array, ...]:
    """nu = w p + (1 - w) q, level by level."""
    levels = zip(weights, texts.target.levels, texts.draft.levels, strict=True)
    return tuple(w[:, None] * p + (1 - w[:, None]) * q for w, p, q in levels)


def evaluate(texts: Texts, weights: Weights) -> Point:
    """(E sum of acceptances over the T positions, E R) of a weight map."""
    law, mass = mixed_rows(texts, weights), texts.field.array([1])
    accepted = texts.field.zero
    for level, row in enumerate(law):
        gap = total_variation(texts.target.levels[level], texts.draft.levels[level])
        accepted = accepted + (mass * (1 - weights[level] * gap)).sum()
        mass = (mass[:, None] * row).reshape(-1)
    return Point(accepted, (mass * texts.reward).sum(), None, "ensemble")


def text_distance(texts: Texts, weights: Weights) -> Number:
    """TV between the text law of a weight map and the target's."""
    return total_variation(texts.truth(), texts.law(mixed_rows(texts, weights)))


def best_weights(texts: Texts, price: Number | str) -> tuple[Weights, Number]:
    """Hard weights that maximise E R + price E sum acceptance, and that maximum (backwards)."""
    lam = texts.field.number(price)
    below, weights = texts.reward, []
    for p, q in zip(texts.target.levels[::-1], texts.draft.levels[::-1], strict=True):
        worth = below.reshape(p.shape)
        kept, handed = (p * worth).sum(-1) - lam * total_variation(p, q), (q * worth).sum(-1)
        weights.append(texts.field.array((kept > handed).astype(int)))
        below = lam + np.where(kept > handed, kept, handed)
    return tuple(weights[::-1]), below[0]


def best_box(texts: Texts, price: Number | str) -> Number:
    """The same maximum over all laws between p and q at every token."""
    lam = texts.field.number(price)
    below = texts.reward
    for p, q in zip(texts.target.levels[::-1], texts.draft.levels[::-1], strict=True):
        worth = below.reshape(p.shape)
        bonus = worth + np.where(q > p, lam, 0 * lam)
        shared = minimum(p, q)
        # the shared mass is always emitted and accepted; the rest fills the gaps |p - q|
        always = (shared * worth).sum(-1) + lam * shared.sum(-1)
        rows = zip(bonus, abs(p - q), positive_part(p - q).sum(-1), strict=True)
        below = always + (bonus * np.stack([fill(*row) for row in rows])).sum(-1)
    return below[0]


def fill(worth: Array, room: Array, mass: Number) -> Array:
    """How ``mass`` earns most when token x takes at most ``room[x]`` at ``worth[x]`` a unit."""
    taken = 0 * room
    for x in sorted(range(len(worth)), key=lambda x: -worth[x]):
        taken[x] = min(room[x], mass)
        mass = mass - taken[x]
    return taken


@dataclass(frozen=True)
class Plan:
    """A weight map found by the occupancy program.

    Attributes:
        weights: w by prefix; 1 where the prefix is never reached.
        point: expected sum of acceptances, and expected reward or text TV.
        soft: number of reached prefixes with 0 < w < 1.
    """

    weights: Weights
    point: Point
    soft: int


def occupancy(texts: Texts, acceptance: float, goal: Goal = "reward") -> Plan:
    """The weight map of most reward (or least text TV) that accepts at least ``acceptance``.

    Raises:
        ValueError: more acceptance than T, which no map reaches.
    """
    program, accepted = Program(), Terms()
    reached: list[Terms] = []
    pairs: list[list[tuple[int, int]]] = []
    for level in range(texts.length):
        p, q = (np.asarray(tree.levels[level], dtype=np.float64) for tree in _trees(texts))
        gap, pairs_here, below = total_variation(p, q), [], list[Terms]()
        for n in range(len(p)):
            u, v = program.variables(2)
            if level == 0:
                program.equal([(u, 1.0), (v, 1.0)], 1.0)
            else:
                program.equal([(u, 1.0), (v, 1.0), *scaled(reached[n], -1.0)], 0.0)
            accepted += [(u, 1.0 - float(gap[n])), (v, 1.0)]
            below += [[(u, float(a)), (v, float(b))] for a, b in zip(p[n], q[n], strict=True)]
            pairs_here.append((u, v))
        pairs.append(pairs_here)
        reached = below
    program.at_least(accepted, acceptance)
    objective, sign = text_objective(program, texts, reached, goal)
    solution = program.minimise(objective)
    weights, soft = [], 0
    for level_pairs in pairs:
        flows = np.array([(solution[u], solution[v]) for u, v in level_pairs])
        total = flows.sum(-1)
        w = np.divide(flows[:, 0], total, out=np.ones(len(flows)), where=total > SOFT)
        soft += int(((w > SOFT) & (w < 1 - SOFT) & (total > SOFT)).sum())
        weights.append(w)
    point = Point(
        value(accepted, solution), sign * value(objective, solution), None, "dynamic ensemble"
    )
    return Plan(tuple(weights), point, soft)


def text_objective(
    program: Program, texts: Texts, reached: Sequence[Terms], goal: Goal
) -> tuple[Terms, float]:
    """What to minimise, and the sign that turns it into the quality: - E R, or the text TV."""
    if goal == "reward":
        worth = [float(r) for r in texts.reward]
        return [t for r, terms in zip(worth, reached, strict=True) for t in scaled(terms, -r)], -1.0
    return distance_terms(program, texts, reached), 1.0


def distance_terms(program: Program, texts: Texts, reached: Sequence[Terms]) -> Terms:
    """The text TV as a linear form: one variable a text, at least N - P there."""
    excess = program.variables(len(reached))
    for e, terms, mass in zip(excess, reached, texts.truth(), strict=True):
        program.at_most([*terms, (e, -1.0)], float(mass))
    return [(e, 1.0) for e in excess]


def _trees(texts: Texts) -> tuple[RowTree, RowTree]:
    return texts.target, texts.draft


def static_frontier(texts: Texts, weights: Iterable[Number | str], goal: Goal) -> Frontier:
    """The curve of the static ensemble."""
    points = []
    for w in weights:
        point, settings = evaluate(texts, static(texts, w)), static(texts, w)
        quality = point.quality if goal == "reward" else text_distance(texts, settings)
        points.append(Point(point.acceptance, quality, w, "ensemble"))
    return Frontier("ensemble", "acceptance", goal, tuple(points))


def dynamic_frontier(texts: Texts, acceptances: Iterable[float], goal: Goal) -> Frontier:
    """The curve of the best weight maps."""
    points = tuple(occupancy(texts, acceptance, goal).point for acceptance in acceptances)
    return Frontier("dynamic ensemble", "acceptance", goal, points)
