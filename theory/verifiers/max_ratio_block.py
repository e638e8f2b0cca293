"""Max-ratio block verification: follow the drafted token of largest p/q, then verify that path.

Level by level the drafts that hold the token of largest ratio p/q among the n survivors are kept
(ties go to the lower token). The selected token has the law

    qhat_n(x) = F(x)^n - F(x-)^n ,   F = distribution function of q in increasing order of p/q,

and block verification runs on the selected path with qhat in place of q, n the survivors before
each level. Lossless, because n depends on the drafts only and enters target and qhat alike. No
state. It attains the one-position optimum where the minimiser is {qhat > p}, but falls behind one
draft for many drafts or p close to q, since a strict order spreads qhat away from q.

Slots: as block verification.

Idea: greedy multi-path block verification, Thomas and Pal 2026 (2602.16961); derived here.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.fields import Array, is_zero
from theory.models import Prefix, Rows
from theory.verifiers.block import judge
from theory.verifiers.common import Carry, Round


def ranked(p: Array, q: Array) -> list[int]:
    """The tokens that can be drafted, in increasing order of p/q, the lower of equals last."""
    tokens = [x for x in range(len(q)) if not is_zero(q[x])]
    return sorted(tokens, key=lambda x: (p[x] / q[x], -x))


def selected_law(p: Array, q: Array, count: int) -> Array:
    """qhat_n: the law of the token of largest ratio among ``count`` draws from q."""
    law, below = 0 * q, 0 * q[0]
    for x in ranked(p, q):
        law[x] = (below + q[x]) ** count - below**count
        below = below + q[x]
    return law


def select(target: Rows, draft: Rows, drafts: tuple[Prefix, ...]) -> tuple[Prefix, list[int]]:
    """The selected path, and the number of survivors before each of its levels."""
    path: Prefix = ()
    counts: list[int] = []
    survivors = drafts
    for i in range(len(drafts[0])):
        counts.append(len(survivors))
        place = ranked(target(path), draft(path)).index
        path = (*path, max((d[i] for d in survivors), key=place))
        survivors = tuple(d for d in survivors if d[i] == path[i])
    return path, counts


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round of max-ratio block verification on K i.i.d. drafts of equal length."""
    path, counts = select(target, draft, drafts)

    def selected(prefix: Prefix) -> Array:
        return selected_law(target(prefix), draft(prefix), counts[len(prefix)])

    tau, law = judge(fx, target, selected, path, 0)
    return Round(tau, (*path[:tau], fx.choose(law, len(path))))
