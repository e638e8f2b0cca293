"""Verification against a mixture of target and draft (DIVERSED; static or dynamic).

    nu = w p + (1 - w) q,   acc(x) = min(1, nu(x)/q(x)) = min(1, 1 - w + w p(x)/q(x)),
    corr = norm((nu - q)_+) = norm((p - q)_+)   (the factor w cancels).

w is the weight of the TARGET: 1 is lossless, 0 keeps every draft. alpha = 1 - w TV(p, q) and
TV(p, nu) = (1 - w) TV(p, q). A constant w is the static ensemble; a function or mapping of the
prefix is the dynamic one (DIVERSED learns it: one scalar a position, from both hidden states).

The bonus comes from p (``bonus="target"``, as in engines, where q was never computed there), so
the text is not AR(nu) and depends on gamma; ``bonus="ensemble"`` spends one more draft step and
gives exactly AR(nu).

Slots: as ``theory.verifiers.relaxed``. Sources: DIVERSED (arXiv 2604.07622); static mixtures:
Speculative Ensemble (arXiv 2502.01662) and ``assistant_ensemble_weight`` in transformers.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.fields import Array, Number, divide, minimum
from theory.laws import mixture, residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round
from theory.verifiers.relaxed import BonusSource, Dial, Position, always, dial, verify


def position(p: Array, q: Array, w: Number | str = "1/2", bonus: str = "target") -> Position:
    """Acceptance and correction at one position."""
    del bonus
    weight = dial(w, p, "w", 0, 1)
    return Position(minimum(1, 1 - weight + weight * divide(p, q)), residual(p, q))


def declared(p: Array, q: Array, w: Number | str = "1/2", bonus: str = "target") -> Array:
    """nu = w p + (1 - w) q."""
    del bonus
    return mixture(dial(w, p, "w", 0, 1), p, q)


def lossless_at(w: Dial = "1/2", bonus: str = "target") -> bool:
    """Exactly at w = 1, with either bonus."""
    del bonus
    return always(w, lambda value: value == 1)


def bonus_from(w: Dial = "1/2", bonus: str = "target") -> BonusSource:
    """The target, or the mixture.

    Raises:
        ValueError: any other word.
    """
    del w
    if bonus not in ("target", "ensemble"):
        raise ValueError(f"bonus {bonus!r} is unknown; use 'target' or 'ensemble'")
    return "target" if bonus == "target" else "declared"


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    w: Dial = "1/2",
    bonus: str = "target",
) -> Round:
    """One round of ensemble verification."""
    last = declared if bonus_from(bonus=bonus) == "declared" else None
    return verify(fx, target, draft, drafts, carry, position, {"w": w}, last)
