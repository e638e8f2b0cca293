"""E[T_N]: expected target calls for N tokens, and tokens per call in the long run.

For a rule that judges position by position, with one correction law whatever token was refused,
all that matters in a context are three flows over the next token x:

    kept(x) = q acc        x was drafted and kept: the block goes on
    corrected(x)           x replaced a refused draft: a new block, a new call
    bonus(x)               x followed a fully kept block: a new block, a new call

With m tokens still to come and room for a more drafted ones in the block,

    calls_m = 1 + inside(m, min(gamma, m - 1)),     calls_0 = 0,
    inside(m, a) = kept inside(m - 1, a - 1) + corrected calls_{m-1}   (a > 0),
    inside(m, 0) = bonus calls_{m-1} ,

where the cap m - 1 is an engine's: a round never drafts more than it can emit beside its last
token. Stationary rate: T = sum_{j<gamma} kept^j corrected + kept^gamma bonus moves block starts,
pi T = pi, and tokens per call = sum_s pi(s) (1 + E[tau | s]) (Markov renewal-reward).

The token rule has kept = min(p, q), corrected = (p - q)_+, bonus = p; other rules are passed as
functions. For rules that judge whole blocks, ``long_run_rate`` takes T from enumerated rounds.

Derived here; calls = 1 + expected refusals for gamma >= N is Yin et al. 2024 (2411.00841).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.accepted_length.markov import MarkovPair, last
from theory.fields import FLOAT, Array, Number, field_of, is_zero, minimum, positive_part
from theory.generation import Decoder
from theory.inputs import whole
from theory.models import MarkovModel, Prefix, RowTree

Rule = Callable[[Array, Array], tuple[Array, Array]]
"""``rule(p, q)`` gives (kept, corrected), each like ``p``; together they sum to one."""


def token_rule(p: Array, q: Array) -> tuple[Array, Array]:
    """The flows of token verification."""
    return minimum(p, q), positive_part(p - q)


@dataclass(frozen=True)
class Flows:
    """The flows out of every state; ``successor[s, x]`` is the state that ``x`` leads to.

    Attributes:
        kept, corrected, bonus: [S, X].
        successor: [S, X] state indices (of the next level, in a tree).
    """

    kept: Array
    corrected: Array
    bonus: Array
    successor: NDArray[np.int64]

    def matrix(self, flow: Array) -> Array:
        """A flow as an [S, S] matrix."""
        square = np.full((len(flow), len(flow)), 0 * flow.flat[0], dtype=flow.dtype)
        for (s, x), mass in np.ndenumerate(flow):
            square[s, self.successor[s, x]] += mass
        return square


def markov_flows(target: MarkovModel, draft: MarkovModel, rule: Rule = token_rule) -> Flows:
    """The flows of a rule on Markov models; state 0 is the empty text."""
    pair = MarkovPair.of(target, draft)
    return Flows(*rule(pair.p, pair.q), pair.p, pair.successor)


def regime_flows(alphas: Array, transition: Array) -> Flows:
    """Acceptance ``alphas[s]`` in regime s, which moves on by ``transition`` with every token."""
    states = np.tile(np.arange(len(alphas)), (len(alphas), 1))
    kept = alphas[:, None] * transition
    return Flows(kept, transition - kept, transition, states)


def calls_by_state(flows: Flows, gamma: int, horizon: int) -> Array:
    """[S], expected calls for ``horizon`` tokens from every state."""
    ones = 0 * flows.kept.sum(axis=-1) + 1
    return _backward([flows] * (horizon - 1), ones, gamma, horizon)


def calls_over_tree(
    p_tree: RowTree, q_tree: RowTree, gamma: int, horizon: int, rule: Rule = token_rule
) -> Number:
    """Expected calls for ``horizon`` tokens on any pair of models, from their row trees.

    Raises:
        ValueError: trees of depth below ``horizon - 1`` (the last token needs no row).
    """
    if min(p_tree.depth, q_tree.depth) < horizon - 1:
        raise ValueError(f"row trees of depth {p_tree.depth} are too shallow for {horizon} tokens")
    levels = []
    for p, q in zip(p_tree.levels[: horizon - 1], q_tree.levels, strict=False):
        levels.append(Flows(*rule(p, q), p, np.arange(p.size).reshape(p.shape)))
    ones = p_tree.field.array([1] * p_tree.vocab ** (horizon - 1))
    return _backward(levels, ones, gamma, horizon)[0]


def calls_by_position(alphas: Sequence[Number], gamma: int, horizon: int) -> Number:
    """Expected calls if the token at output position t is kept with ``alphas[t]``, if verified.

    Only the first ``horizon - 1`` positions can be drafted.

    Raises:
        ValueError: fewer acceptances than that.
    """
    if not 0 < horizon <= len(alphas) + 1:
        raise ValueError(f"{len(alphas)} acceptances serve 1 to {len(alphas) + 1} tokens")
    one, here = np.array([[1 + 0 * alphas[0]]]), np.zeros((1, 1), dtype=np.int64)
    levels = [Flows(a * one, (1 - a) * one, one, here) for a in alphas[: horizon - 1]]
    return _backward(levels, one[0], gamma, horizon)[0]


def _backward(levels: list[Flows], ones: Array, gamma: int, horizon: int) -> Array:
    """Expected calls at the first level; ``ones``: one call for the one token after the last."""
    gamma, horizon = whole(gamma, "gamma"), whole(horizon, "horizon")
    calls, inside = ones, [0 * ones]  # inside: by the room left in the block
    for flows in reversed(levels):
        ahead = calls[flows.successor]
        refused = (flows.corrected * ahead).sum(axis=-1)
        room = min(gamma, len(inside))
        now = [(flows.bonus * ahead).sum(axis=-1)]
        for a in range(1, room + 1):
            now.append((flows.kept * inside[a - 1][flows.successor]).sum(axis=-1) + refused)
        inside = now
        calls = 1 + inside[-1]
    return calls


def block_chain(flows: Flows, gamma: int) -> tuple[Array, Array]:
    """T [S, S], the moves from block start to block start, and 1 + E[tau] [S]."""
    kept, corrected = flows.matrix(flows.kept), flows.matrix(flows.corrected)
    moves, tokens = flows.matrix(flows.bonus), 1 + 0 * kept.sum(axis=-1)
    for _ in range(gamma):  # Horner's rule, from the end of the block
        moves = corrected + kept @ moves
        tokens = 1 + kept @ tokens
    return moves, tokens


def stationary_rate(flows: Flows, gamma: int) -> Number:
    """Tokens per call in the long run.

    Raises:
        ValueError: several recurrent classes, so that the rate depends on the start.
    """
    moves, tokens = block_chain(flows, gamma)
    return (stationary(moves) * tokens).sum()


def stationary(moves: Array) -> Array:
    """[S], the law pi with pi T = pi, in the field of T.

    Raises:
        ValueError: several recurrent classes.
    """
    size = len(moves)
    system = np.array(moves).T - np.eye(size, dtype=int)
    system[-1] = 1 + 0 * system[-1]
    return _solve(system, [int(i == size - 1) for i in range(size)])


def _solve(system: Array, right: Sequence[Number]) -> Array:
    """Gauss-Jordan elimination with pivoting on the largest entry, in any field."""
    field = field_of(system)
    table = np.column_stack([system, field.array(right)])
    tiny = 1e-11 if field is FLOAT else 0
    for column in range(len(system)):
        pivot = max(range(column, len(system)), key=lambda row: abs(table[row, column]))
        if abs(table[pivot, column]) <= tiny:
            raise ValueError("the chain has several recurrent classes; its rate has no one value")
        table[[column, pivot]] = table[[pivot, column]]
        table[column] = table[column] / table[column, column]
        for row in range(len(system)):
            if row != column and not is_zero(table[row, column]):
                table[row] = table[row] - table[row, column] * table[column]
    return np.asarray(table[:, -1])


def long_run_rate(decoder: Decoder, gamma: int) -> Number:
    """Tokens per call in the long run of any stateless decoder on Markov models.

    Enumerates one full round after every context.

    Raises:
        ValueError: models that are not Markov models, a stateful rule, or a chain with several
            recurrent classes.
    """
    target, draft = decoder.target, decoder.draft
    pair = MarkovPair.of(target, draft)  # type: ignore[arg-type]
    order, zero = len(pair.contexts[-1]), 0 * pair.p[0, 0]
    moves = np.array([[zero] * len(pair.contexts)] * len(pair.contexts))
    tokens = np.array([zero] * len(pair.contexts))
    for s, context in enumerate(pair.contexts):
        for outcome, mass in decoder.round_law(context, (), gamma).items():
            if outcome.carry != ():
                raise ValueError("a rule that hands a carry on has no finite chain of contexts")
            end: Prefix = context
            for x in outcome.tokens:
                end = last(end, x, order)
            moves[s, pair.contexts.index(end)] += mass
            tokens[s] += mass * len(outcome.tokens)
    return (stationary(moves) * tokens).sum()
