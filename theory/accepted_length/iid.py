"""The i.i.d. prediction of speculative decoding, kept beside the exact value for contrast.

If every drafted token were accepted independently with one probability alpha, a round would emit
1 + alpha + ... + alpha^gamma tokens (Leviathan et al. 2023, eq. 1). Real acceptance depends on
the context; the size and the sign of the error depend on which mean is plugged in for alpha.
"""

from __future__ import annotations

from dataclasses import dataclass

from theory.fields import Array, Number
from theory.laws import overlap
from theory.models import RowTree


def tokens_per_call(alpha: Number, gamma: int) -> Number:
    """``1 + alpha + ... + alpha^gamma``, summed term by term: no 0/0 at alpha = 1."""
    total = power = 1 + 0 * alpha
    for _ in range(gamma):
        power = power * alpha
        total = total + power
    return total


@dataclass(frozen=True)
class IidPrediction:
    """What the i.i.d. formula says for a pair of models.

    Attributes:
        alpha: the overlap averaged over the contexts that target text visits at the first gamma
            positions of a round.
        tokens_per_call: 1 + alpha + ... + alpha^gamma.
        accepted: the same without the correction or bonus token.
    """

    alpha: Number
    tokens_per_call: Number

    @property
    def accepted(self) -> Number:
        return self.tokens_per_call - 1


def mean_overlap(p_tree: RowTree, q_tree: RowTree, depth: int) -> Number:
    """The overlap averaged over target text at positions 1..depth."""
    reach: Array = p_tree.field.array([1])
    total = p_tree.field.zero
    for level in range(depth):
        p, q = p_tree.levels[level], q_tree.levels[level]
        total = total + (reach * overlap(p, q)).sum()
        reach = (reach[:, None] * p).reshape(-1)
    return total / depth


def iid_prediction(p_tree: RowTree, q_tree: RowTree, gamma: int) -> IidPrediction:
    """The i.i.d. formula at the mean overlap of the first ``gamma`` positions (one draft)."""
    alpha = mean_overlap(p_tree, q_tree, gamma)
    return IidPrediction(alpha, tokens_per_call(alpha, gamma))
