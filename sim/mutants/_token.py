"""Faults of the token rule and of the contract around it, as parts to replace."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from sim.mutants._parts import difference
from sim.verifiers import VERIFIERS, Verdict
from sim.verifiers._common import Array, Round, columns


def from_target(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    return p


def softmax_of_difference(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    rejected = (accepted < rnd.lengths)[:, None]
    return rnd.xp.where(rejected, rnd.xp.exp(difference(rnd, p, log_q, accepted)), p)


def difference_at_index(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    xp = rnd.xp
    row = xp.where(accepted < rnd.lengths, accepted, 0)
    drafted = rnd.drafts[rnd.batch, 0, row][:, None]
    here = xp.arange(p.shape[1], device=device(p)) == drafted
    return xp.where(here, difference(rnd, p, log_q, accepted), p)


def bonus_from_draft(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    xp = rnd.xp
    last = rnd.log_q[rnd.batch, 0, xp.clip(rnd.lengths - 1, 0, None)]
    bonus = ((accepted == rnd.lengths) & (rnd.lengths > 0))[:, None]
    return xp.where(bonus, xp.exp(last), difference(rnd, p, log_q, accepted))


def point_mass_residual(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    xp = rnd.xp
    rejected = accepted < rnd.lengths
    drafted = rnd.drafts[rnd.batch, 0, xp.where(rejected, accepted, 0)][:, None]
    here = xp.arange(p.shape[1], device=device(p)) == drafted
    return xp.where(here & rejected[:, None], 0.0, p)


def point_mass_tests(rnd: Round) -> Array:
    return columns(rnd, [rnd.xp.exp(rnd.token_logs(i, 0)[0]) for i in range(rnd.gamma)])


def always(rnd: Round) -> Array:
    return columns(rnd, [rnd.full(1.0) for _ in range(rnd.gamma)])


def softened(xp: Any, log_rows: Array) -> Array:
    """Raw rows behind filtered ones: three fifths of the mass, the rest spread evenly."""
    return xp.log(0.6 * xp.exp(log_rows) + 0.4 / log_rows.shape[-1])


def untempered(xp: Any, log_rows: Array) -> Array:
    """Rows of another temperature: square roots, renormalised."""
    rows = xp.exp(log_rows / 2)
    return log_rows / 2 - xp.log(xp.sum(rows, axis=-1, keepdims=True))


def argmax_rows(xp: Any, log_rows: Array) -> Array:
    rows = log_rows[:, :, :-1]
    best = xp.arange(rows.shape[-1], device=device(rows)) == xp.argmax(rows, axis=-1, keepdims=True)
    return xp.concat([xp.where(best, xp.zeros_like(rows), -xp.inf), log_rows[:, :, -1:]], 2)


def shared_stream(
    log_p: Array, log_q: Array, drafts: Array, uniforms: Array, *rest: Any, **options: Any
) -> Verdict:
    xp = array_namespace(uniforms)
    shared = xp.broadcast_to(uniforms[:1], uniforms.shape)
    return VERIFIERS["token"].verify(log_p, log_q, drafts, shared, *rest, **options)
