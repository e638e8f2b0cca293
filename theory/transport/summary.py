"""``bounds``: how long a round can be on a pair of models, whatever the rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from theory.fields import EXACT, SYMBOLIC, Field, Number
from theory.inputs import whole
from theory.models import RowTree, as_model, check_pair
from theory.transport.certificates import block_optimum
from theory.transport.one_position import optimum
from theory.transport.tree_bounds import cic_value, level_wise, marginal

MOST_DRAFTS = 1000
"""Most drafts a round: certificates hold K-th powers as fractions."""


@dataclass(frozen=True)
class Bounds:
    """Optima and bounds of E[tau] for K i.i.d. drafts of gamma tokens.

    ``cic <= block_optimum <= level_wise <= marginal`` and ``stateless_optimum <= block_optimum``,
    with equality of the first four for one draft.

    Attributes:
        alpha_star: the largest acceptance probability of the first position.
        block_optimum: the largest E[tau] of any lossless rule.
        stateless_optimum: the largest of the rules that never change later targets.
        cic: the value claimed for SpecTr-GBV, attainable.
        level_wise: sum of the one-position optima of whole strings, level by level.
        marginal: sum over strings of min(P, chance that it is drafted).
        certificates: proofs of the two optima, by name; ``theory.transport.check_certificate``
            checks them. The optima above are the proved upper bounds; where the certificate's
            ``lower`` equals its ``upper``, they are exact.
    """

    alpha_star: Number
    block_optimum: Number
    stateless_optimum: Number
    cic: Number
    level_wise: Number
    marginal: Number
    certificates: dict[str, dict[str, Any]]


def bounds(
    target: Any, draft: Any, gamma: int = 1, num_drafts: int = 2, field: Field | str = EXACT
) -> Bounds:
    """All bounds for a pair of models.

    Args:
        target, draft: models, or anything ``load_model`` reads (a bare row, a file, parsed JSON).
        gamma: draft length of a round.
        num_drafts: K i.i.d. drafts a round.
        field: ``"exact"`` or ``"float"``, for models given as rows.

    Returns:
        Fractions for exact models, floats for float ones (whose certificates are about their rows
        rounded to multiples of 2^-52).

    Raises:
        ValueError: gamma or K below 1, models that do not match, or too many strings.
    """
    gamma = whole(gamma, "gamma")
    num_drafts = whole(num_drafts, "num_drafts", most=MOST_DRAFTS)
    p_model, q_model = as_model(target, field, "target"), as_model(draft, field, "draft")
    check_pair(p_model, q_model)
    if p_model.field is SYMBOLIC:
        raise ValueError("optima are found by comparing numbers; use field='exact' or 'float'")
    p, q = RowTree.of(p_model, gamma), RowTree.of(q_model, gamma)
    free = block_optimum(p, q, num_drafts)
    stateless = block_optimum(p, q, num_drafts, stateless=True)
    public = p_model.field.public
    exact = p_model.field is EXACT
    return Bounds(
        alpha_star=public(optimum(p.levels[0][0], q.levels[0][0], num_drafts)),
        block_optimum=free.upper if exact else float(free.upper),
        stateless_optimum=stateless.upper if exact else float(stateless.upper),
        cic=public(cic_value(p, q, num_drafts)),
        level_wise=public(level_wise(p, q, num_drafts)),
        marginal=public(marginal(p, q, num_drafts)),
        certificates={
            "block_optimum": free.certificate,
            "stateless_optimum": stateless.certificate,
        },
    )
