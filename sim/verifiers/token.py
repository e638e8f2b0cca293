"""Token verification: each drafted token is tested by its own ratio, in order.

Rule (Leviathan et al. 2023, Algorithm 1; Chen et al. 2023): accept x_i with probability
``min(1, p_i(x_i)/q_i(x_i))``; at the first failure emit from ``norm((p_i - q_i)_+)`` and stop;
if all pass emit from p. Slots: i (0 <= i < g) tests token i+1; g draws the emitted token.
"""

from __future__ import annotations

from sim.verifiers._checks import check_inputs, check_single
from sim.verifiers._common import (
    Array,
    Round,
    Verdict,
    columns,
    draw_or_target,
    log_divide,
    open_round,
    probability,
    residual,
)


def slots(gamma: int, num_drafts: int) -> int:
    """Uniforms of one round."""
    return gamma + 1


def thresholds(rnd: Round) -> Array:
    """Acceptance probability of every drafted token [B, g]; 0 beyond the drafted length."""
    xp = rnd.xp
    tests = []
    for i in range(rnd.gamma):
        log_p, log_q = rnd.token_logs(i, 0)
        h = probability(xp, log_divide(xp, log_p, log_q), rnd.tolerance)
        tests.append(xp.where(i < rnd.lengths, h, 0.0))
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
    """Verify one draft a request, token by token; arguments as in ``sim.verifiers``.

    Raises:
        ValueError: inputs that break the contract (``check_inputs``), or more than one draft.
    """
    check_single(drafts, "token")
    if validate:
        check_inputs(log_p, log_q, drafts, uniforms, lengths, slots(drafts.shape[2], 1))
    rnd = open_round(log_p, log_q, drafts, lengths)
    xp, h = rnd.xp, thresholds(rnd)
    accepted, alive = rnd.full(0, xp.int64), rnd.full(1, xp.bool)
    for i in range(rnd.gamma):
        alive = alive & (uniforms[:, i] < h[:, i])
        accepted = accepted + xp.astype(alive, xp.int64)
    log_p_row, log_q_row = rnd.rows_at(accepted)
    p = rnd.xp.exp(log_p_row)
    weights = residual(xp, p, log_q_row, rnd.full(0.0))
    token = draw_or_target(rnd, weights, p, uniforms[:, rnd.gamma])
    return Verdict(accepted, rnd.full(0, xp.int64), token)


def survival(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    lengths: Array | None = None,
    carry: None = None,
) -> Array:
    """P(tau >= i | drafted tokens) for i = 1..g, [B, g]."""
    rnd = open_round(log_p, log_q, drafts, lengths)
    return rnd.xp.cumulative_prod(thresholds(rnd), axis=1)
