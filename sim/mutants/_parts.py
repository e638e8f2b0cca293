"""Parts shared by the faulty verifiers: a description, and rules with one part replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from sim.verifiers import VERIFIERS, ArrayVerifier, Verdict, block, token
from sim.verifiers._common import Array, Round, deepest, draw_or_target, open_round, residual


@dataclass(frozen=True)
class Mutant:
    """A faulty verifier.

    rule: name of the verifier it spoils. fault: what is wrong. references: public discussions of
    the fault (owner/name#number). found_by: ``law``, ``length`` or ``ties``.
    """

    name: str
    rule: str
    fault: str
    verifier: ArrayVerifier
    references: tuple[str, ...]
    found_by: str = "law"


Weights = Callable[[Round, Array, Array, Array], Array]
"""(round, p [B, V], log q [B, V], accepted [B]) -> unnormalised law of the emitted token."""
Change = Callable[[Any, Array], Array]
"""(array namespace, log rows) -> other log rows."""


def difference(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    return residual(rnd.xp, p, log_q, rnd.full(0.0))


def token_rule(
    weights: Weights = difference,
    tests: Callable[[Round], Array] = token.thresholds,
    passes: Callable[[Array, Array], Array] = operator.lt,
    reuse_uniform: bool = False,
) -> Callable[..., Verdict]:
    """Token verification with one part replaced."""

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
        xp, h = rnd.xp, tests(rnd)
        accepted, alive = rnd.full(0, xp.int64), rnd.full(1, xp.bool)
        for i in range(rnd.gamma):
            alive = alive & (i < rnd.lengths) & passes(uniforms[:, i], h[:, i])
            accepted = accepted + xp.astype(alive, xp.int64)
        log_p_row, log_q_row = rnd.rows_at(accepted)
        p = rnd.xp.exp(log_p_row)
        slot = accepted if reuse_uniform else rnd.full(rnd.gamma, xp.int64)
        coin = uniforms[rnd.batch, slot]
        emitted = draw_or_target(rnd, weights(rnd, p, log_q_row, accepted), p, coin)
        return Verdict(accepted, rnd.full(0, xp.int64), emitted)

    return verify


def block_rule(
    pick: Callable[[Round, Array, Array], Array] = deepest, scaled: bool = True
) -> Callable[..., Verdict]:
    """Block verification with another choice of tau, or with the unscaled residual."""

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
        accepted = pick(rnd, uniforms, block.thresholds(rnd, log_w))
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
