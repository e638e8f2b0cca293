"""K-SEQ (SpecTr): K i.i.d. drafts tested one after the other, the first accepted wins.

Rule (Sun et al. 2023, "SpecTr", Algorithm 3), at a position with k surviving drafts:

    beta(rho) = sum_x min(q(x), p(x)/rho),   phi_k(b) = 1 - (1-b)^k,   G = phi_k(beta)/beta
    rho = the smallest value of [1, k] with phi_k(beta(rho)) <= rho beta(rho), rounded up
    for every survivor in index order: accept x with probability min(1, p(x)/(rho q(x)))
    none accepted: emit from norm(p - min(q, p/rho) G)

The survivors of the next position are all drafts that continue with the accepted token, copies
that were tested and failed included. Every rho at or above the root is exactly lossless, a lower
one leaves a negative residual, so the bisection returns its upper end; rho depends on k and is
found anew at every position. With k = 1 the rule is token verification.

Slots: i*K + k tests draft k at position i+1 (k counts the original drafts); g*K draws the
emitted token. ``branch`` is the draft accepted last (0 if none); rows are read from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import device

from sim.verifiers._checks import check_inputs
from sim.verifiers._common import (
    Array,
    Round,
    Verdict,
    columns,
    draw_or_target,
    log_divide,
    open_round,
    probability,
    total,
)

Solve = Callable[[Any, Array, Array, Array], Array]

HALVINGS = 60
"""Bisection steps: below one unit in the last place for every practical k."""
SLACK = 2.0**-48
"""Sixteen units in the last place: rows that are equal up to rounding get rho = 1.

At p = q the root 1 has multiplicity k, so without it rounding alone would move rho by eps^(1/k).
"""


def slots(gamma: int, num_drafts: int) -> int:
    """Uniforms of one round."""
    return gamma * num_drafts + 1


def at_least_one(xp: Any, beta: Array, count: Array) -> Array:
    """phi_k(beta) = 1 - (1-beta)^k, accurate for small beta."""
    below = beta < 1.0
    log_miss = xp.log1p(-xp.where(below, beta, 0.0))
    return xp.where(below, -xp.expm1(count * log_miss), 1.0)


def smallest_rho(xp: Any, p: Array, q: Array, count: Array) -> Array:
    """The smallest valid rho of every request [B], rounded up.

    Args:
        p, q: float64 rows [B, V]. count: [B] number of surviving drafts, float64, at least 1.
    """
    p, q = _vocabulary_first(xp, p), _vocabulary_first(xp, q)
    low, high = xp.ones_like(count), count
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        beta = xp.clip(xp.sum(xp.minimum(q, p / middle), axis=0), None, 1.0)
        valid = at_least_one(xp, beta, count) <= middle * beta + SLACK
        low, high = xp.where(valid, low, middle), xp.where(valid, middle, high)
    return high


def _vocabulary_first(xp: Any, rows: Array) -> Array:
    """A contiguous [V, B] copy of [B, V]: sums over a short vocabulary are then fast."""
    flat = xp.reshape(xp.permute_dims(rows, (1, 0)), (-1,))
    return xp.reshape(flat, (rows.shape[1], rows.shape[0]))


def rho_of(xp: Any, p: Array, q: Array, count: Array) -> Array:
    """``smallest_rho`` where several drafts survive, 1 elsewhere, [B]."""
    several = count > 1
    rho = xp.ones_like(count)
    rho[several] = smallest_rho(xp, p[several], q[several], count[several])
    return rho


def leftover(xp: Any, p: Array, q: Array, rho: Array, count: Array) -> Array:
    """Unnormalised law p - min(q, p/rho) G after all k survivors failed, [B, V]."""
    beta = xp.clip(total(xp, xp.minimum(q, p / rho[:, None])), None, 1.0)
    gain = at_least_one(xp, beta, count) / xp.where(beta > 0, beta, 1.0)
    return xp.clip(p - xp.minimum(q, p / rho[:, None]) * gain[:, None], 0.0, None)


def rows(rnd: Round, position: int | Array, branch: Array) -> tuple[Array, Array]:
    """p and q [B, V] in float64 at a row of each request's branch, summing to 1 or blank.

    Float32 rows miss 1 by their rounding, which rho would read as a difference of p and q.
    """
    xp = rnd.xp
    if isinstance(position, int):
        position = rnd.full(position, xp.int64)
    laws = []
    for weights in rnd.rows_at(position, branch):
        law = xp.exp(xp.astype(weights, xp.float64))
        mass = total(xp, law)
        laws.append(law / xp.where(mass > 0, mass, 1.0)[:, None])
    return laws[0], laws[1]


def pass_probability(rnd: Round, i: int, k: int, branch: Array, rho: Array) -> Array:
    """min(1, p(x)/(rho q(x))) [B] for token ``i`` of draft ``k`` under the branch's rows."""
    log_p, log_q = rnd.token_logs(i, k, branch)
    log_h = log_divide(rnd.xp, log_p, log_q) - rnd.xp.log(rho)
    return probability(rnd.xp, log_h, rnd.tolerance)


def decide(rnd: Round, uniforms: Array, solve: Solve = rho_of) -> Verdict:
    """The rule with any choice of rho: ``solve(xp, p, q, count)`` -> rho [B].

    Every rho at or above ``rho_of`` is lossless; a larger one accepts less.
    """
    xp, num_drafts = rnd.xp, rnd.num_drafts
    accepted, branch = rnd.full(0, xp.int64), rnd.full(0, xp.int64)
    alive = rnd.full(1, xp.bool)
    survivors = xp.ones(rnd.drafts.shape[:2], dtype=xp.bool, device=device(rnd.drafts))
    rho, count = rnd.full(1.0), rnd.full(float(num_drafts))
    for i in range(rnd.gamma):
        alive = alive & (i < rnd.lengths)
        here = xp.astype(xp.sum(xp.astype(survivors, xp.int64), axis=1), xp.float64)
        count = xp.where(alive, here, count)
        rho_here = solve(xp, *rows(rnd, i, branch), xp.where(alive, here, 1.0))
        rho = xp.where(alive, rho_here, rho)
        winner = rnd.full(-1, xp.int64)
        for k in range(num_drafts):
            passed = uniforms[:, i * num_drafts + k] < pass_probability(rnd, i, k, branch, rho)
            winner = xp.where((winner < 0) & survivors[:, k] & passed, k, winner)
        alive = alive & (winner >= 0)
        branch = xp.where(alive, winner, branch)
        accepted = xp.where(alive, i + 1, accepted)
        token = rnd.drafts[rnd.batch, branch, i]
        survivors = survivors & ((rnd.drafts[:, :, i] == token[:, None]) | ~alive[:, None])
    p, q = rows(rnd, accepted, branch)
    emitted = draw_or_target(rnd, leftover(xp, p, q, rho, count), p, uniforms[:, -1])
    return Verdict(accepted, branch, emitted)


def verify(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    uniforms: Array,
    lengths: Array | None = None,
    carry: None = None,
    *,
    validate: bool = True,
) -> Verdict:
    """Verify K i.i.d. drafts a request; arguments as in ``sim.verifiers``.

    Raises:
        ValueError: inputs that break the contract (``check_inputs``).
    """
    if validate:
        needed = slots(drafts.shape[2], drafts.shape[1])
        check_inputs(log_p, log_q, drafts, uniforms, lengths, needed)
    return decide(open_round(log_p, log_q, drafts, lengths), uniforms)


def survival(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    lengths: Array | None = None,
    carry: None = None,
) -> Array:
    """P(tau >= i | drafted tokens) for i = 1..g, [B, g].

    ``reach[k]`` is the probability that the accepted prefix is the first i tokens of draft k; it
    is shared by all drafts with that prefix, so each counts with one over their number.
    """
    rnd = open_round(log_p, log_q, drafts, lengths)
    xp, num_drafts = rnd.xp, rnd.num_drafts
    reach = [rnd.full(1.0) for _ in range(num_drafts)]
    same = [[rnd.full(1, xp.bool) for _ in range(num_drafts)] for _ in range(num_drafts)]
    out = []
    for i in range(rnd.gamma):
        nodes = [_winners(rnd, i, k, same[k]) for k in range(num_drafts)]
        here = rnd.drafts[:, :, i]
        for k in range(num_drafts):
            same[k] = [same[k][j] & (here[:, j] == here[:, k]) for j in range(num_drafts)]
            wins = sum(xp.where(same[k][j], nodes[k][j], 0.0) for j in range(num_drafts))
            reach[k] = xp.where(i < rnd.lengths, reach[k] * wins, 0.0)
        copies = [sum(xp.astype(row, xp.float64) for row in same[k]) for k in range(num_drafts)]
        out.append(sum(reach[k] / copies[k] for k in range(num_drafts)))
    return columns(rnd, out)


def _winners(rnd: Round, i: int, k: int, alike: list[Array]) -> list[Array]:
    """P(draft j wins position i | the prefix is draft k's) for every j, each [B]."""
    xp = rnd.xp
    branch = rnd.full(k, xp.int64)
    count = sum(xp.astype(flag, xp.float64) for flag in alike)
    rho = rho_of(xp, *rows(rnd, i, branch), count)
    wins, missed = [], rnd.full(1.0)
    for j, flag in enumerate(alike):
        h = xp.where(flag, pass_probability(rnd, i, j, branch, rho), 0.0)
        wins.append(missed * h)
        missed = missed * (1.0 - h)
    return wins
