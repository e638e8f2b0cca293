"""Sequential block verification: block verification of one draft after another.

The first draft is verified as a block and leaves a node v (the kept prefix) with a residual law R
for the next token. Every later draft that runs through v is verified as a block from v on, with R
in place of p at v and p below; drafts that leave the path are skipped. The last R gives the
correction (p the bonus). Lossless, since each step is a lossless verification of what the step
before left to do and later drafts are independent of it; stateless, since R covers one token.
With gamma = 1 it is recursive rejection with replacement.

Slots: ``k * gamma + i - 1`` for the test of length i on draft k, ``K * gamma`` for the last token.

Derived here; block verification is Sun et al. 2024 (2403.10444).
"""

from __future__ import annotations

from theory.effects import Effects
from theory.fields import Array
from theory.models import Prefix, Rows
from theory.verifiers.block import judge
from theory.verifiers.common import Carry, Round, below


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round of sequential block verification on K i.i.d. drafts of equal length."""
    gamma, num_drafts = len(drafts[0]), len(drafts)
    kept: Prefix = ()
    law = target(())
    for k, path in enumerate(drafts):
        depth = len(kept)
        if path[:depth] != kept or depth == gamma:
            continue
        rows = _with_root(below(target, kept), law)
        tau, law = judge(fx, rows, below(draft, kept), path[depth:], k * gamma + depth)
        kept = path[: depth + tau]
    return Round(len(kept), (*kept, fx.choose(law, num_drafts * gamma)))


def _with_root(rows: Rows, law: Array) -> Rows:
    return lambda path: rows(path) if path else law
