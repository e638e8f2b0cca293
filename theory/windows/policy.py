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
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from theory.fields import EXACT, FLOAT, Array, Number, divide, maximum, minimum, positive_part
from theory.windows.chain import Chain
from theory.windows.costs import Costs
from theory.windows.renewal import Moves, identity, optimise

Verifier = Literal["token", "block"]

STATES = {"exact": 6_000, "float": 100_000}
"""Path states, in total over depths and contexts, that :func:`optimum` expands, by field."""

COARSE = 1_000
"""Path states with which floats find a first policy, before they spend all."""

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


def optimum(chain: Chain, costs: Costs, cap: int = 64, verifier: Verifier = "token") -> Optimum:
    """The best stopping rule that knows all rows but no outcome.

    ``cap`` is lowered where path states would become too many (``STATES``), as they do beyond a few
    tokens of vocabulary; the speed is then a lower bound for longer windows. States from which
    drafting on is hopeless are not expanded.

    Raises:
        ValueError: a negative cap.
    """
    if cap < 0:
        raise ValueError(f"cap {cap} is negative; use 0 (no drafts) or more")
    rate, _, reached = _solve(chain, costs, cap, verifier, STATES[chain.field.name])
    return Optimum(rate * costs.call(0), reached)


def _solve(
    chain: Chain, costs: Costs, cap: int, verifier: Verifier, states: int
) -> tuple[Number, Array, int]:
    """Rate, bias, and the cap that was reached; begun where a cheaper search ends."""
    search = _Search(chain, costs, cap, verifier, states)
    ones = identity(chain.plain).sum(axis=1)
    plain = Moves(ones, ones * costs.call(0), chain.plain)
    first = plain
    if chain.field is EXACT:
        rate, bias, _ = _solve(chain.to_float(), costs.to(FLOAT), cap, verifier, states)
        first = search.respond(_rational(rate), np.array([_rational(value) for value in bias]))
    elif states > COARSE:
        rate, bias, _ = _solve(chain, costs, cap, verifier, COARSE)
        first = search.respond(rate, bias)
    rate, bias = optimise(search.respond, (plain,), first)
    return rate, bias, search.reached


def _rational(value: float) -> Number:
    return EXACT.number(Fraction(value).limit_denominator(10**9))


@dataclass(frozen=True)
class _Level:
    """The distinct (context, survival) states [n] at one depth of the paths from one context.

    Attributes:
        q: draft rows [n, V].
        gain: expected survival of the next token, sum_x q W'.
        stopped, corrected: mass by next context [n, C] of stopping here, and of a rejection next.
        open: whether drafting on is considered [n].
        child: state of the next level after each token [n, V]; -1 if dead or never drafted.
    """

    q: Array
    gain: Array
    stopped: Array
    corrected: Array
    open: NDArray[np.bool_]
    child: NDArray[np.intp]


class _Search:
    """Best stopping rules against a rate and a bias; ``reached`` is the cap of the latest."""

    def __init__(
        self, chain: Chain, costs: Costs, cap: int, verifier: Verifier, states: int
    ) -> None:
        self.reached = cap
        self._chain, self._costs, self._cap = chain, costs, cap
        self._budget = states // len(chain.contexts)
        self._split, self._prunes = SPLITS[verifier], verifier == "token"
        self._plain, self._accepted, self._rejected = chain.plain, chain.accepted, chain.rejected

    def respond(self, rate: Number, bias: Array) -> Moves:
        """The best moves from every context."""
        self.reached = self._cap
        hope = self._hope(rate, bias) if self._prunes else None
        chosen = []
        for start, room in enumerate(self._chain.room):
            limit = min(self._cap, int(room))
            levels = self._grow(start, limit, rate, hope)
            chosen.append(self._fold(levels, limit, rate, bias))
        return Moves(
            np.array([moves.tokens[0] + 1 for moves in chosen]),
            np.array([moves.time[0] for moves in chosen]),
            np.stack([moves.step[0] for moves in chosen]),
        )

    def _price(self, depth: int) -> Number:
        """Time of drafting the token after ``depth`` drafted ones."""
        starts = depth % self._costs.block == 0
        return self._costs.token + (self._costs.overhead if starts else 0)

    def _hope(self, rate: Number, bias: Array) -> list[Array]:
        """By depth, what drafting on gains over stopping if doom were seen at once [C].

        With survival W a rule that does not see it gains at most W times that, less the price of
        one token with probability 1 - W.
        """
        here, corrected = self._plain @ bias, self._rejected @ bias
        reject = self._rejected.sum(axis=1)
        value = here - rate * self._costs.call(self._cap)
        gains = []
        for depth in range(self._cap - 1, -1, -1):
            stop = here - rate * self._costs.call(depth)
            doomed = corrected - rate * self._costs.call(depth + 1) * reject
            go = doomed + self._accepted.sum(axis=1) + self._accepted @ value
            go = go - rate * self._price(depth)
            gains.append(go - stop)
            value = np.where(self._chain.room > 0, maximum(go, stop), stop)
        return gains[::-1]

    def _grow(self, start: int, limit: int, rate: Number, hope: list[Array] | None) -> list[_Level]:
        chain, block = self._chain, self._costs.block
        contexts, survival = np.array([start]), chain.field.array([1])
        levels: list[_Level] = []
        budget = self._budget
        for depth in range(limit + 1):
            if not len(contexts):
                break
            going = np.full(len(contexts), depth < limit)
            if hope is not None and depth % block == 0 and depth < limit:
                loss = (1 - survival) * (rate * self._costs.token)
                going = np.asarray(survival * hope[depth][contexts] > loss, dtype=bool)
            w, p, q = survival[:, None], chain.p[contexts], chain.q[contexts]
            rest, onward = self._split(w, p, q)
            following = chain.following[contexts]
            child, after, survival = _merge(chain, following, onward, (q != 0) & going[:, None])
            budget -= len(after)
            if budget < 0 and depth % block == 0:
                self.reached = min(self.reached, depth)
                going[:], child[:] = False, -1
                after = after[:0]
            stopped, corrected = w * self._plain[contexts], chain.scatter(rest, contexts)
            gain = (q * onward).sum(axis=1)
            levels.append(_Level(q, gain, stopped, corrected, going, child))
            contexts = after
        return levels

    def _fold(self, levels: list[_Level], limit: int, rate: Number, bias: Array) -> Moves:
        """The best moves of all states, level by level upwards; those of level 0 are returned."""
        best: Moves | None = None
        for depth in range(len(levels) - 1, -1, -1):
            level = levels[depth]
            nothing = 0 * level.gain
            stop = Moves(nothing, nothing + self._costs.call(depth), level.stopped)
            go = self._go(level, depth, limit, best)
            if depth % self._costs.block and depth < limit:
                best = go
            else:
                better = np.asarray(go.worth(rate, bias) > stop.worth(rate, bias), dtype=bool)
                best = go.where(level.open & better, stop)
        assert best is not None  # level 0 always exists
        return best

    def _go(self, level: _Level, depth: int, limit: int, below: Moves | None) -> Moves:
        """Draft one more token; ``below``: what the states of the next level do."""
        costs = self._costs
        end = min(-(-(depth + 1) // costs.block) * costs.block, limit)  # dead paths end the block
        dead = costs.call(end) + costs.token * (end - depth - 1)
        after = Moves(np.array([0 * dead]), np.array([dead]), 0 * level.stopped[:1])
        if below is not None:
            after = below.then(after)
        total = Moves(level.gain, 0 * level.gain + self._price(depth), level.corrected)
        for x in range(level.q.shape[1]):
            mass, child = level.q[:, x], level.child[:, x]  # -1 is the dead path, appended last
            total = Moves(
                total.tokens + mass * after.tokens[child],
                total.time + mass * after.time[child],
                total.step + mass[:, None] * after.step[child],
            )
        return total


def _merge(
    chain: Chain, following: NDArray[np.intp], onward: Array, wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """One state for each (context, survival) that lives on: children, contexts, survivals."""
    child = np.full(following.shape, -1, dtype=np.intp)
    alive = np.asarray(onward != 0, dtype=bool) & wanted
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
