"""What adaptive rules believe about acceptance.

An *estimator* returns one number for each token of a path: the estimated probability that the
token is accepted, given its value and that everything before it was. An *outlook* returns one
number for the tokens to come. The truth, which an exact model can compute, is among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from theory.fields import Number, field_of, minimum
from theory.models import Prefix, Rows
from theory.windows.rule import Sight

Estimator = Callable[[Prefix, Rows], Sequence[Number]]
"""``estimator(path, draft)``: acceptance of each token of ``path``."""

Outlook = Callable[[Prefix, Rows], Number]
"""``outlook(path, draft)``: expected number of further tokens kept, if all of ``path`` is."""


def survival(estimates: Sequence[Number]) -> Number:
    """Probability that all the tokens are accepted: the product of the estimates."""
    return math.prod(estimates)


def confidence(path: Prefix, draft: Rows) -> list[Number]:
    """q(x_i): the draft's own probability of each token."""
    return [draft(path[:i])[x] for i, x in enumerate(path)]


def true_acceptance(path: Prefix, draft: Rows) -> list[Number]:
    """min(1, p/q)(x_i), the truth.

    Raises:
        ValueError: ``draft`` knows no target rows.
    """
    sight = _sight(draft)
    pairs = [(sight.target(path[:i])[x], draft(path[:i])[x]) for i, x in enumerate(path)]
    return [minimum(field_of(q).one, p / q) for p, q in pairs]


def true_gain(block: int = 1) -> Outlook:
    """E[a_1 + a_1 a_2 + ... + a_1 .. a_b] over the next ``block`` tokens, the truth.

    With ``block`` 1 this is the overlap sum min(p, q) at the row about to be sampled.
    """

    def outlook(path: Prefix, draft: Rows) -> Number:
        sight = _sight(draft)

        def gain(tail: Prefix) -> Number:
            row = draft(path + tail)
            if len(tail) == block:
                return field_of(row).zero
            kept = minimum(sight.target(path + tail), row)
            return sum(
                (mass * (1 + gain((*tail, x))) for x, mass in enumerate(kept) if mass != 0),
                start=field_of(row).zero,
            )

        return gain(())

    return outlook


def _sight(draft: Rows) -> Sight:
    if not isinstance(draft, Sight):
        raise ValueError(
            "the true acceptance needs rows that know the target; "
            "use AdaptiveDecoder, or give the rule another estimator"
        )
    return draft
