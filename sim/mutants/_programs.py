"""The same faults of the token rule as exact programs (``theory.effects``).

Array and program are written apart from each other, so that the simulated law of a mutant can be
held against its exact one. Slots as in ``theory.verifiers.token``; a uniform that a fault uses
twice is read once, and what its second use draws is a law given the first.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from theory.effects import Effects
from theory.fields import FLOAT, Array, Number, field_of, maximum, minimum, positive_part
from theory.laws import normalise, point_mass, residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round

HALF_EPSILON = Fraction(1, 1024)
"""The relative precision of 16-bit floats, as a "tiny" number to clamp to."""
COIN_BITS = 8
"""Bits of a uniform drawn in bfloat16."""
CONFIDENCE = Fraction(1, 5)
"""Drafted tokens below this probability are dropped."""

Rule = Callable[[Effects, Rows, Rows, tuple[Prefix, ...], Carry], Round]
"""A verification program without parameters."""
Accept = Callable[[Array, Array, int], Number]
"""(p, q, drafted token) -> probability of keeping it."""
Correct = Callable[[Array, Array, int, Number], Array]
"""(p, q, rejected token, its acceptance probability) -> law of the correction."""


def ratio(p: Array, q: Array, x: int) -> Number:
    return minimum(1, p[x] / q[x])


def exact_residual(p: Array, q: Array, x: int, h: Number) -> Array:
    return residual(p, q)


def token_program(
    accept: Accept = ratio,
    correct: Correct = exact_residual,
    bonus: Callable[[Array, Array], Array] = lambda p, q: p,
    cut: Callable[[Rows, Prefix], int] = lambda draft, path: len(path),
) -> Rule:
    """Token verification with parts replaced.

    Args:
        bonus: (p, last draft row) -> law after full acceptance.
        cut: how many of the drafted tokens are verified.
    """

    def program(
        fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry
    ) -> Round:
        path = drafts[0]
        path = path[: cut(draft, path)]
        for i, x in enumerate(path):
            p, q = target(path[:i]), draft(path[:i])
            h = accept(p, q, x)
            if not fx.flip(h, i):
                return Round(i, (*path[:i], fx.choose(correct(p, q, x, h), len(path))))
        law = target(path)
        if path:
            law = bonus(law, draft(path[:-1]))
        return Round(len(path), (*path, fx.choose(law, len(path))))

    return program


def on_rows(
    program: Rule,
    target: Callable[[Array], Array] | None = None,
    draft: Callable[[Array], Array] | None = None,
) -> Rule:
    """A program that reads other rows than it should."""

    def wrapped(fx: Effects, p: Rows, q: Rows, drafts: tuple[Prefix, ...], carry: Carry) -> Round:
        seen_p: Rows = p if target is None else (lambda path: target(p(path)))
        seen_q: Rows = q if draft is None else (lambda path: draft(q(path)))
        return program(fx, seen_p, seen_q, drafts, carry)

    return wrapped


def softmax_of_residual(p: Array, q: Array, x: int, h: Number) -> Array:
    weights = np.exp(np.asarray(positive_part(p - q), dtype=np.float64))
    return np.asarray(weights / weights.sum())


def subtract_at_index(p: Array, q: Array, x: int, h: Number) -> Array:
    weights = p.copy()
    weights[x] = positive_part(p[x] - q[x])
    return normalise(weights, fallback=p)


def without_rejected(p: Array, q: Array, x: int, h: Number) -> Array:
    weights = p.copy()
    weights[x] = weights[x] * 0
    return normalise(weights, fallback=p)


def image(law: Array, low: Number, high: Number) -> Array:
    """What a uniform of [low, high) draws from ``law`` by inverse CDF."""
    ends = np.cumsum(law)
    starts = ends - law
    return normalise(positive_part(minimum(ends, high) - maximum(starts, low)), fallback=law)


def from_rejecting_coin(p: Array, q: Array, x: int, h: Number) -> Array:
    return image(residual(p, q), h, field_of(p).one)


def bucket(q: Array, x: int) -> tuple[Number, Number]:
    """The uniforms that draw x from q."""
    high = np.cumsum(q)[x]
    return high - q[x], high


def coin_of_draft(p: Array, q: Array, x: int) -> Number:
    low, high = bucket(q, x)
    return (minimum(high, maximum(low, ratio(p, q, x))) - low) / q[x]


def from_draft_noise(p: Array, q: Array, x: int, h: Number) -> Array:
    return image(residual(p, q), *bucket(q, x))


def clamped_residual(p: Array, q: Array, x: int, h: Number) -> Array:
    return normalise(maximum(p - q, field_of(p).number(HALF_EPSILON)))


def coarse_closed_coin(p: Array, q: Array, x: int) -> Number:
    """P(floor(2^b u)/2^b <= h)."""
    h, grid = ratio(p, q, x), 2**COIN_BITS
    steps = int(grid * h) if field_of(p) is FLOAT else int(grid * Fraction(str(h)))
    return field_of(p).number(Fraction(min(steps + 1, grid), grid))


def corrupted_ratio(p: Array, q: Array, x: int) -> Number:
    return minimum(1, positive_part(p[x] - q[x]) / q[x])


def half_ensemble_ratio(p: Array, q: Array, x: int) -> Number:
    return minimum(1, (1 + p[x] / q[x]) / 2)


def until_unsure(draft: Rows, path: Prefix) -> int:
    for i, x in enumerate(path):
        q = draft(path[:i])
        if q[x] < field_of(q).number(CONFIDENCE):
            return i
    return len(path)


def softened_row(q: Array) -> Array:
    number = field_of(q).number
    return np.asarray(number("3/5") * q + number(Fraction(2, 5 * len(q))))


def square_root_row(p: Array) -> Array:
    root = np.sqrt(np.asarray(p, dtype=np.float64))
    return np.asarray(root / root.sum())


def argmax_row(p: Array) -> Array:
    return point_mass(int(np.argmax(p)), len(p), field_of(p))


def argmax_at_drafts(program: Rule, gamma: int) -> Rule:
    """All rows but that after gamma drafted tokens are read as point masses at their argmax."""

    def wrapped(fx: Effects, p: Rows, q: Rows, drafts: tuple[Prefix, ...], carry: Carry) -> Round:
        def seen(path: Prefix) -> Array:
            return argmax_row(p(path)) if len(path) < gamma else p(path)

        return program(fx, seen, q, drafts, carry)

    return wrapped


def ends_only_at_last(program: Rule, eos: int) -> Rule:
    """An end of sequence inside a block is overlooked; after one at its end only it follows."""

    def wrapped(fx: Effects, p: Rows, q: Rows, drafts: tuple[Prefix, ...], carry: Carry) -> Round:
        if carry is True:
            return Round(0, (eos,), True)
        done = program(fx, p, q, drafts, ())
        return Round(done.accepted, done.tokens, True if done.tokens[-1] == eos else ())

    return wrapped
