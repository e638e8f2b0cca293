"""The best non-anticipating window on a chain of contexts.

Inside a round the state is the drafted path. Outcomes of the tests are not known while drafting,
but the probability W that all of the path survives is; it suffices, with the context and the
depth, so paths that agree on these are one state. With h the bias of contexts (what starting the
next round there is worth) and lambda the rate,

    val(path) = max{ -lambda call(k) + W E_p[h] ;
                     -lambda (c + d + e [block start])
                       + sum_y res(y) h(y) + sum_x q(x) [ W'(x) + val(path x) ] }

where token verification has W' = W min(1, p/q), res = W (p - q)_+, and block verification has
W' = min(1, W p/q), res = (W p - q)_+ (P(tau >= k | path) = W in both). Solved by
``renewal.optimise``. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from theory.fields import EXACT, FLOAT, Array, Number, divide, minimum, positive_part
from theory.windows.chain import Chain
from theory.windows.costs import Costs
from theory.windows.renewal import Moves, identity, optimise

Verifier = Literal["token", "block"]

STATES = {"exact": 4_000, "float": 100_000}
"""Path states of one context, in total over depths, that :func:`optimum` expands, by field."""

Split = Callable[[Array, Array, Array], tuple[Array, Array]]
"""``split(W, p, q)``: residual masses and survivals of the next tokens, both [n, V]."""


def _token(w: Array, p: Array, q: Array) -> tuple[Array, Array]:
    return w * positive_part(p - q), w * divide(minimum(p, q), q)


def _block(w: Array, p: Array, q: Array) -> tuple[Array, Array]:
    return positive_part(w * p - q), divide(minimum(w * p, q), q)


SPLITS: dict[str, Split] = {"token": _token, "block": _block}


@dataclass(frozen=True)
class Optimum:
    """The best rule with windows up to ``cap``; its speed is relative to one token per call."""

    speed: Number
    cap: int


@dataclass(frozen=True)
class _Level:
    """The distinct (context, survival) states [n] at one depth of the paths from one context.

    Attributes:
        survival: W.
        q: draft rows [n, V].
        gain: expected survival of the next token, sum_x q W'.
        stopped, corrected: mass by next context [n, C] of stopping here, and of a rejection next.
        child: state of the next level after each token [n, V]; -1 if dead or never drafted.
    """

    survival: Array
    q: Array
    gain: Array
    stopped: Array
    corrected: Array
    child: NDArray[np.intp]


def optimum(chain: Chain, costs: Costs, cap: int = 64, verifier: Verifier = "token") -> Optimum:
    """The best stopping rule that knows all rows but no outcome.

    ``cap`` is lowered where path states would become too many (``STATES``).

    Raises:
        ValueError: a negative cap.
    """
    if cap < 0:
        raise ValueError(f"cap {cap} is negative; use 0 (no drafts) or more")
    rate, cap, _ = _solve(chain, costs, cap, SPLITS[verifier])
    return Optimum(rate * costs.call(0), cap)


def _solve(chain: Chain, costs: Costs, cap: int, split: Split) -> tuple[Number, int, Array]:
    trees = [_grow(chain, start, cap, split) for start in range(len(chain.contexts))]
    cap = min(depth for _, depth in trees)
    respond = partial(_respond, chain, costs, [levels for levels, _ in trees], cap)
    ones = identity(chain.plain).sum(axis=1)
    plain = Moves(ones, ones * costs.call(0), chain.plain)
    first = plain
    if chain.field is EXACT:  # begin where floats end: few steps in rationals remain
        rate, _, bias = _solve(chain.to_float(), costs.to(FLOAT), cap, split)
        first = respond(_rational(rate), np.array([_rational(value) for value in bias]))
    rate, bias = optimise(respond, (plain,), first)
    return rate, cap, bias


def _rational(value: float) -> Number:
    return EXACT.number(Fraction(value).limit_denominator(10**9))


def _grow(chain: Chain, start: int, cap: int, split: Split) -> tuple[list[_Level], int]:
    """The levels below a context, and the largest window that they can serve."""
    contexts, survival = np.array([start]), chain.field.array([1])
    levels: list[_Level] = []
    budget = STATES[chain.field.name]
    limit = min(cap, int(chain.room[start]))
    plain = chain.plain
    for depth in range(limit + 1):
        budget -= len(contexts)
        if not len(contexts):
            break
        if budget < 0:
            return levels, depth - 1
        w, p, q = survival[:, None], chain.p[contexts], chain.q[contexts]
        rest, onward = split(w, p, q)
        stopped, corrected = w * plain[contexts], chain.scatter(rest, contexts)
        child, after, survival = _merge(chain, chain.following[contexts], onward, q)
        gain = (q * onward).sum(axis=1)
        levels.append(_Level(w[:, 0], q, gain, stopped, corrected, child))
        contexts = after
    return levels, cap


def _merge(
    chain: Chain, following: NDArray[np.intp], onward: Array, q: Array
) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """One state for each (context, survival) that lives on: children, contexts, survivals."""
    child = np.full(following.shape, -1, dtype=np.intp)
    alive = (onward != 0) & (q != 0)
    contexts, survivals = following[alive], onward[alive]
    if chain.field is FLOAT:  # equal up to rounding is equal
        keys = np.rint(np.log(survivals) * 1e12).astype(np.int64) * len(chain.contexts) + contexts
        _, first, child[alive] = np.unique(keys, return_index=True, return_inverse=True)
        return child, contexts[first], survivals[first]
    number: dict[tuple[int, Number], int] = {}
    pairs = zip(contexts.tolist(), survivals, strict=True)
    child[alive] = [number.setdefault(pair, len(number)) for pair in pairs]
    first = np.unique(child[alive], return_index=True)[1]
    return child, contexts[first], survivals[first]


def _respond(
    chain: Chain, costs: Costs, trees: list[list[_Level]], cap: int, rate: Number, bias: Array
) -> Moves:
    """The best stopping rule from every context, against a rate and a bias."""
    chosen = [
        _fold(costs, levels, min(cap, int(room)), rate, bias)
        for levels, room in zip(trees, chain.room, strict=True)
    ]
    return Moves(
        np.array([moves.tokens[0] + 1 for moves in chosen]),
        np.array([moves.time[0] for moves in chosen]),
        np.stack([moves.step[0] for moves in chosen]),
    )


def _fold(costs: Costs, levels: list[_Level], limit: int, rate: Number, bias: Array) -> Moves:
    """The best moves of all states, level by level upwards; those of level 0 are returned."""
    best: Moves | None = None
    for depth in range(min(limit, len(levels) - 1), -1, -1):
        level = levels[depth]
        nothing = 0 * level.survival
        stop = Moves(nothing, nothing + costs.call(depth), level.stopped)
        if depth == limit:
            best = stop
            continue
        go = _go(costs, level, depth, limit, best)
        if depth % costs.block:
            best = go
        else:
            better = np.asarray(go.worth(rate, bias) > stop.worth(rate, bias), dtype=bool)
            best = go.where(better, stop)
    assert best is not None  # level 0 always exists
    return best


def _go(costs: Costs, level: _Level, depth: int, limit: int, below: Moves | None) -> Moves:
    """Draft one more token from every state; ``below``: what the states of the next level do."""
    end = min(-(-(depth + 1) // costs.block) * costs.block, limit)  # a dead path ends its block
    dead = costs.call(end) + costs.token * (end - depth - 1)
    after = Moves(np.array([0 * dead]), np.array([dead]), 0 * level.stopped[:1])
    if below is not None:
        after = below.then(after)
    price = costs.token + (costs.overhead if depth % costs.block == 0 else 0)
    total = Moves(level.gain, 0 * level.gain + price, level.corrected)
    for x in range(level.q.shape[1]):
        mass, child = level.q[:, x], level.child[:, x]  # -1 is the dead path, appended last
        total = Moves(
            total.tokens + mass * after.tokens[child],
            total.time + mass * after.time[child],
            total.step + mass[:, None] * after.step[child],
        )
    return total
