"""Faults of the block, greedy block and multi-draft rules."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from sim.verifiers import VERIFIERS, Verdict, kseq
from sim.verifiers._common import (
    Array,
    Round,
    block_probability,
    columns,
    open_round,
    probability,
    residual_mass,
)


def first_failure(rnd: Round, uniforms: Array, thresholds: Array) -> Array:
    accepted, alive = rnd.full(0, rnd.xp.int64), rnd.full(1, rnd.xp.bool)
    for i in range(rnd.gamma):
        alive = alive & (uniforms[:, i] < thresholds[:, i])
        accepted = accepted + rnd.xp.astype(alive, rnd.xp.int64)
    return accepted


def stale(xp: Any, log_rows: Array) -> Array:
    return xp.concat([log_rows[:, :, :1], log_rows[:, :, :-1]], axis=2)


def without_carry(log_p: Array, log_q: Array, *rest: Any, **options: Any) -> Verdict:
    return VERIFIERS["greedy_block"].verify(log_p, log_q, *rest, **options)._replace(carry=None)


def carry_cut(log_p: Array, log_q: Array, *rest: Any, **options: Any) -> Verdict:
    verdict = VERIFIERS["greedy_block"].verify(log_p, log_q, *rest, **options)
    xp, carry = array_namespace(log_p), verdict.carry
    newest = xp.clip(carry.left[:, -1:] - 1, 0, None)
    left = xp.concat([carry.left[:, :-1], newest], axis=1)
    return verdict._replace(carry=carry._replace(left=left))


def rho_one(
    log_p: Array, log_q: Array, drafts: Array, uniforms: Array, *rest: Any, **options: Any
) -> Verdict:
    rnd = open_round(log_p, log_q, drafts, rest[0] if rest else None)
    return kseq.decide(rnd, uniforms, lambda xp, p, q, count: xp.ones_like(count))


def copies_skipped(
    log_p: Array, log_q: Array, drafts: Array, uniforms: Array, *rest: Any, **options: Any
) -> Verdict:
    """A uniform of 1 fails every test, so a copy of an earlier draft is never tried."""
    xp = array_namespace(log_p, drafts)
    gamma, tape = drafts.shape[2], [uniforms[:, -1:]]
    for i in reversed(range(gamma)):
        for k in reversed(range(drafts.shape[1])):
            earlier = drafts[:, :k, : i + 1] == drafts[:, k : k + 1, : i + 1]
            copy = xp.any(xp.all(earlier, axis=2), axis=1)[:, None]
            slot = i * drafts.shape[1] + k
            tape.insert(0, xp.where(copy, 1.0, uniforms[:, slot : slot + 1]))
    rnd = open_round(log_p, log_q, drafts, rest[0] if rest else None)
    return kseq.decide(rnd, xp.concat(tape, axis=1))


def unscaled_tests(rnd: Round, log_w: Array) -> Array:
    """Block tests whose residual mass lacks the factor W."""
    xp, tests = rnd.xp, []
    for i in range(1, rnd.gamma + 1):
        h = probability(xp, log_w[:, i], rnd.tolerance)
        if i < rnd.gamma:
            p = xp.exp(rnd.log_p[:, 0, i])
            mass = residual_mass(rnd, p, rnd.log_q[:, 0, i], rnd.full(0.0))
            # z/(z + 1 - W) = s/(s + 1/W - 1) with z = W s, so the unscaled z counts as z/W.
            scaled = mass * xp.exp(-xp.clip(log_w[:, i], -700.0, None))
            h = xp.where(i < rnd.lengths, block_probability(rnd, scaled, log_w[:, i]), h)
        tests.append(xp.where(i <= rnd.lengths, h, 0.0))
    return columns(rnd, tests)
