"""Faults of the token rule and of the contract around it, as parts to replace."""

from __future__ import annotations

from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from sim.mutants._parts import difference
from sim.mutants._programs import COIN_BITS, CONFIDENCE, HALF_EPSILON
from sim.verifiers import VERIFIERS, Verdict
from sim.verifiers._common import Array, Round, columns, log_divide, probability


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
    return xp.concat([xp.where(best, xp.zeros_like(rows), -xp.inf), log_rows[:, :, -1:]], axis=2)


def shared_stream(
    log_p: Array, log_q: Array, drafts: Array, uniforms: Array, *rest: Any, **options: Any
) -> Verdict:
    xp = array_namespace(uniforms)
    shared = xp.broadcast_to(uniforms[:1], uniforms.shape)
    return VERIFIERS["token"].verify(log_p, log_q, drafts, shared, *rest, **options)


def rejecting_coin(rnd: Round, uniforms: Array, accepted: Array) -> Array:
    return uniforms[rnd.batch, accepted]


def draft_noise(rnd: Round, i: int, uniforms: Array) -> Array:
    """The uniform that drew drafted token i, given the token: a point of its bucket, [B]."""
    q = rnd.xp.exp(rnd.log_q[:, 0, i])
    token = rnd.drafts[:, 0, i]
    below = rnd.xp.arange(q.shape[1], device=device(q)) < token[:, None]
    low = rnd.xp.sum(rnd.xp.where(below, q, 0.0), axis=1)
    return low + uniforms * q[rnd.batch, token]


def coins_of_draft(rnd: Round, uniforms: Array) -> Array:
    return columns(rnd, [draft_noise(rnd, i, uniforms[:, i]) for i in range(rnd.gamma)])


def last_coin_of_draft(rnd: Round, uniforms: Array, accepted: Array) -> Array:
    xp, last = rnd.xp, uniforms[:, rnd.gamma]
    coin = last
    for i in range(rnd.gamma):
        rejected = (accepted == i) & (accepted < rnd.lengths)
        coin = xp.where(rejected, draft_noise(rnd, i, last), coin)
    return coin


def coarse_coins(rnd: Round, uniforms: Array) -> Array:
    grid = 2.0**COIN_BITS
    return rnd.xp.floor(uniforms[:, : rnd.gamma] * grid) / grid


def clamped(rnd: Round, p: Array, log_q: Array, accepted: Array) -> Array:
    xp = rnd.xp
    rejected = (accepted < rnd.lengths)[:, None]
    return xp.where(rejected, xp.clip(p - xp.exp(log_q), float(HALF_EPSILON), None), p)


def corrupted_tests(rnd: Round) -> Array:
    """Ratios of a target row that was overwritten by its residual."""
    xp, tests = rnd.xp, []
    for i in range(rnd.gamma):
        log_p, log_q = rnd.token_logs(i, 0)
        left = xp.clip(xp.exp(log_divide(xp, log_p, log_q)) - 1.0, 0.0, 1.0)
        tests.append(xp.where(i < rnd.lengths, left, 0.0))
    return columns(rnd, tests)


def half_ensemble_tests(rnd: Round) -> Array:
    xp, tests = rnd.xp, []
    for i in range(rnd.gamma):
        log_p, log_q = rnd.token_logs(i, 0)
        h = probability(xp, log_divide(xp, log_p, log_q), rnd.tolerance)
        ratio = xp.exp(xp.clip(log_divide(xp, log_p, log_q), None, 50.0))
        tests.append(xp.where(i < rnd.lengths, xp.where(h < 1, (1 + ratio) / 2, 1.0), 0.0))
    return columns(rnd, tests)


def until_unsure(
    log_p: Array,
    log_q: Array,
    drafts: Array,
    uniforms: Array,
    lengths: Array | None = None,
    *_: Any,
    **options: Any,
) -> Verdict:
    """Drafted tokens of low probability are dropped after they were drawn."""
    xp = array_namespace(log_p)
    gamma = drafts.shape[2]
    kept = xp.full((drafts.shape[0],), gamma, dtype=xp.int64, device=device(log_p))
    kept = kept if lengths is None else xp.minimum(kept, lengths)
    batch = xp.arange(drafts.shape[0], device=device(log_p))
    for i in reversed(range(gamma)):
        q = xp.exp(log_q[batch, 0, i, xp.clip(drafts[:, 0, i], 0, None)])
        kept = xp.where((i < kept) & (q < float(CONFIDENCE) - 1e-12), i, kept)
    return VERIFIERS["token"].verify(log_p, log_q, drafts, uniforms, kept, **options)


class Ended(NamedTuple):
    """Which requests have ended, [B]."""

    done: Array


def ends_only_at_last(eos: int) -> Any:
    """An end of sequence inside a block is overlooked."""

    def verify(
        log_p: Array,
        log_q: Array,
        drafts: Array,
        uniforms: Array,
        lengths: Array | None = None,
        carry: Ended | None = None,
        **options: Any,
    ) -> Verdict:
        verdict = VERIFIERS["token"].verify(log_p, log_q, drafts, uniforms, lengths, **options)
        xp = array_namespace(log_p)
        done = verdict.token != verdict.token if carry is None else carry.done
        accepted = xp.where(done, 0, verdict.accepted)
        token = xp.where(done, eos, verdict.token)
        return verdict._replace(accepted=accepted, token=token, carry=Ended(token == eos))

    return verify
