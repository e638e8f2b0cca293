"""Recursive rejection sampling: each draft is tested against what the earlier ones left over.

At every position the drafts that agree with the accepted prefix are tried in order. With R = p
and d = q at first, draft token x is kept with probability min(1, R(x)/d(x)); after a refusal

    R becomes norm((R - d)_+),

and the token comes from the last R when all are refused. With ``replacement`` (SpecInfer) d stays
q: the drafts are i.i.d., and a copy of a refused token is refused for certain, since R is 0
there; it still updates R. Without (RSD, EAGLE-style siblings) the first tokens are drawn in turn
from what is left of q, so d is renormalised after each; deeper positions have one survivor.

Lossless: min(R, d) + (R - d)_+ = R at every step, whichever token was refused.

Slots: ``i * K + j`` for the test of draft j (original index) at position i + 1, ``gamma * K`` for
the emitted token. Needs ``theory.drafting.tree((K, 1, ..., 1), replacement)``.

Sources: Miao et al. 2023 (2305.09781); Jeon et al. 2024 (2402.14160), Yang et al. 2024
(2401.05633) for draws without replacement.
"""

from __future__ import annotations

from theory.drafting import without
from theory.effects import Effects
from theory.fields import minimum
from theory.laws import residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    replacement: bool = True,
) -> Round:
    """One round of recursive rejection on K drafts of equal length."""
    gamma, num_drafts = len(drafts[0]), len(drafts)
    survivors = list(range(num_drafts))
    path: Prefix = ()
    for i in range(gamma):
        left, law = target(path), draft(path)
        for j in survivors:
            x = drafts[j][i]
            if fx.flip(minimum(1, left[x] / law[x]), i * num_drafts + j):
                break
            left = residual(left, law)
            law = law if replacement else without(law, x)
        else:
            return Round(i, (*path, fx.choose(left, gamma * num_drafts)))
        path = (*path, x)
        survivors = [j for j in survivors if drafts[j][i] == x]
    return Round(gamma, (*path, fx.choose(target(path), gamma * num_drafts)))
