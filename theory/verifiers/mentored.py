"""Mentored decoding: verification against the clip law (Tran-Thien 2023).

    nu = clip(q, lo p, hi p),   acc(x) = min(1, hi p(x)/q(x)),   corr = norm((lo p - q)_+),

with lo tied to hi by normalisation. hi = 1 is lossless. ``theory.clip`` proves that no rule with
as much acceptance is closer to p in any f-divergence. Give ``hi`` (exact), or ``budget``, the
largest KL(p || nu) in nats at each position (floats); a budget replaces hi.

Slots: as ``theory.verifiers.relaxed``. Sources: Tran-Thien 2023, "An optimal lossy variant of
speculative decoding"; Tran-Thien and Nock (arXiv 2609.30474).
"""

from __future__ import annotations

from theory import clip
from theory.effects import Effects
from theory.fields import Array, Number, divide, field_of, minimum
from theory.laws import residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round
from theory.verifiers.relaxed import Dial, Position, always, from_target, verify

bonus_from = from_target


def _upper(p: Array, q: Array, hi: Number | str, budget: float | None) -> Number:
    return field_of(p).number(hi) if budget is None else clip.upper_for_kl(p, q, budget)


def position(p: Array, q: Array, hi: Number | str = "3/2", budget: float | None = None) -> Position:
    """Acceptance and correction at one position."""
    upper = _upper(p, q, hi, budget)
    accept = minimum(1, divide(upper * p, q))
    return Position(accept, residual(p, q, clip.lower(p, q, upper)))


def declared(p: Array, q: Array, hi: Number | str = "3/2", budget: float | None = None) -> Array:
    """nu = clip(q, lo p, hi p)."""
    return clip.clip_law(p, q, _upper(p, q, hi, budget))


def lossless_at(hi: Dial = "3/2", budget: Dial | None = None) -> bool:
    """Exactly at hi = 1, or with a KL budget of 0."""
    if budget is not None:
        return always(budget, lambda value: value == 0)
    return always(hi, lambda value: value == 1)


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    hi: Dial = "3/2",
    budget: Dial | None = None,
) -> Round:
    """One round of mentored verification."""
    return verify(fx, target, draft, drafts, carry, position, {"hi": hi, "budget": budget})
