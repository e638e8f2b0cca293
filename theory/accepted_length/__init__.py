"""Expected accepted length E[tau] of one round, without assuming independent positions.

``E[tau]`` is the sum, over all strings of length 1 to gamma, of the probability that the round
keeps a prefix passing through that string. Each closed form below sums it over a *row tree*
(``theory.models.RowTree``), in rationals or floats; ``theory.generation`` enumerates the same
number from the programs, and tests hold the two together.

Beyond row trees: ``markov`` (E[tau] on Markov models, gamma in the hundreds), ``calls`` (E[T_N],
expected calls for N tokens, and the long-run rate), ``rounds`` (tokens after so many rounds of any
rule), ``plug_in`` (what the i.i.d. formula gets wrong, by the mean it is fed).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from theory.accepted_length.iid import IidPrediction, iid_prediction
from theory.accepted_length.kseq import kseq
from theory.accepted_length.lossy import LOSSY_FORMS
from theory.accepted_length.marked import marked_block, marked_greedy_block
from theory.accepted_length.multi import (
    max_ratio_block,
    recursive_rejection,
    sequential_block,
    sequential_greedy_block,
)
from theory.accepted_length.optimal_transport import optimal_transport
from theory.accepted_length.single import block, greedy_block, token
from theory.accepted_length.trees import drafted_mass, point_mass, traversal
from theory.fields import Number
from theory.inputs import whole
from theory.models import RowTree

ClosedForm = Callable[..., Number]

CLOSED_FORMS: dict[str, ClosedForm] = {
    "token": token,
    "block": block,
    "greedy_block": greedy_block,
    "kseq": kseq,
    "recursive_rejection": recursive_rejection,
    "sequential_block": sequential_block,
    "sequential_greedy_block": sequential_greedy_block,
    "max_ratio_block": max_ratio_block,
    "traversal": traversal,
    "point_mass": point_mass,
    "optimal_transport": optimal_transport,
    "marked_block": marked_block,
    "marked_greedy_block": marked_greedy_block,
    **LOSSY_FORMS,
}
"""``form(p_tree, q_tree, gamma[, num_drafts], **params)`` by verifier name."""


def expected_accepted(
    name: str, p_tree: RowTree, q_tree: RowTree, gamma: int, num_drafts: int = 1, **params: Any
) -> Number:
    """E[tau] of a verifier that has a closed form.

    Raises:
        ValueError: the verifier has none, gamma is below 1, or the trees are too shallow.
    """
    if name not in CLOSED_FORMS:
        raise ValueError(f"{name!r} has no closed form; enumerate it with theory.generation")
    gamma, num_drafts = whole(gamma, "gamma"), whole(num_drafts, "num_drafts")
    if min(p_tree.depth, q_tree.depth) < gamma:
        raise ValueError(f"row trees of depth {p_tree.depth} are too shallow for gamma {gamma}")
    form = CLOSED_FORMS[name]
    if name in ("token", "block", "greedy_block"):
        return form(p_tree, q_tree, gamma)
    return form(p_tree, q_tree, gamma, num_drafts, **params)


__all__ = [
    "CLOSED_FORMS",
    "IidPrediction",
    "block",
    "drafted_mass",
    "expected_accepted",
    "greedy_block",
    "iid_prediction",
    "kseq",
    "marked_block",
    "marked_greedy_block",
    "max_ratio_block",
    "point_mass",
    "recursive_rejection",
    "sequential_block",
    "sequential_greedy_block",
    "token",
    "traversal",
]
