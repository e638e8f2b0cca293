"""Typical acceptance (Medusa): keep what is not too unlikely under the target, without a coin.

    acc(x) = 1[p(x) > min(eps, delta e^{-Ent(p)})],   Ent in nats,
    nu = q on the accepted set + q(its complement) corr.

``correction="argmax"`` continues with the most likely token of the target, ``"target"`` with a
draw from p. Not lossless for any parameters: some set of tokens is accepted whatever q says. It
never emits a token of p = 0, and with a point-mass draft it accepts or not, without chance.

The entropy is in nats: with bits the threshold would be lower, delta e^{-Ent/ln 2}. Engines that
always accept the first token of a round are not described by this law there.

Slots: as ``theory.verifiers.relaxed``. Source: Medusa (arXiv 2401.10774), eq. 1; delta is
sqrt(eps) in its code.
"""

from __future__ import annotations

import math

import numpy as np

from theory.effects import Effects
from theory.fields import FLOAT, Array, Number, field_of
from theory.laws import entropy, point_mass
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round
from theory.verifiers.relaxed import Dial, Position, from_target, verify

bonus_from = from_target


def _scaled(p: Array, delta: Number | str) -> Number:
    return FLOAT.number(delta) * math.exp(-float(entropy(p)))


def threshold(p: Array, eps: Number | str = "9/100", delta: Number | str = "3/10") -> float:
    """min(eps, delta e^{-Ent(p)}), as a float."""
    return float(min(FLOAT.number(eps), _scaled(p, delta)))


def typical_set(p: Array, eps: Number | str = "9/100", delta: Number | str = "3/10") -> Array:
    """[V] booleans: p above the threshold; the comparison with eps is exact on exact rows."""
    likely = np.asarray(p, dtype=np.float64) > _scaled(p, delta)
    return np.asarray(likely | (p > field_of(p).number(eps)))


def _correction(p: Array, correction: str) -> Array:
    if correction == "target":
        return p
    if correction != "argmax":
        raise ValueError(f"correction {correction!r} is unknown; use 'argmax' or 'target'")
    return point_mass(int(np.argmax(p)), len(p), field_of(p))


def position(
    p: Array,
    q: Array,
    eps: Number | str = "9/100",
    delta: Number | str = "3/10",
    correction: str = "argmax",
) -> Position:
    """Acceptance and correction at one position."""
    accept = field_of(p).array(typical_set(p, eps, delta).astype(int))
    return Position(accept, _correction(p, correction))


def declared(
    p: Array,
    q: Array,
    eps: Number | str = "9/100",
    delta: Number | str = "3/10",
    correction: str = "argmax",
) -> Array:
    """nu: q on the typical set, and the rest of its mass on the correction."""
    kept = np.where(typical_set(p, eps, delta), q, 0 * q)
    return kept + (q - kept).sum() * _correction(p, correction)  # type: ignore[no-any-return]


def lossless_at(eps: Dial = "9/100", delta: Dial = "3/10", correction: str = "argmax") -> bool:
    """Never: the accepted set is emitted with the draft's probabilities."""
    del eps, delta, correction
    return False


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    eps: Dial = "9/100",
    delta: Dial = "3/10",
    correction: str = "argmax",
) -> Round:
    """One round of typical acceptance."""
    params = {"eps": eps, "delta": delta, "correction": correction}
    return verify(fx, target, draft, drafts, carry, position, params)
