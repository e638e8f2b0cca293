"""Parts shared by the faulty verifiers: rules with one part replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from sim.verifiers import VERIFIERS, Verdict, block, token
from sim.verifiers._common import Array, Round, deepest, draw_or_target, open_round, residual

Weights = Callable[[Round, Array, Array, Array], Array]
"""(round, p [B, V], log q [B, V], accepted [B]) -> unnormalised law of the emitted token."""
Change = Callable[[Any, Array], Array]
"""(array namespace, log rows) -> other log rows."""


def difference(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    return residual(rnd.xp, p, log_q, rnd.full(0.0))


def own_coins(rnd: Round, uniforms: Array) -> Array:
    return uniforms[:, : rnd.gamma]


def own_last_coin(rnd: Round, uniforms: Array, accepted: Array) -> Array:
    return uniforms[:, rnd.gamma]


def token_rule(
    weights: Weights = difference,
    tests: Callable[[Round], Array] = token.thresholds,
    passes: Callable[[Array, Array], Array] = operator.lt,
    coins: Callable[[Round, Array], Array] = own_coins,
    last_coin: Callable[[Round, Array, Array], Array] = own_last_coin,
) -> Callable[..., Verdict]:
    """Token verification with one part replaced.

    Args:
        coins: (round, tape) -> uniforms [B, g] of the tests.
        last_coin: (round, tape, accepted) -> uniform [B] of the emitted token.
    """

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
        rnd = open_round(log_p, log_q, drafts, lengths)
        xp, h, u = rnd.xp, tests(rnd), coins(rnd, uniforms)
        accepted, alive = rnd.full(0, xp.int64), rnd.full(1, xp.bool)
        for i in range(rnd.gamma):
            alive = alive & (i < rnd.lengths) & passes(u[:, i], h[:, i])
            accepted = accepted + xp.astype(alive, xp.int64)
        log_p_row, log_q_row = rnd.rows_at(accepted)
        p = rnd.xp.exp(log_p_row)
        coin = last_coin(rnd, uniforms, accepted)
        emitted = draw_or_target(rnd, weights(rnd, p, log_q_row, accepted), p, coin)
        return Verdict(accepted, rnd.full(0, xp.int64), emitted)

    return verify


def block_rule(
    pick: Callable[[Round, Array, Array], Array] = deepest,
    scaled: bool = True,
    tests: Callable[[Round, Array], Array] = block.thresholds,
) -> Callable[..., Verdict]:
    """Block verification with another choice of tau, other tests, or the unscaled residual."""

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
        rnd = open_round(log_p, log_q, drafts, lengths)
        log_w = block.log_ratios(rnd)
        accepted = pick(rnd, uniforms, tests(rnd, log_w))
        log_p_row, log_q_row = rnd.rows_at(accepted)
        p = rnd.xp.exp(log_p_row)
        scale = log_w[rnd.batch, accepted] if scaled else rnd.full(0.0)
        weights = residual(rnd.xp, p, log_q_row, scale)
        emitted = draw_or_target(rnd, weights, p, uniforms[:, rnd.gamma])
        return Verdict(accepted, rnd.full(0, rnd.xp.int64), emitted)

    return verify


def changed(rule: str, target: Change | None = None, draft: Change | None = None) -> Any:
    """The verifier ``rule`` fed with other rows than it should get."""

    def verify(log_p: Array, log_q: Array, drafts: Array, *rest: Any, **options: Any) -> Verdict:
        xp = array_namespace(log_p)
        log_p = log_p if target is None else target(xp, log_p)
        log_q = log_q if draft is None else draft(xp, log_q)
        return VERIFIERS[rule].verify(log_p, log_q, drafts, *rest, **options)

    return verify
