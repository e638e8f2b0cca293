"""Numerics shared by the array verifiers: views of one round, residual weights, draws.

Notation: p = target row, q = draft row, ``W`` = running ratio P/Q of the drafted prefix, tau = the
accepted length. Everything is a function of log rows, so that nothing underflows at large
vocabularies. The residual of a node is kept in scale-free form,

    (W p - q)_+ = W (p - q/W)_+,    s = sum_x (p(x) - q(x)/W)_+   in [0, 1],

which has the same normalised law for every ``W`` in (0, inf]; ``W = inf`` gives p itself, so a
bonus token is the residual at ``W = inf``. With ``z = W s`` the test of block verification
becomes ``z / (z + 1 - W) = s / (s + 1/W - 1)``.

Rounding: a log ratio above ``-tolerance`` counts as ratio 1, and a residual of mass ``s <=
tolerance`` (16 units in the last place) counts as zero. A zero residual is never normalised: the
draw falls back to p. Rows keep their dtype; sums over the vocabulary and running ratios are
float64. The scale-free form and the tolerance are derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from array_api_compat import array_namespace, device

Array: TypeAlias = Any
"""A numpy array or a torch tensor."""

LARGEST_EXPONENT = 700.0
"""``expm1`` of it is finite in float64."""


class Verdict(NamedTuple):
    """What a verifier decides about a batch of rounds.

    accepted: [B] accepted length tau, 0..lengths (without the correction or bonus token).
    branch: [B] index of the draft whose first tau tokens are kept.
    token: [B] correction or bonus token.
    carry: state for the next round of a stateful verifier, else None.
    """

    accepted: Array
    branch: Array
    token: Array
    carry: Any = None


@dataclass(frozen=True)
class Round:
    """One batch of rounds, ready for arithmetic: unused rows and paddings are blanked.

    xp: array namespace. log_p: [B, K, g+1, V]. log_q: [B, K, g, V]. drafts: [B, K, g] int64 (0
    where padded). lengths: [B] int64. batch: [B] the row numbers. tolerance: size of rounding.
    """

    xp: Any
    log_p: Array
    log_q: Array
    drafts: Array
    lengths: Array
    batch: Array
    tolerance: float

    @property
    def gamma(self) -> int:
        return int(self.drafts.shape[2])

    @property
    def num_drafts(self) -> int:
        return int(self.drafts.shape[1])

    def full(self, value: float, dtype: Any = None) -> Array:
        """[B] filled with ``value`` (float64 unless a dtype is given)."""
        shape, kind = self.batch.shape, dtype or self.xp.float64
        return self.xp.full(shape, value, dtype=kind, device=device(self.batch))

    def row_numbers(self, table: Array, branch: Array | int, position: Array | int) -> Array:
        """Numbers [B] of one row per request in a table [B, K, rows, V] seen as [B*K*rows, V]."""
        return (self.batch * self.num_drafts + branch) * table.shape[2] + position

    def token_logs(self, i: int, k: int, branch: Array | int = 0) -> tuple[Array, Array]:
        """float64 log p and log q, at row ``i`` of ``branch``, of token ``i`` of draft ``k``."""
        xp, token, logs = self.xp, self.drafts[:, k, i], []
        for table in (self.log_p, self.log_q):
            place = self.row_numbers(table, branch, i) * table.shape[3] + token
            logs.append(xp.astype(xp.take(xp.reshape(table, (-1,)), place), xp.float64))
        return logs[0], logs[1]

    def rows_at(self, position: Array, branch: Array | int = 0) -> tuple[Array, Array]:
        """log p and log q rows [B, V] at ``position``; q is blank (zero) at the bonus row."""
        xp, vocab = self.xp, self.log_p.shape[3]
        place = self.row_numbers(self.log_p, branch, position)
        log_p = xp.take(xp.reshape(self.log_p, (-1, vocab)), place, axis=0)
        if self.gamma == 0:
            return log_p, xp.full_like(log_p, -xp.inf)
        inside = position < self.lengths
        place = self.row_numbers(self.log_q, branch, xp.where(inside, position, 0))
        log_q = xp.take(xp.reshape(self.log_q, (-1, vocab)), place, axis=0)
        return log_p, xp.where(inside[:, None], log_q, -xp.inf)


def open_round(log_p: Array, log_q: Array, drafts: Array, lengths: Array | None) -> Round:
    """Blank what lies beyond ``lengths`` (log rows -inf, token 0) and collect the arrays."""
    xp = array_namespace(log_p, log_q, drafts)
    batch, gamma = drafts.shape[0], drafts.shape[2]
    where = device(log_p)
    drafts = xp.astype(drafts, xp.int64)
    if lengths is None:
        lengths = xp.full((batch,), gamma, dtype=xp.int64, device=where)
    else:
        lengths = xp.astype(lengths, xp.int64)
        steps = xp.arange(gamma + 1, device=where)
        used = (steps <= lengths[:, None])[:, None, :, None]
        drafted = (steps[:gamma] < lengths[:, None])[:, None, :]
        log_p = xp.where(used, log_p, -xp.inf)
        log_q = xp.where(drafted[..., None], log_q, -xp.inf)
        drafts = xp.where(drafted, drafts, 0)
    tolerance = 16.0 * float(xp.finfo(log_p.dtype).eps)
    numbers = xp.arange(batch, device=where)
    return Round(xp, log_p, log_q, drafts, lengths, numbers, tolerance)


def log_divide(xp: Any, log_p: Array, log_q: Array) -> Array:
    """log(p/q) without NaN: -inf where p = 0 (also for 0/0), +inf where only q = 0."""
    positive = log_p > -xp.inf
    return xp.where(positive, xp.where(positive, log_p, 0.0) - log_q, -xp.inf)


def advance(xp: Any, log_w: Array, log_p: Array, log_q: Array) -> Array:
    """log W after one more token: a prefix of target probability zero stays at W = 0."""
    step = log_divide(xp, log_p, log_q)
    dead = (step == -xp.inf) | (log_w == -xp.inf)
    return xp.where(dead, -xp.inf, xp.where(dead, 0.0, log_w) + xp.where(dead, 0.0, step))


def probability(xp: Any, log_h: Array, tolerance: float) -> Array:
    """min(1, h) from log h; exactly 1 above -tolerance, exactly 0 at -inf."""
    return xp.where(log_h >= -tolerance, 1.0, xp.exp(xp.clip(log_h, None, 0.0)))


def residual(xp: Any, p: Array, log_q: Array, log_w: Array) -> Array:
    """(p - q/W)_+ over the last axis; ``log_w`` has one axis less and lies in (-inf, inf]."""
    scale = xp.astype(log_w, p.dtype)[..., None]
    return xp.clip(p - xp.exp(xp.clip(log_q - scale, None, 1.0)), 0.0, None)


def total(xp: Any, weights: Array) -> Array:
    """Sum over the vocabulary in float64."""
    return xp.sum(weights, axis=-1, dtype=xp.float64)


def residual_mass(rnd: Round, p: Array, log_q: Array, log_w: Array) -> Array:
    """s = sum_x (p - q/W)_+ [B]; rounding-size masses and nodes with W = 0 give 0."""
    xp = rnd.xp
    alive = log_w > -xp.inf
    mass = total(xp, residual(xp, p, log_q, xp.where(alive, log_w, 0.0)))
    return xp.where(alive & (mass > rnd.tolerance), mass, 0.0)


def block_probability(rnd: Round, mass: Array, log_w: Array) -> Array:
    """h = s/(s + 1/W - 1): 1 where W >= 1, 0 where W = 0 or the residual is empty."""
    xp = rnd.xp
    gap = xp.expm1(xp.clip(-log_w, 0.0, LARGEST_EXPONENT))
    ratio = mass / xp.where(gap > 0, mass + gap, 1.0)
    return xp.where(log_w >= -rnd.tolerance, 1.0, xp.where(log_w > -xp.inf, ratio, 0.0))


def draw(xp: Any, weights: Array, uniforms: Array) -> Array:
    """Inverse-CDF draw from unnormalised weights [B, V] with one uniform each.

    The token is the first index whose cumulative weight exceeds ``u * total`` (half-open
    buckets; tokens of weight zero are never drawn); if rounding leaves none, the last index of
    positive weight.
    """
    size = weights.shape[-1]
    positive = weights > 0
    cumulative = xp.cumulative_sum(weights, axis=-1, dtype=xp.float64)
    threshold = xp.astype(uniforms, xp.float64)[:, None] * cumulative[:, -1:]
    hit = positive & (cumulative > threshold)
    first = xp.argmax(xp.astype(hit, xp.uint8), axis=-1)
    last = size - 1 - xp.argmax(xp.astype(xp.flip(positive, axis=-1), xp.uint8), axis=-1)
    return xp.where(xp.any(hit, axis=-1), first, last)


def draw_or_target(rnd: Round, weights: Array, p: Array, uniforms: Array) -> Array:
    """Draw from ``weights``, or from p where their mass is of rounding size (then p = q)."""
    usable = total(rnd.xp, weights) > rnd.tolerance
    return draw(rnd.xp, rnd.xp.where(usable[:, None], weights, p), uniforms)


def deepest(rnd: Round, uniforms: Array, thresholds: Array) -> Array:
    """The largest i with ``u_i < h_i`` [B] (0 if none); ``thresholds`` [B, g] for i = 1..g."""
    accepted = rnd.full(0, rnd.xp.int64)
    for i in range(rnd.gamma):
        passed = uniforms[:, i] < thresholds[:, i]
        accepted = rnd.xp.where(passed, i + 1, accepted)
    return accepted


def at_least(rnd: Round, thresholds: Array) -> Array:
    """P(tau >= i | drafts) [B, g] of a rule that keeps the deepest success."""
    misses = rnd.xp.flip(1.0 - thresholds, axis=1)
    return 1.0 - rnd.xp.flip(rnd.xp.cumulative_prod(misses, axis=1), axis=1)


def columns(rnd: Round, values: list[Array]) -> Array:
    """Stack [B] arrays into [B, len(values)]; an empty list gives [B, 0]."""
    if values:
        return rnd.xp.stack(values, axis=1)
    shape = (rnd.batch.shape[0], 0)
    return rnd.xp.zeros(shape, dtype=rnd.xp.float64, device=device(rnd.batch))
