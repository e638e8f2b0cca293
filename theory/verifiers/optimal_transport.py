"""Optimal transport at every position: a selection by labels that attains alpha* exactly.

At a position with n survivors the winner among their tokens should have the clipped law g = q T of
``theory.transport.one_position``, which accepts alpha* = sum min(p, g). It is realised without a
transport plan over sets of tokens: every survivor draws a label from a law that depends on its own
token only, and the first with the highest label wins. With tokens in order of T, label b being the
b-th of probability w_b = q(x_b),

    z_b = (S_b^n - S_{b-1}^n)/w_b ,   S_b = w_0 + .. + w_b ,   g(x) = q(x) sum_b k(b|x) z_b ,

and a kernel k of means T that keeps the labels' law exists, because g(A) <= phi_n(q(A)) says that
T is a contraction of z (Hardy, Littlewood and Polya); ``theory.marks.coupling`` builds one. The
winner is kept with min(1, p/g), else the correction is drawn from norm((p - g)_+).

Several positions: the drafts that hold the kept token survive, as in K-SEQ; their next tokens are
again i.i.d., so the rule is lossless. It is optimal at each position, not over the block.

Slots: ``i * (K + 1) + j`` for the label of draft j (original index) at position i + 1,
``i * (K + 1) + K`` for its test, ``gamma * (K + 1)`` for the emitted token.

Value: Khisti et al. 2024 (2410.18234), Hu et al. 2025 (2502.18779); the sampler is derived here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from theory.effects import Effects
from theory.fields import Array, Number, divide, minimum
from theory.laws import residual
from theory.marks.coupling import mix
from theory.models import Prefix, Rows
from theory.transport.one_position import clipped_law
from theory.verifiers.common import Carry, Round


def selection(p: Array, q: Array, count: int) -> tuple[Array, Array]:
    """How ``count`` survivors are compared, and whom that favours.

    Returns:
        The label law of every token [V, labels], and the law g [V] of the winner.
    """
    return _selection(tuple(p), tuple(q), count, p.dtype)


@lru_cache(maxsize=4096)
def _selection(
    p_row: tuple[Number, ...], q_row: tuple[Number, ...], count: int, dtype: np.dtype[np.generic]
) -> tuple[Array, Array]:
    p, q = np.array(p_row, dtype=dtype), np.array(q_row, dtype=dtype)
    multiplier = divide(clipped_law(p, q, count)[0], q)
    tokens = sorted((x for x in range(len(q)) if q[x] > 0), key=lambda x: multiplier[x])
    masses = q[tokens]
    tops = np.cumsum(masses)
    bottoms = tops - masses
    values = sum(tops**i * bottoms ** (count - 1 - i) for i in range(count))
    kernel = np.repeat(q[:, None] * 0, len(tokens), axis=1)
    kernel[tokens] = mix(multiplier[tokens], masses, masses, values)
    return kernel, q * (kernel * values).sum(axis=1)


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round of optimal transport, position by position, on K drafts of equal length."""
    gamma, num_drafts = len(drafts[0]), len(drafts)
    survivors = list(range(num_drafts))
    path: Prefix = ()
    for i in range(gamma):
        p, q = target(path), draft(path)
        kernel, law = selection(p, q, len(survivors))
        first = i * (num_drafts + 1)
        labels = {j: fx.choose(kernel[drafts[j][i]], first + j) for j in survivors}
        x = drafts[max(survivors, key=lambda j: (labels[j], -j))][i]
        if not fx.flip(minimum(1, p[x] / law[x]), first + num_drafts):
            break
        path = (*path, x)
        survivors = [j for j in survivors if drafts[j][i] == x]
    else:
        return Round(gamma, (*path, fx.choose(target(path), gamma * (num_drafts + 1))))
    return Round(i, (*path, fx.choose(residual(p, law), gamma * (num_drafts + 1))))
