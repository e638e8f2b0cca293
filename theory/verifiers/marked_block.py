"""Marked block verification: K drafts, one winner by marks, block verification of the winner.

Each draft draws a label from the label law of its path, the first draft with the highest label
wins, and block verification judges it against its own law G = Q T (``theory.marks``). Lossless
for every kernel of labels and every number of drafts; it keeps no state. A block accepts

    E[tau] = sum_v P(v) min over prefixes u of v of min(1, G(u)/P(u)) ,

within a fraction of a percent of the best stateless rule (``theory.marks.table``).

Params: ``cells`` B, ``coupling`` and ``histogram`` as in ``theory.marks.Scheme``. The coupling
``entmix`` treats the last level of a block in its own way, which needs drafts of equal length;
the others allow every stopping time.

Slots: ``k`` (0 <= k < K) for the label of draft k; ``K + i - 1`` for the test of length i of the
winner (i = gamma..1, the first success wins); ``K + gamma`` for the emitted token.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.marks import Coupling, Scheme, winner_law
from theory.models import Prefix, Rows
from theory.verifiers.block import judge
from theory.verifiers.common import Carry, Round


def block_depth(scheme: Scheme, drafts: tuple[Prefix, ...]) -> int:
    """Levels of the block.

    Raises:
        ValueError: unequal lengths, when the scheme treats the last level in its own way.
    """
    lengths = {len(path) for path in drafts}
    if len(lengths) > 1 and scheme.inner is not scheme.last:
        raise ValueError(
            f"drafts have lengths {sorted(lengths)}, but the coupling treats the last level in its "
            "own way; draft equal lengths or use coupling='mix'"
        )
    return max(lengths)


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    cells: int = 8,
    coupling: str | Coupling = "mix",
    histogram: bool = True,
) -> Round:
    """One round of marked block verification.

    Raises:
        ValueError: unknown coupling, drafts of unequal length under ``entmix``.
    """
    scheme = Scheme.of(len(drafts), cells, fx.field, coupling, histogram)
    law = winner_law(target, draft, scheme, block_depth(scheme, drafts), capped=True)
    winner = law.choose(fx, drafts)
    tau, rest = judge(fx, target, law.row, winner, len(drafts))
    return Round(tau, (*winner[:tau], fx.choose(rest, len(drafts) + len(winner))))
