"""Scalar steps along a draft, in float64: token probabilities, running ratios, acceptance tests.

The functions mirror ``sim.verifiers._common``, with the same treatment of zeros and of rounding;
they work on blocks of requests. A row's statistics are (m, s): p(x) = exp(l(x) - m) / s.
"""

from __future__ import annotations

import triton
import triton.language as tl

TOLERANCE = tl.constexpr(16 * 2.0**-23)
"""Log ratios above -TOLERANCE count as ratio 1, residual masses up to it as zero."""
LARGEST_EXPONENT = tl.constexpr(700.0)


@triton.jit
def row_log_norm(stats, row, mask):
    """log sum_x exp(l(x)) of rows."""
    top = tl.load(stats + 2 * row, mask=mask, other=0.0)
    return top + tl.log(tl.load(stats + 2 * row + 1, mask=mask, other=1.0))


@triton.jit
def token_log(rows, stats, row, token, vocab, mask):
    """log p(token) of rows, float64."""
    place = row.to(tl.int64) * vocab + token
    logit = tl.load(rows + place, mask=mask, other=0.0).to(tl.float32).to(tl.float64)
    return logit - row_log_norm(stats, row, mask)


@triton.jit
def log_divide(log_p, log_q):
    """log(p/q): -inf where p = 0, +inf where only q = 0."""
    positive = log_p > float("-inf")
    return tl.where(positive, tl.where(positive, log_p, 0.0) - log_q, float("-inf"))


@triton.jit
def advance(log_w, log_p, log_q):
    """log W after one more token; W = 0 stays."""
    step = log_divide(log_p, log_q)
    dead = (step == float("-inf")) | (log_w == float("-inf"))
    moved = tl.where(dead, 0.0, log_w) + tl.where(dead, 0.0, step)
    return tl.where(dead, float("-inf"), moved)


@triton.jit
def probability(log_h):
    """min(1, h): exactly 1 above -TOLERANCE, exactly 0 at -inf."""
    return tl.where(log_h >= -TOLERANCE, 1.0, tl.exp(tl.minimum(log_h, 0.0)))


@triton.jit
def block_probability(mass, log_w):
    """h = s/(s + 1/W - 1): 1 where W >= 1, 0 where W = 0 or the residual is empty."""
    alive = log_w > float("-inf")
    mass = tl.where(alive & (mass > TOLERANCE), mass, 0.0)
    gap = tl.exp(tl.minimum(tl.maximum(-log_w, 0.0), LARGEST_EXPONENT)) - 1.0
    ratio = mass / tl.where(gap > 0, mass + gap, 1.0)
    return tl.where(log_w >= -TOLERANCE, 1.0, tl.where(alive, ratio, 0.0))


@triton.jit
def inverse(log_w):
    """1/W as a finite float64; 0 at W = inf."""
    return tl.exp(tl.minimum(tl.maximum(-log_w, -LARGEST_EXPONENT), LARGEST_EXPONENT))
