"""Texts generated in rounds: the true cost of a rule is its target calls.

The state of a text in progress is (prefix, place j in a block); the block that started at token n
drafts g = min(gamma, T - n - 1) tokens, its next token is a bonus from p, and every block costs
one call. A rule is a pair of flows at each state with j < g:

    kept(x)       mass accepted                     -> (prefix x, j + 1),   kept <= q
    corrected(x)  mass rejected and replaced by x   -> (prefix x, 0),       one more call

Classes of rules, each containing the one before:

    static   one weight w for all states:  kept = w min(p, q) + (1 - w) q, corrected = w (p - q)_+
    scalar   a weight for each state
    box      any law between p and q, maximal coupling: a weight for each state and token
    free     any flows with kept <= q and kept + corrected of mass 1

E R and calls are affine in the flows, so a price on calls is solved backwards (:func:`best`),
with hard weights that depend on the place:

    scalar: draft iff  sum (q - p)_+(x) val(prefix x, j+1) >= sum (p - q)_+(x) start(prefix x),

start = val(., 0) - price. Weights that maximise sum (1 - TV), as if acceptance were the cost, are
only a surrogate (``theory.pareto.texts``). Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from theory.fields import Array, Number, minimum, positive_part
from theory.inputs import whole
from theory.laws import total_variation
from theory.pareto.texts import Texts, Weights, fill

Kind = Literal["scalar", "box", "free"]

Flows = Callable[[int, int], tuple[Array, Array]]
"""``flows(t, j)``: kept and corrected mass [V**t, V] of every prefix of t tokens at place j."""


def drafted(texts: Texts, gamma: int, t: int, j: int) -> int | None:
    """Drafted tokens g of the block whose place j is token t; None where there is no such place."""
    start = t - j
    block = min(gamma, texts.length - start - 1)
    return block if start >= 0 and j <= block else None


@dataclass(frozen=True)
class Run:
    """What a rule does to texts.

    Attributes:
        law: [V**T], the law of the text.
        calls: expected target calls.
        reward: expected reward.
        distance: TV between ``law`` and the target's law.
    """

    law: Array
    calls: Number
    reward: Number
    distance: Number


def run(texts: Texts, gamma: int, flows: Flows) -> Run:
    """The exact text law and expected calls of a rule, forwards over (prefix, place).

    Raises:
        ValueError: gamma below 1.
    """
    gamma = whole(gamma, "gamma")
    zero = texts.field.zero
    mass: dict[tuple[int, int], Array] = {(0, 0): texts.field.array([1])}
    calls = zero
    for t in range(texts.length):
        for j in range(gamma + 1):
            if (t, j) not in mass:
                continue
            here, block = mass[t, j][:, None], drafted(texts, gamma, t, j)
            calls = calls + (here.sum() if j == 0 else zero)
            if j == block:
                moves = [((t + 1, 0), texts.target.levels[t])]
            else:
                kept, corrected = flows(t, j)
                moves = [((t + 1, j + 1), kept), ((t + 1, 0), corrected)]
            for (after, place), step in moves:
                state = after, 0 if after == texts.length else place
                mass[state] = mass.get(state, zero) + (here * step).reshape(-1)
    law = mass[texts.length, 0]
    return Run(law, calls, (law * texts.reward).sum(), total_variation(texts.truth(), law))


def weighted(texts: Texts, weights: Weights) -> Flows:
    """The flows of ensemble weights that ignore the place."""

    def flows(t: int, j: int) -> tuple[Array, Array]:
        p, q, w = texts.target.levels[t], texts.draft.levels[t], weights[t][:, None]
        return w * minimum(p, q) + (1 - w) * q, w * positive_part(p - q)

    return flows


def best(
    texts: Texts, gamma: int, price: Number | str, kind: Kind = "scalar"
) -> tuple[Number, Flows]:
    """max E R - price E calls over a class of rules, and a rule that attains it (backwards).

    Raises:
        ValueError: gamma below 1, or an unknown class.
    """
    gamma = whole(gamma, "gamma")
    if kind not in CHOICES:
        raise ValueError(f"class {kind!r} is unknown; choose one of {', '.join(CHOICES)}")
    lam, last = texts.field.number(price), texts.length
    values: dict[tuple[int, int], Array] = {(last, j): texts.reward for j in range(last + 1)}
    chosen: dict[tuple[int, int], tuple[Array, Array]] = {}
    for t in range(last - 1, -1, -1):
        p, q = texts.target.levels[t], texts.draft.levels[t]
        start = (values[t + 1, 0] - (lam if t + 1 < last else 0 * lam)).reshape(p.shape)
        for j in range(t + 1):
            block = drafted(texts, gamma, t, j)
            if block is None:
                continue
            if j == block:
                values[t, j] = (p * start).sum(-1)
                continue
            onward = values[t + 1, j + 1].reshape(p.shape)
            pairs = [CHOICES[kind](*rows) for rows in zip(p, q, onward, start, strict=True)]
            kept, corrected = (np.stack(part) for part in zip(*pairs, strict=True))
            chosen[t, j] = kept, corrected
            values[t, j] = (kept * onward + corrected * start).sum(-1)
    return values[0, 0][0] - lam, lambda t, j: chosen[t, j]


def _scalar(p: Array, q: Array, onward: Array, start: Array) -> tuple[Array, Array]:
    more, less = positive_part(q - p), positive_part(p - q)
    if (more * onward).sum() >= (less * start).sum():
        return q, 0 * q
    return minimum(p, q), less


def _box(p: Array, q: Array, onward: Array, start: Array) -> tuple[Array, Array]:
    worth, gap = np.where(q > p, onward, start), abs(p - q)
    extra = fill(worth, gap, positive_part(p - q).sum())
    return minimum(p, q) + np.where(q > p, extra, 0 * p), np.where(q > p, 0 * p, extra)


def _free(p: Array, q: Array, onward: Array, start: Array) -> tuple[Array, Array]:
    best_start = max(range(len(start)), key=lambda x: start[x])
    kept = np.where(onward >= start[best_start], q, 0 * q)
    corrected = 0 * q
    corrected[best_start] = (q - kept).sum()
    return kept, corrected


CHOICES: dict[str, Callable[[Array, Array, Array, Array], tuple[Array, Array]]] = {
    "scalar": _scalar,
    "box": _box,
    "free": _free,
}
"""The best flows at one state, by class, from the values of going on and of starting afresh."""
