"""Block verification (Sun et al. 2024, arXiv 2403.10444).

With the clipped running ratio Wc_0 = 1, Wc_i = min(1, Wc_{i-1} p(x_i)/q(x_i)), a prefix of length
i passes with probability h_i; the longest passing prefix is kept and the next token drawn from
norm((Wc_i p - q)_+), or from p after the whole block:

    z_i = sum_x (Wc_i p(x) - q(x))_+ ,   h_i = z_i / (z_i + 1 - Wc_i) ,   h_gamma = Wc_gamma .

P(tau >= i | x_1..x_i) = Wc_i whatever lies below (backward induction: h + (1 - h)(Wc - z) = Wc),
so the end of the block enters only through h_gamma: the rule is lossless for every stopping time.

Slots: ``i - 1`` for the test of length i (i = gamma..1, the first success wins), ``gamma`` for the
emitted token.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.fields import Array, Number, is_zero, minimum, positive_part
from theory.laws import residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round, only_draft


def clipped_ratios(target: Rows, draft: Rows, path: Prefix, one: Number) -> list[Number]:
    """Wc_0..Wc_gamma along a path."""
    ratios = [one]
    for i, x in enumerate(path):
        p, q = target(path[:i]), draft(path[:i])
        ratios.append(minimum(one, ratios[-1] * p[x] / q[x]))
    return ratios


def pass_probability(ratio: Number, p: Array, q: Array) -> Number:
    """h_i at an inner node with running ratio ``ratio``; 1 where no correction is ever emitted."""
    z = positive_part(ratio * p - q).sum()
    denominator = z + 1 - ratio
    return 1 if is_zero(denominator) else z / denominator


def judge(fx: Effects, target: Rows, draft: Rows, path: Prefix, slot: int) -> tuple[int, Array]:
    """The length kept of a drafted path, and the law of the token after it.

    The test of length i reads slot ``slot + i - 1``.
    """
    gamma = len(path)
    ratios = clipped_ratios(target, draft, path, fx.field.one)
    if gamma == 0 or fx.flip(ratios[gamma], slot + gamma - 1):
        return gamma, target(path)
    for i in range(gamma - 1, -1, -1):
        p, q = target(path[:i]), draft(path[:i])
        if i == 0 or fx.flip(pass_probability(ratios[i], p, q), slot + i - 1):
            break
    return i, residual(p, q, ratios[i])


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round of block verification."""
    path = only_draft(drafts, "block verification")
    tau, law = judge(fx, target, draft, path, 0)
    return Round(tau, (*path[:tau], fx.choose(law, len(path))))
