"""Block verification: the whole prefix is tested, and the longest success wins.

Rule (Sun et al. 2024, "Block verification accelerates speculative decoding", Algorithm 2):

    W_0 = 1,  W_i = min(1, W_{i-1} p_i(x_i)/q_i(x_i))           (clipped at every step)
    h_g = W_g,  h_i = z_i/(z_i + 1 - W_i),  z_i = sum_x (W_i p_{i+1}(x) - q_{i+1}(x))_+
    tau = the largest i with u_i < h_i, 0 if none
    tau < g: emit from norm((W_tau p - q)_+);  tau = g: emit from p

No state is kept. Slots: i-1 tests the prefix of length i; g draws the emitted token.
"""

from __future__ import annotations

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


def slots(gamma: int, num_drafts: int) -> int:
    """Uniforms of one round."""
    return gamma + 1


def log_ratios(rnd: Round) -> Array:
    """Clipped log W of the prefixes of length 0..g, [B, g+1]."""
    log_w = [rnd.full(0.0)]
    for i in range(rnd.gamma):
        log_p, log_q = rnd.token_logs(i, 0)
        log_w.append(rnd.xp.clip(advance(rnd.xp, log_w[-1], log_p, log_q), None, 0.0))
    return columns(rnd, log_w)


def thresholds(rnd: Round, log_w: Array) -> Array:
    """h_i for i = 1..g, [B, g]; 0 beyond the drafted length."""
    xp, tests = rnd.xp, []
    for i in range(1, rnd.gamma + 1):
        h = probability(xp, log_w[:, i], rnd.tolerance)
        if i < rnd.gamma:
            p = xp.exp(rnd.log_p[:, 0, i])
            mass = residual_mass(rnd, p, rnd.log_q[:, 0, i], log_w[:, i])
            h = xp.where(i < rnd.lengths, block_probability(rnd, mass, log_w[:, i]), h)
        tests.append(xp.where(i <= rnd.lengths, h, 0.0))
    return columns(rnd, tests)


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
    """Verify one draft a request as a block; arguments as in ``sim.verifiers``.

    Raises:
        ValueError: inputs that break the contract (``check_inputs``), or more than one draft.
    """
    check_single(drafts, "block")
    if validate:
        check_inputs(log_p, log_q, drafts, uniforms, lengths, slots(drafts.shape[2], 1))
    rnd = open_round(log_p, log_q, drafts, lengths)
    log_w = log_ratios(rnd)
    accepted = deepest(rnd, uniforms, thresholds(rnd, log_w))
    log_p_row, log_q_row = rnd.rows_at(accepted)
    p = rnd.xp.exp(log_p_row)
    weights = residual(rnd.xp, p, log_q_row, log_w[rnd.batch, accepted])
    token = draw_or_target(rnd, weights, p, uniforms[:, rnd.gamma])
    return Verdict(accepted, rnd.full(0, rnd.xp.int64), token)


def survival(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    lengths: Array | None = None,
    carry: None = None,
) -> Array:
    """P(tau >= i | drafted tokens) for i = 1..g, [B, g]."""
    rnd = open_round(log_p, log_q, drafts, lengths)
    return at_least(rnd, thresholds(rnd, log_ratios(rnd)))
