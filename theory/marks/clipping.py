"""The best split at one node: clip the wished ratios between two levels.

At a node, token x of draft probability q(x) wishes the multiplier R(x) (its target mass over its
draft mass); what can be handed out is a label law mu of mean m over label values z. The
multipliers T(x) that some kernel realises are those below mu in convex order, and acceptance
loses E_q (R - T)_+. The loss is smallest for

    L  = max_t [ E_q (R - t)_+ - E_mu (z - t)_+ ]          (attained at an atom of mu)
    c  : E_q (R - c)_+ = L         c' : E_q (c' - R)_+ = L + m - E_q R
    T  = min(max(R, c'), c) ,      loss L,

and this T is also the least spread among all that lose L, which leaves most to later levels.
(An equation with right side 0 leaves its level free beyond the extreme R. If the two levels then
cross, all wishes lie on one side of the mean, and T = m.)

*Proof.* (R - t)_+ <= (R - T)_+ + (T - t)_+ and E(T - t)_+ <= E_mu(z - t)_+ bound the loss from
below by L. At the t that attains L, E(R - t)_+ >= L and E(t - R)_+ >= L + m - ER, so
c' <= t <= c. Then E T = m, the loss of T is E(R - c)_+ = L, and E(T - t)_+ <= E_mu(z - t)_+:
for t >= c the left side is 0; for t in [c', c] it is E(R - t)_+ - L; below c' it is m - t. QED
Derived here; the bound at K drafts is the optimal transport value (Hu et al. 2025).
"""

from __future__ import annotations

import numpy as np

from theory.fields import Array, divide, maximum, minimum, positive_part


def shortfall(wishes: Array, masses: Array, marks: Array, values: Array) -> Array:
    """L [..., 1], the acceptance that no kernel can give.

    Args:
        wishes: [..., n] R of each atom; ``masses`` [..., n] its draft probability.
        marks: [..., B] label law mu; ``values`` [B] label values z.
    """
    wanted = (masses[..., None] * positive_part(wishes[..., None] - values)).sum(axis=-2)
    offered = (marks[..., None] * positive_part(values[:, None] - values)).sum(axis=-2)
    return np.asarray((wanted - offered).max(axis=-1, keepdims=True))


def clip_levels(wishes: Array, masses: Array, marks: Array, values: Array) -> tuple[Array, Array]:
    """The clipping levels (c', c), each of shape [..., 1].

    A convex piecewise linear function is the maximum of its chords, so both equations are solved
    in closed form: c = max over upper tails A of (E[R; A] - L) / q(A), and c' likewise.

    Args:
        wishes: [..., n] ascending; the rest as in :func:`shortfall`.
    """
    short = shortfall(wishes, masses, marks, values)
    moments = masses * wishes
    mean = (marks * values).sum(axis=-1, keepdims=True)
    surplus = short + mean - moments.sum(axis=-1, keepdims=True)
    below, below_moment = masses.cumsum(axis=-1), moments.cumsum(axis=-1)
    above = masses[..., ::-1].cumsum(axis=-1)
    above_moment = moments[..., ::-1].cumsum(axis=-1)
    with np.errstate(over="ignore"):  # a tail of mass 1e-310 is no constraint
        tops = divide(above_moment - short, above)
        bottoms = divide(below_moment + surplus, below)
    bottoms = np.where(below > 0, bottoms, bottoms[..., -1:])
    low, high = bottoms.min(axis=-1, keepdims=True), tops.max(axis=-1, keepdims=True)
    crossed = high < low
    return np.where(crossed, mean, low), np.where(crossed, mean, high)


def clipped(wishes: Array, masses: Array, marks: Array, values: Array) -> Array:
    """T = min(max(R, c'), c) [..., n], the optimal multipliers; ``wishes`` ascending."""
    low, high = clip_levels(wishes, masses, marks, values)
    return np.asarray(minimum(maximum(wishes, low), high))
