"""Lenience: a draft may be 1/l times likelier than under the target (Leviathan et al. 2023).

    acc(x) = min(1, p(x)/(l q(x))),   corr = norm((p - s q)_+),
    nu = min(q, p/l) + (1 - alpha) corr,   0 < l <= 1.

The residuals of public code are values of s: ``"stock"`` (s = 1, the residual of exact
verification), ``"scaled"`` (s = l), ``"target"`` (s = 0: correct from p itself); any s >= 0 works.

* stock is on the TV frontier: nu lies between p and q, and the coupling is maximal;
* stock and scaled keep the promise nu <= p/l; the target residual breaks it;
* with (l, s) = (1 - kappa, beta) it is the (kappa, beta) lossy rule, whose law is the universal
  optimum (``theory.clip``) exactly when beta matches kappa: (1 - alpha) corr = (p/beta - q)_+.

Slots: as ``theory.verifiers.relaxed``. Sources: Leviathan et al. 2023, appendix A.5; lossy
speculative decoding in speculative cascades (arXiv 2405.19261); properties derived here.
"""

from __future__ import annotations

import numpy as np

from theory.effects import Effects
from theory.fields import Array, Number, divide, minimum, positive_part
from theory.laws import normalise
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round
from theory.verifiers.relaxed import Dial, Position, always, dial, from_target, verify

bonus_from = from_target

LARGEST_SCALE = 10**6
"""Largest s: far beyond it the residual is empty on every pair of laws but exotic ones."""


def _dials(p: Array, lenience: Number | str, residual: Number | str) -> tuple[Number, Number]:
    """(l, s) as numbers of the field of ``p``."""
    least = dial(lenience, p, "lenience", 0, 1)
    if least == 0:
        raise ValueError("lenience = 0 divides by zero; use a positive value, or ensemble w=0")
    named = {"stock": 1, "scaled": least, "target": 0}
    scale = named.get(residual, residual) if isinstance(residual, str) else residual
    return least, dial(scale, p, "residual", 0, LARGEST_SCALE)


def position(
    p: Array, q: Array, lenience: Number | str = "1/2", residual: Number | str = "stock"
) -> Position:
    """Acceptance and correction at one position."""
    least, scale = _dials(p, lenience, residual)
    correction = normalise(positive_part(p - scale * q), fallback=p)
    return Position(minimum(1, divide(p, least * q)), correction)


def declared(
    p: Array, q: Array, lenience: Number | str = "1/2", residual: Number | str = "stock"
) -> Array:
    """nu = min(q, p/l) + the rejected mass, spread like (p - s q)_+."""
    least, scale = _dials(p, lenience, residual)
    kept = minimum(q, p / least)
    excess = positive_part(p - scale * q)
    mass = excess.sum()
    return np.asarray(kept + (1 - kept.sum()) * (p if mass == 0 else excess / mass))


def lossless_at(lenience: Dial = "1/2", residual: Dial = "stock") -> bool:
    """Exactly at l = 1 with s = 1."""
    unscaled = residual in ("stock", "scaled") or (
        residual != "target" and always(residual, lambda value: value == 1)
    )
    return unscaled and always(lenience, lambda value: value == 1)


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    lenience: Dial = "1/2",
    residual: Dial = "stock",
) -> Round:
    """One round of lenient verification."""
    params = {"lenience": lenience, "residual": residual}
    return verify(fx, target, draft, drafts, carry, position, params)
