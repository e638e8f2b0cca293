"""Sequential greedy block verification: greedy block verification of one draft after another.

The first draft is verified as in ``greedy_block`` and leaves a node v and a layer, the modification
of the target of later nodes of depth < gamma. Every later draft that runs through v is verified
from v on, with block length gamma - |v|, against the target as modified so far, and may add a layer
on top; drafts that leave the path are skipped. The emitted token comes from the modified target,
and the layers are handed to the next rounds. With one draft it is greedy block verification.

Slots: ``k * gamma + i - 1`` for the test of length i on draft k, ``K * gamma`` for the last token.

Derived here; greedy block verification is Sun et al. 2024 (2403.10444), appendix.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round, below
from theory.verifiers.greedy_block import Layer, finish, judge, layers_after, modified_target


def program(
    fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
) -> Round:
    """One round on K i.i.d. drafts of equal length; ``carry`` is a tuple of ``Layer``."""
    gamma, num_drafts = len(drafts[0]), len(drafts)
    layers: tuple[Layer, ...] = carry  # type: ignore[assignment]
    kept: Prefix = ()
    for k, path in enumerate(drafts):
        depth = len(kept)
        if path[:depth] != kept or depth == gamma:
            continue
        p, q, block = below(target, kept), below(draft, kept), path[depth:]
        tau = judge(fx, modified_target(p, q, layers), q, block, k * gamma + depth)
        layers = layers_after(layers, p, q, block[:tau], len(block))
        kept = path[: depth + tau]
    return finish(fx, target, draft, layers, kept, num_drafts * gamma)
