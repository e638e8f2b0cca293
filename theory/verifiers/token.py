"""Token verification (Leviathan, Kalman, Matias 2023; Chen et al. 2023).

Drafted token x_i is kept with probability min(1, p(x_i)/q(x_i)), in order; the first failure is
replaced by a draw from norm((p - q)_+). Lossless: the kept mass of a token is min(p, q) and the
residual supplies the rest.

Slots: ``i`` for the test of drafted token i + 1 (i = 0..gamma-1), ``gamma`` for the last token.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.fields import minimum
from theory.laws import residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round, only_draft


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round of token verification."""
    path = only_draft(drafts, "token verification")
    for i, x in enumerate(path):
        p, q = target(path[:i]), draft(path[:i])
        if not fx.flip(minimum(1, p[x] / q[x]), i):
            return Round(i, (*path[:i], fx.choose(residual(p, q), len(path))))
    return Round(len(path), (*path, fx.choose(target(path), len(path))))
