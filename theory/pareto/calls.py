"""Frontiers against target calls: a flow program over (prefix, place).

Variables are the masses that rules move between the states of ``theory.pareto.rounds``; every
class of rules is a set of linear constraints on them, so the best E R, text TV or calls under
budgets on the others is one linear program (HiGHS, float64). Two facts that it shows:

* by calls, place-dependent weights beat every weight map of the prefix, and free rules beat both;
* free rules can be exactly lossless with FEWER calls than exact verification: over-accept at one
  alignment of a prefix with the block and over-correct at another. Inside the box this is
  impossible, because all deviations at a prefix have the sign of q - p and can not cancel. It
  needs the probabilities of reaching each alignment: a bound, not an algorithm.

Derived here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from theory.fields import Array, Number
from theory.inputs import whole
from theory.pareto.frontier import Frontier, Point
from theory.pareto.linear import Program, Terms, scaled, value
from theory.pareto.rounds import Flows, Kind, drafted, run, weighted
from theory.pareto.texts import Goal, Texts, distance_terms, static

Objective = Literal["reward", "tv", "calls"]

UNREACHED = 1e-12
"""Mass below which a state counts as never reached."""


@dataclass(frozen=True)
class Solution:
    """A rule found by the flow program.

    Attributes:
        calls, reward, distance: expected calls, expected reward, TV of the text law.
        flows: the rule, normalised state by state (exact verification where nothing arrives).
    """

    calls: float
    reward: float
    distance: float
    flows: Flows


class _FlowProgram:
    """Constraints of a class of rules, and the linear forms of what they do."""

    def __init__(self, texts: Texts, gamma: int, kind: Kind) -> None:
        self.texts, self.gamma, self.kind = texts, gamma, kind
        self.program = Program()
        self.calls: Terms = []
        self.moves: dict[tuple[int, int], list[tuple[int, list[Terms], list[Terms]]]] = {}
        self.rows = [
            (np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
            for p, q in zip(texts.target.levels, texts.draft.levels, strict=True)
        ]
        one = self.program.variables(1)[0]
        self.program.equal([(one, 1.0)], 1.0)
        self.arriving: dict[tuple[int, int, int], Terms] = {(0, 0, 0): [(one, 1.0)]}
        for t in range(texts.length):
            for j in range(min(t, gamma) + 1):
                self._states(t, j)
        self.reached: list[Terms] = [
            [term for j in range(gamma + 2) for term in self.arriving.get((texts.length, j, n), [])]
            for n in range(texts.vocab**texts.length)
        ]

    def _states(self, t: int, j: int) -> None:
        block = drafted(self.texts, self.gamma, t, j)
        if block is None:
            return
        self.moves[t, j] = []
        for n, (p, q) in enumerate(zip(*self.rows[t], strict=True)):
            y = self.program.variables(1)[0]
            incoming = self.arriving.get((t, j, n), [])
            self.program.equal([(y, 1.0), *scaled(incoming, -1.0)], 0.0)
            if j == 0:
                self.calls.append((y, 1.0))
            if j == block:
                self._send(t, 0, n, [[(y, float(mass))] for mass in p])
                continue
            kept, corrected = _CLASSES[self.kind](self.program, y, p, q)
            self._send(t, j + 1, n, kept)
            self._send(t, 0, n, corrected)
            self.moves[t, j].append((y, kept, corrected))

    def _send(self, t: int, j: int, n: int, parts: list[Terms]) -> None:
        for x, terms in enumerate(parts):
            state = (t + 1, j, n * self.texts.vocab + x)
            self.arriving.setdefault(state, []).extend(terms)

    def flows(self, solution: Array) -> Flows:
        """The rule at a solution."""

        def flows(t: int, j: int) -> tuple[Array, Array]:
            pairs = []
            for n, (y, kept, corrected) in enumerate(self.moves[t, j]):
                p, q = self.rows[t][0][n], self.rows[t][1][n]
                if solution[y] <= UNREACHED:
                    pairs.append((np.minimum(p, q), np.maximum(p - q, 0.0)))
                    continue
                parts = ([value(terms, solution) for terms in part] for part in (kept, corrected))
                pairs.append(tuple(np.array(part) / solution[y] for part in parts))
            kept_rows, corrected_rows = (np.stack(part) for part in zip(*pairs, strict=True))
            return kept_rows, corrected_rows

        return flows


def _scalar(program: Program, y: int, p: Array, q: Array) -> tuple[list[Terms], list[Terms]]:
    strict, handed = program.variables(2)
    program.equal([(strict, 1.0), (handed, 1.0), (y, -1.0)], 0.0)
    kept = [[(strict, float(min(a, b))), (handed, float(b))] for a, b in zip(p, q, strict=True)]
    return kept, [[(strict, float(max(a - b, 0.0)))] for a, b in zip(p, q, strict=True)]


def _box(program: Program, y: int, p: Array, q: Array) -> tuple[list[Terms], list[Terms]]:
    kept: list[Terms] = []
    corrected: list[Terms] = []
    for a, b in zip(p, q, strict=True):
        extra = program.variables(1)[0]  # mass beyond min(p, q), at most |p - q|
        program.at_most([(extra, 1.0), (y, -float(abs(a - b)))], 0.0)
        kept.append([(y, float(min(a, b))), *([(extra, 1.0)] if b > a else [])])
        corrected.append([] if b > a else [(extra, 1.0)])
    _conserve(program, y, kept, corrected)
    return kept, corrected


def _free(program: Program, y: int, p: Array, q: Array) -> tuple[list[Terms], list[Terms]]:
    accept, correct = program.variables(len(q)), program.variables(len(q))
    for x, mass in enumerate(q):
        program.at_most([(accept[x], 1.0), (y, -float(mass))], 0.0)
    kept: list[Terms] = [[(x, 1.0)] for x in accept]
    corrected: list[Terms] = [[(x, 1.0)] for x in correct]
    _conserve(program, y, kept, corrected)
    return kept, corrected


def _conserve(program: Program, y: int, *parts: list[Terms]) -> None:
    leaving = [term for part in parts for terms in part for term in terms]
    program.equal([*leaving, (y, -1.0)], 0.0)


_CLASSES = {"scalar": _scalar, "box": _box, "free": _free}


def solve(
    texts: Texts,
    gamma: int,
    kind: Kind,
    objective: Objective,
    calls: float | None = None,
    tv: float | None = None,
) -> Solution:
    """The best rule of a class: most reward, least text TV or fewest calls, within budgets.

    Args:
        calls: largest expected number of calls, or None.
        tv: largest TV between the text law and the target's, or None.

    Raises:
        ValueError: budgets that no rule meets, gamma below 1, or an unknown class.
    """
    gamma = whole(gamma, "gamma")
    if kind not in _CLASSES:
        raise ValueError(f"class {kind!r} is unknown; choose one of {', '.join(_CLASSES)}")
    flow = _FlowProgram(texts, gamma, kind)
    reward = [
        term
        for worth, terms in zip(texts.reward, flow.reached, strict=True)
        for term in scaled(terms, float(worth))
    ]
    distance = distance_terms(flow.program, texts, flow.reached)
    if calls is not None:
        flow.program.at_most(flow.calls, calls)
    if tv is not None:
        flow.program.at_most(distance, tv)
    goals: dict[str, Terms] = {"reward": scaled(reward, -1.0), "tv": distance, "calls": flow.calls}
    solution = flow.program.minimise(goals[objective])
    law = np.array([value(terms, solution) for terms in flow.reached])
    gap = np.maximum(law - np.asarray(texts.truth(), dtype=np.float64), 0.0).sum()
    return Solution(
        value(flow.calls, solution), value(reward, solution), float(gap), flow.flows(solution)
    )


def static_frontier(
    texts: Texts, gamma: int, weights: Iterable[Number | str], goal: Goal = "reward"
) -> Frontier:
    """The static ensemble against calls, exactly."""
    points = []
    for w in weights:
        found = run(texts, gamma, weighted(texts, static(texts, w)))
        quality = found.reward if goal == "reward" else found.distance
        points.append(Point(found.calls, quality, w, "static"))
    return Frontier("static", "calls", goal, tuple(points))


def calls_frontier(
    texts: Texts, gamma: int, kind: Kind, budgets: Iterable[float], goal: Goal = "reward"
) -> Frontier:
    """The best quality of a class of rules under each budget of expected calls."""
    points = []
    for budget in budgets:
        found = solve(texts, gamma, kind, goal, calls=budget)
        quality = found.reward if goal == "reward" else found.distance
        points.append(Point(found.calls, quality, budget, kind))
    return Frontier(kind, "calls", goal, tuple(points))
