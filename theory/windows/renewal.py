"""Long-run rates of Markov renewal processes, in rationals or floats.

A process moves between states; a visit to state s earns ``tokens[s]``, takes ``time[s]`` and leads
to t with probability ``step[s, t]``. Its long-run speed is a ratio of two means under the law of
visited states (renewal reward). Choosing among several moves in each state, so as to maximise that
ratio, is a semi-Markov decision problem; :func:`optimise` solves it by Howard's iteration, which is
Dinkelbach's for the ratio: value a policy by its rate lambda and bias h,

    tokens - lambda time + step h = h ,

move wherever another choice makes the left side larger, and stop when none does. That last
condition is the Bellman equation, so the result is optimal, not only stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from theory.fields import FLOAT, Array, Number, Rational, field_of

TOLERANCE = 1e-13
"""Improvement below which a float policy counts as optimal, relative to the bias."""

ROUNDS = 500
"""Improvements of a policy before floats are taken to be running in circles (usual: below 20)."""

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Moves:
    """One chosen move per state: what it earns, takes, and where it leads.

    Attributes:
        tokens, time: shape [S].
        step: transition probabilities, shape [S, S].
    """

    tokens: Array
    time: Array
    step: Array

    def worth(self, rate: Number, bias: Array) -> Array:
        """tokens - lambda time + step h, per state."""
        return np.asarray(self.tokens - rate * self.time + self.step @ bias)

    def where(self, mask: NDArray[np.bool_], other: Moves) -> Moves:
        """These moves where ``mask`` holds, the others elsewhere."""
        return Moves(
            np.where(mask, self.tokens, other.tokens),
            np.where(mask, self.time, other.time),
            np.where(mask[:, None], self.step, other.step),
        )

    def then(self, other: Moves) -> Moves:
        """The moves of these states followed by those of others."""
        return Moves(
            np.concatenate([self.tokens, other.tokens]),
            np.concatenate([self.time, other.time]),
            np.concatenate([self.step, other.step]),
        )


def solve(matrix: Array, right: Array) -> Array:
    """The solution x of ``matrix x = right`` in the field of the matrix.

    Raises:
        ValueError: singular matrix.
    """
    try:
        if field_of(matrix) is FLOAT:
            return np.asarray(np.linalg.solve(matrix, right))
        return _solve_exact(matrix, right)
    except (np.linalg.LinAlgError, ZeroDivisionError, StopIteration) as error:
        raise ValueError("a linear system of the chain is singular") from error


def _solve_exact(matrix: Array, right: Array) -> Array:
    size = len(matrix)
    columns = right.reshape(size, -1)
    if Rational.__name__ == "fmpq":
        from flint import fmpq_mat

        a = fmpq_mat(size, size, [Rational(x) for x in matrix.flat])
        b = fmpq_mat(size, columns.shape[1], [Rational(x) for x in columns.flat])
        return np.array(a.solve(b).entries(), dtype=object).reshape(right.shape)
    work = np.concatenate([matrix, columns], axis=1)
    for i in range(size):
        pivot = next(j for j in range(i, size) if work[j, i] != 0)
        work[[i, pivot]] = work[[pivot, i]]
        work[i] = work[i] / work[i, i]
        for j in range(size):
            if j != i and work[j, i] != 0:
                work[j] = work[j] - work[j, i] * work[i]
    return work[:, size:].reshape(right.shape)


def identity(like: Array) -> Array:
    """The identity matrix of the size and field of ``like``."""
    return field_of(like).array(np.eye(len(like), dtype=int))


def recurrent_classes(step: Array) -> list[Indices]:
    """The closed communicating classes of a chain."""
    edges = np.asarray(step != 0, dtype=bool)
    count, label = connected_components(csr_array(edges), directed=True, connection="strong")
    leaves = np.unique(label[(edges & (label[:, None] != label[None, :])).any(axis=1)])
    return [np.flatnonzero(label == c) for c in range(count) if c not in leaves]


def stationary(step: Array) -> Array:
    """The stationary law of an irreducible chain."""
    size = len(step)
    system = (identity(step) - step).T
    system[-1] = field_of(step).one
    right = field_of(step).array([0] * (size - 1) + [1])
    return solve(system, right)


def occupation(step: Array, start: Array) -> Array:
    """The long-run share of visits to each state, from a law of starts.

    Several closed classes are weighted by the probability of ending up in them.
    """
    field = field_of(step)
    classes = recurrent_classes(step)
    share = field.array([0] * len(step))
    transient = np.setdiff1d(np.arange(len(step)), np.concatenate(classes))
    inner = step[np.ix_(transient, transient)]
    for members in classes:
        mass = start[members].sum()
        if len(transient) and (start[transient] != 0).any():
            into = step[np.ix_(transient, members)].sum(axis=1)
            mass = mass + start[transient] @ solve(identity(inner) - inner, into)
        share[members] = mass * stationary(step[np.ix_(members, members)])
    return share


def optimise(
    respond: Callable[[Number, Array], Moves], options: Sequence[Moves], first: Moves
) -> tuple[Number, Array]:
    """The best long-run rate over all policies, and its bias.

    Args:
        respond: the best moves against a rate and a bias.
        options: moves that together let every state reach every recurrent one; they lead states
            that a policy cuts off to its best closed class.
        first: the policy to begin with.

    Raises:
        ValueError: states that cannot reach each other; or a policy takes no time at all.
        ArithmeticError: floats do not settle.
    """
    moves = first
    for _ in range(ROUNDS):
        moves, rate, bias = _value(moves, options)
        better = respond(rate, bias)
        gain = better.worth(rate, bias) - bias
        slack = TOLERANCE * (1 + np.abs(bias).max()) if field_of(bias) is FLOAT else 0
        improved = np.asarray(gain > slack, dtype=bool)
        if not improved.any():
            return rate, bias
        moves = better.where(improved, moves)
    raise ArithmeticError("floats are too coarse to settle on a best policy; use rationals")


def _value(moves: Moves, options: Sequence[Moves]) -> tuple[Moves, Number, Array]:
    """Rate and bias of a policy, after leading every state to its best closed class."""
    best, rate = max(
        ((members, _rate(moves, members)) for members in recurrent_classes(moves.step)),
        key=lambda pair: pair[1],
    )
    while not (reaching := _reaching(moves.step, best[0])).all():
        for option in options:
            leads = ~reaching & np.asarray(option.step[:, reaching] != 0, dtype=bool).any(axis=1)
            if leads.any():
                moves = option.where(leads, moves)
                break
        else:
            raise ValueError("some contexts cannot reach the others; analyse them by themselves")
    system = identity(moves.step) - moves.step
    system[best[0]] = 0 * system[best[0]]
    system[best[0], best[0]] = field_of(moves.step).one
    right = moves.tokens - rate * moves.time
    right[best[0]] = field_of(moves.step).zero
    return moves, rate, solve(system, right)


def _reaching(step: Array, goal: int) -> NDArray[np.bool_]:
    """The states from which ``goal`` can be reached."""
    backward = csr_array(np.asarray(step != 0, dtype=bool).T)
    mask = np.zeros(len(step), dtype=bool)
    mask[breadth_first_order(backward, goal, return_predecessors=False)] = True
    return mask


def _rate(moves: Moves, members: Indices) -> Number:
    law = stationary(moves.step[np.ix_(members, members)])
    time = law @ moves.time[members]
    if time == 0:
        raise ValueError("a policy emits tokens in no time; give drafting a positive cost")
    return law @ moves.tokens[members] / time
