"""Fixed windows and the two ceilings, exactly, on a chain of contexts.

* **Fixed**: E[tokens]/E[time] under the law of round starts, which depends on gamma (a bonus
  position skips a test), by linear algebra: gamma may be in the hundreds.
* **Visible**: the best rule that recognises a doomed token as soon as its block is drafted. Inside
  a round it then knows that everything so far survives, so a context is all it needs: a
  semi-Markov decision problem with two moves, stop or draft another block.
* **Oracle**: knows every run of acceptable tokens beforehand. Marks: let B_t = 1 with probability
  min(1, q/p)(Y_t) for target text Y; a round accepts exactly the run of B = 1 that it starts in,
  whatever the window, so the oracle only has to cut the text into the cheapest rounds, and every
  B = 0 ends one.

If a target call always costs 1, drafting always pays and c is the cost of a drafted token, these
are S_vis = 1/(1 - abar + c) and S_or = 1/(1 - abar (1 - c)) for ANY dependence, abar being the mean
overlap over target text. In general S_vis in this form is only what *always* drafting on earns: a
rule that stops before an unpromising row can beat it, and the visible ceiling here is larger.
Speeds are relative to one token per plain call. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from theory.fields import FLOAT, Array, Number
from theory.windows.chain import Chain
from theory.windows.costs import Costs
from theory.windows.renewal import Moves, identity, occupation, optimise, solve

TAIL = 1e-17
"""Share of runs, the longest ones, that a sum over run lengths leaves out."""

LONGEST = 2000
"""Longest run that is cut up by search; beyond it each block adds the same time."""


def fixed_speed(chain: Chain, costs: Costs, gamma: int) -> Number:
    """Speed of the fixed window ``gamma`` under token verification.

    Raises:
        ValueError: negative gamma.
    """
    if gamma < 0:
        raise ValueError(f"gamma {gamma} is negative; use 0 (no drafts) or more")
    return next(fixed_speeds(chain, costs, gamma, first=gamma))[1]


def fixed_speeds(
    chain: Chain, costs: Costs, most: int, first: int = 0
) -> Iterator[tuple[int, Number]]:
    """(gamma, speed) for the fixed windows ``first`` to ``most``."""
    accepted, rejected, plain = chain.accepted, chain.rejected, chain.plain
    power = identity(plain)
    ended = 0 * plain
    tokens = power.sum(axis=1)
    for gamma in range(most + 1):
        if gamma >= first:
            time = [costs.fixed(min(gamma, int(room))) for room in chain.room]
            share = occupation(ended + power @ plain, chain.text)
            yield gamma, share @ tokens / (share @ np.array(time)) * costs.call(0)
        ended = ended + power @ rejected
        power = power @ accepted
        tokens = tokens + power.sum(axis=1)


def visible_speed(chain: Chain, costs: Costs) -> Number:
    """Speed of the best rule that sees a doomed token once its block is drafted."""
    stop, draft = _visible_moves(chain, costs)
    can = np.tile(chain.room > 0, len(costs.calls))

    def respond(rate: Number, bias: Array) -> Moves:
        better = draft.worth(rate, bias) > stop.worth(rate, bias)
        return draft.where(can & np.asarray(better, dtype=bool), stop)

    rate, _ = optimise(respond, (stop, draft.where(can, stop)), stop)
    return rate * costs.call(0)


def _visible_moves(chain: Chain, costs: Costs) -> tuple[Moves, Moves]:
    """Stop and draft, from the states (drafted so far, up to the last step; context)."""
    width, phases, zero = len(chain.contexts), len(costs.calls), 0 * chain.plain
    size = width * phases
    one = identity(chain.plain).sum(axis=1)
    stop = Moves(np.tile(one, phases), _zeros(chain, size), _zeros(chain, (size, size)))
    draft = Moves(_zeros(chain, size), _zeros(chain, size), _zeros(chain, (size, size)))
    length = np.minimum(chain.room, costs.block)
    survived, died, tokens = identity(zero), zero, _zeros(chain, width)
    for depth in range(costs.block):
        going = (length > depth)[:, None]
        died = np.where(going, died + survived @ chain.rejected, died)
        tokens = np.where(going[:, 0], tokens + survived @ one, tokens)  # dead: its correction
        survived = np.where(going, survived @ chain.accepted, survived)
    dead = died.sum(axis=1)
    for phase in range(phases):
        rows = slice(phase * width, (phase + 1) * width)
        stop.time[rows] = costs.call(phase)
        stop.step[rows, :width] = chain.plain
        price = [costs.token * int(n) + costs.overhead for n in length]
        call = [costs.call(phase + int(n)) for n in length]
        draft.time[rows] = np.array(price) + dead * np.array(call)
        draft.tokens[rows] = tokens
        draft.step[rows, :width] = died
        for n in set(length.tolist()):
            later = min(phase + n, phases - 1) * width
            here = np.flatnonzero(length == n)
            draft.step[rows.start + here, later : later + width] += survived[here]
    return stop, draft


def _zeros(chain: Chain, shape: int | tuple[int, int]) -> Array:
    return chain.field.array(np.zeros(shape, dtype=int))


def oracle_speed(chain: Chain, costs: Costs) -> Number:
    """Speed of the clairvoyant cut of the text into rounds.

    Exact for a horizon, and on the long run for flat calls with blocks no dearer than a call;
    otherwise a float, exact to rounding.

    Raises:
        ValueError: nothing is ever rejected and drafts are free.
    """
    block = costs.token * costs.block + costs.overhead
    if not chain.endless:
        return _oracle_by_runs(chain, costs)
    if (chain.accepted.sum(axis=1) == 1).all():  # one endless run
        if block == 0:
            raise ValueError("no token is rejected and drafting is free: the speed is unbounded")
        return max(costs.call(0) * costs.block / block, chain.field.one)
    if not costs.flat or block > costs.call(0):
        return _oracle_by_runs(chain.to_float(), costs.to(FLOAT))
    start, runs = _run_starts(chain)
    step = np.linalg.matrix_power(chain.accepted, costs.block)
    blocks = start @ chain.accepted @ solve(identity(step) - step, identity(step).sum(axis=1))
    time = costs.call(0) + blocks * block
    return start @ runs.sum(axis=1) / time * costs.call(0)


def _run_starts(chain: Chain) -> tuple[Array, Array]:
    """The law of contexts in which runs start, and (I - A)^-1."""
    accepted = chain.accepted
    runs = solve(identity(accepted) - accepted, identity(accepted))
    return occupation(runs @ chain.rejected, chain.text), runs


def _oracle_by_runs(chain: Chain, costs: Costs) -> Number:
    start, runs = _run_starts(chain)
    time = chain.field.zero
    tail = TAIL if chain.field is FLOAT else 0
    accepted, ends = chain.accepted, chain.rejected.sum(axis=1)
    for room in np.unique(chain.room):
        here = np.where(chain.room == room, start, 0 * start)
        cuts = _cheapest_cuts(costs, int(room))
        while here.sum() > tail:
            time = time + (here @ ends) * next(cuts)
            here = here @ accepted
    return start @ runs.sum(axis=1) / time * costs.call(0)


def _cheapest_cuts(costs: Costs, room: int) -> Iterator[Number]:
    """The least time of a run of 0, 1, 2, ... accepted tokens and the one that ends it.

    A run of m positions is cut into rounds; one of n positions drafts n - 1 tokens, rounded up to
    blocks, but never more than the text still wants.
    """
    longest = min(LONGEST, room + 1)
    prices = np.array([costs.adaptive(k) for k in range(longest + costs.block)])
    best = np.array([costs.adaptive(0)] * (longest + 1))
    best[0] = 0 * best[0]
    for m in range(1, longest + 1):
        n = np.arange(1, m + 1)
        drafted = np.minimum(-(-(n - 1) // costs.block) * costs.block, room - m + n)
        best[m] = (prices[drafted] + best[m - n]).min()
        yield best[m]
    period = best[-costs.block - 1 :]  # one huge round, growing block by block
    for extra in count(1):
        turns, rest = divmod(extra - 1, costs.block)
        yield period[rest + 1] + (turns + 1) * (period[-1] - period[0])
