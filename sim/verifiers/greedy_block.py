"""Greedy block verification: the longest prefix now, paid for by later targets.

Rule (Sun et al. 2024, appendix; the modification in the form reconstructed from its example):
block verification with the UNCLIPPED ratio ``W_i = P(x^i)/Q(x^i)``,

    h_g = min(1, W_g),  h_i = 1 if W_i >= 1 else z_i/(z_i + 1 - W_i),  z_i = sum_x (W_i p - q)_+
    tau = the largest i with u_i < h_i;  tau < g: emit from norm((W_tau p - q)_+)

After tau < g every later position whose node v, counted from the start of this block and with
the emitted tokens included, has depth < g gets the target ``norm((W(v) p - q)_+)``. One such
*layer* is two numbers: log W(v) and ``left``, the rows it still modifies: left = g - (tau + 1)
when it is pushed. Layers nest: the P and W of a layer use the rows as modified by the older ones.
Rows are counted from 0 within a round, so a layer modifies rows i < left. After each round every
layer advances along all emitted tokens, the correction included.

The carry has g slots, oldest first, and shifts by one slot a round: a layer loses at least one
position a round, so slot s holds ``left <= s`` and slot 0 is always free. A node whose residual
is empty has probability zero; its row is left as it is.

Slots of the tape: i-1 tests the prefix of length i; g draws the emitted token. gamma is fixed; a
request may draft fewer tokens only while none of its layers reaches beyond its drafted length.
"""

from __future__ import annotations

from typing import NamedTuple

from array_api_compat import array_namespace, device

from sim.verifiers._checks import check_inputs, check_single
from sim.verifiers._common import (
    Array,
    Round,
    Verdict,
    advance,
    at_least,
    block_probability,
    columns,
    deepest,
    draw_or_target,
    open_round,
    probability,
    residual,
    residual_mass,
)


class Carry(NamedTuple):
    """Layers of target modification, oldest first.

    log_ratio: [B, g] log W of the layer's node. left: [B, g] rows it still modifies (0 = free).
    """

    log_ratio: Array
    left: Array


class Layers(NamedTuple):
    """A carry during a round. left: [B, g]. reach: per slot, the largest ``left`` of the batch."""

    left: Array
    reach: list[int]


class Path(NamedTuple):
    """Ratios along the drafted tokens.

    log_w: [B, g+1] of this block, against the modified target. nodes: g+1 lists of the layers'
    log W [B] at each draft node. thresholds: [B, g] acceptance tests.
    """

    log_w: Array
    nodes: list[list[Array]]
    thresholds: Array


def slots(gamma: int, num_drafts: int) -> int:
    """Uniforms of one round."""
    return gamma + 1


def modify(
    rnd: Round, layers: Layers, row: int | Array, p: Array, log_q: Array, log_w: list[Array]
) -> tuple[Array, list[Array | None]]:
    """The target row p [B, V] as modified by all layers, and each layer's residual mass [B].

    Args:
        row: row number within the round, one for all requests or [B].
        log_w: the layers' log W [B] at this node.

    A mass is None where the layer touches no request, and 0 where it leaves the row as it is.
    """
    xp, masses = rnd.xp, list[Array | None]()
    for slot, log_ratio in enumerate(log_w):
        if layers.reach[slot] <= (row if isinstance(row, int) else 0):
            masses.append(None)
            continue
        active = row < layers.left[:, slot]
        weights = residual(xp, p, log_q, xp.where(log_ratio > -xp.inf, log_ratio, 0.0))
        mass = xp.where(active, residual_mass(rnd, p, log_q, log_ratio), 0.0)
        scale = xp.astype(xp.where(mass > 0, mass, 1.0), p.dtype)[:, None]
        p = xp.where((mass > 0)[:, None], weights / scale, p)
        masses.append(mass)
    return p, masses


def follow(
    rnd: Round, log_p: Array, log_q: Array, log_w: list[Array], masses: list[Array | None]
) -> tuple[Array, list[Array]]:
    """One token [B] through the layers of its row.

    Returns its log probability under the modified row, and the layers' log W after it, each
    measured against the row as modified by the older layers only.
    """
    xp, after = rnd.xp, []
    for log_ratio, mass in zip(log_w, masses, strict=True):
        after.append(advance(xp, log_ratio, log_p, log_q))
        if mass is None:
            continue
        # log(p - q/W) - log s = log p + log1p(-q/(W p)) - log s, and W p/q is after[-1].
        lower = xp.exp(-xp.clip(after[-1], 0.0, None))
        inside = (after[-1] > 0) & (lower < 1.0)
        kept = xp.where(inside, log_p, 0.0) + xp.log1p(-xp.where(inside, lower, 0.0))
        shifted = xp.where(inside, kept - xp.log(xp.where(mass > 0, mass, 1.0)), -xp.inf)
        log_p = xp.where(mass > 0, shifted, log_p)
    return log_p, after


def follow_drafts(rnd: Round, layers: Layers, log_ratio: Array) -> Path:
    """Ratios and acceptance tests along the drafted tokens; ``log_ratio`` [B, g] of the carry."""
    xp, gamma = rnd.xp, rnd.gamma
    log_w, tests = [rnd.full(0.0)], []
    nodes = [[log_ratio[:, slot] for slot in range(gamma)]]
    for i in range(gamma):
        log_q_row = rnd.log_q[:, 0, i]
        p, masses = modify(rnd, layers, i, xp.exp(rnd.log_p[:, 0, i]), log_q_row, nodes[-1])
        if i > 0:
            h = block_probability(rnd, residual_mass(rnd, p, log_q_row, log_w[-1]), log_w[-1])
            last = probability(xp, log_w[-1], rnd.tolerance)
            h = xp.where(i < rnd.lengths, h, xp.where(i == rnd.lengths, last, 0.0))
            tests.append(h)
        log_p, log_q = rnd.token_logs(i, 0)
        log_p, after = follow(rnd, log_p, log_q, nodes[-1], masses)
        nodes.append(after)
        log_w.append(advance(xp, log_w[-1], log_p, log_q))
    if gamma:
        last = probability(xp, log_w[-1], rnd.tolerance)
        tests.append(xp.where(rnd.lengths == gamma, last, 0.0))
    return Path(columns(rnd, log_w), nodes, columns(rnd, tests))


def next_carry(rnd: Round, left: Array, accepted: Array, after: list[Array], log_w: Array) -> Carry:
    """Advance every layer by the emitted tokens and push the layer of this block.

    Args:
        after: the layers' log W [B] after the emitted token.
        log_w: this block's log W [B] after the emitted token.
    """
    xp, emitted = rnd.xp, accepted + 1
    left = xp.clip(left - emitted[:, None], 0, None)
    pushed = xp.clip(rnd.lengths - emitted, 0, None)
    left = xp.concat([left, pushed[:, None]], axis=1)[:, 1:]
    log_ratio = columns(rnd, [*after, log_w])[:, 1:]
    return Carry(xp.where(left > 0, log_ratio, 0.0), left)


def start(like: Array, batch: int, gamma: int) -> Carry:
    """The carry of requests that have no history: all slots free."""
    xp, where = array_namespace(like), device(like)
    shape = (batch, gamma)
    return Carry(
        xp.zeros(shape, dtype=xp.float64, device=where),
        xp.zeros(shape, dtype=xp.int64, device=where),
    )


def check_carry(carry: Carry, drafts: Array, lengths: Array | None) -> None:
    """Check that a carry fits the drafts.

    Raises:
        ValueError: another shape than [B, g], or a layer that reaches beyond the drafted length.
    """
    batch, gamma = drafts.shape[0], drafts.shape[2]
    for name, array in zip(carry._fields, carry, strict=True):
        if tuple(array.shape) != (batch, gamma):
            raise ValueError(
                f"carry.{name} has shape {tuple(array.shape)}, expected {(batch, gamma)}; "
                "greedy block verification keeps one gamma for a whole generation"
            )
    xp = array_namespace(drafts)
    limit = gamma if lengths is None else lengths[:, None]
    if bool(xp.any(carry.left > limit)):
        raise ValueError(
            "a request drafted fewer tokens than a layer of its carry still modifies; greedy "
            "block verification needs full drafts (emit the surplus tokens and cut them off)"
        )


def _open(
    log_p: Array, log_q: Array, drafts: Array, lengths: Array | None, carry: Carry | None
) -> tuple[Round, Layers, Path]:
    rnd = open_round(log_p, log_q, drafts, lengths)
    if carry is None:
        carry = start(log_p, drafts.shape[0], rnd.gamma)
    some = drafts.shape[0] > 0
    reach = rnd.xp.max(carry.left, axis=0).tolist() if some else [0] * rnd.gamma
    layers = Layers(carry.left, reach)
    return rnd, layers, follow_drafts(rnd, layers, carry.log_ratio)


def verify(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    uniforms: Array,
    lengths: Array | None = None,
    carry: Carry | None = None,
    *,
    validate: bool = True,
) -> Verdict:
    """Verify one draft a request as a greedy block; arguments as in ``sim.verifiers``.

    Raises:
        ValueError: inputs that break the contract (``check_inputs``, ``check_carry``), or more
            than one draft.
    """
    check_single(drafts, "greedy_block")
    if validate:
        check_inputs(log_p, log_q, drafts, uniforms, lengths, slots(drafts.shape[2], 1))
        if carry is not None:
            check_carry(carry, drafts, lengths)
    rnd, layers, path = _open(log_p, log_q, drafts, lengths, carry)
    xp = rnd.xp
    accepted = deepest(rnd, uniforms, path.thresholds)
    log_w = path.log_w[rnd.batch, accepted]
    stopped = [
        columns(rnd, [node[slot] for node in path.nodes])[rnd.batch, accepted]
        for slot in range(rnd.gamma)
    ]
    log_p_row, log_q_row = rnd.rows_at(accepted)
    p, masses = modify(rnd, layers, accepted, xp.exp(log_p_row), log_q_row, stopped)
    weights = residual(xp, p, log_q_row, log_w)
    token = draw_or_target(rnd, weights, p, uniforms[:, rnd.gamma])
    token_log_p = xp.astype(rnd.log_p[rnd.batch, 0, accepted, token], xp.float64)
    token_log_q = xp.astype(log_q_row[rnd.batch, token], xp.float64)
    log_p_token, after = follow(rnd, token_log_p, token_log_q, stopped, masses)
    log_w = advance(xp, log_w, log_p_token, token_log_q)
    state = next_carry(rnd, layers.left, accepted, after, log_w)
    return Verdict(accepted, rnd.full(0, xp.int64), token, state)


def survival(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    lengths: Array | None = None,
    carry: Carry | None = None,
) -> Array:
    """P(tau >= i | drafted tokens) for i = 1..g, [B, g]."""
    rnd, _, path = _open(log_p, log_q, drafts, lengths, carry)
    return at_least(rnd, path.thresholds)
