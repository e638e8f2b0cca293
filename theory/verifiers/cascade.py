"""Speculative cascades: verification against a deferral rule's law (Narasimhan et al. 2024).

A cascade answers with the draft where it looks good enough and defers to the target elsewhere.
With M_p = max p, M_q = max q, Ent in nats and knob kappa, the law nu that is verified against is

    chow      q if M_q >= 1 - kappa, else p
    chow_log  q if Ent(q) <= kappa, else p
    diff      q if M_q >= M_p - kappa, else p
    opt       q if M_q >= M_p - kappa TV(p, q), else p
    token_v*  nu(v) = q(v) [v kept] + eta p(v),  eta = q(dropped tokens);  v is dropped if
              token_v1: q(v) < M_p - kappa;  token_v2: p(v) < M_p - kappa;
              token_v3: p(v) < (1 - kappa) M_p

and acc(x) = min(1, nu(x)/q(x)), corr = norm((nu - q)_+). Hard switches lie on the TV frontier;
token rules do not, because eta p is added to kept tokens, which leaves the interval [p, q].

A dial at its smallest printed value need not be the exact rule. For all laws p, q of any
vocabulary (derived here): chow, chow_log, token_v2 and token_v3 are lossless exactly for
kappa < 0; diff and token_v1 for kappa <= -1; opt for kappa < -1, since M_q - M_p <= TV with
equality possible. At kappa = 0, chow keeps a one-hot q and the token rules keep the argmax of p.

The rows compared here are the rows verified; engines that sharpen p and q first but defer on
unsharpened rows follow another law. Slots: as ``theory.verifiers.relaxed``. Source: speculative
cascades (arXiv 2405.19261), with the rules of its public notebook.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from theory.effects import Effects
from theory.fields import Array, Number, field_of
from theory.laws import entropy, total_variation
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round
from theory.verifiers.relaxed import Dial, Position, always, from_target, verify, verify_to

bonus_from = from_target

SWITCHES: dict[str, Callable[[Array, Array, Number], bool]] = {
    "chow": lambda p, q, knob: q.max() >= 1 - knob,
    "chow_log": lambda p, q, knob: entropy(q) <= float(knob),
    "diff": lambda p, q, knob: q.max() >= p.max() - knob,
    "opt": lambda p, q, knob: q.max() >= p.max() - knob * total_variation(p, q),
}
"""Whether the draft answers, by rule."""

DROPS: dict[str, Callable[[Array, Array, Number], Array]] = {
    "token_v1": lambda p, q, knob: q < p.max() - knob,
    "token_v2": lambda p, q, knob: p < p.max() - knob,
    "token_v3": lambda p, q, knob: p < (1 - knob) * p.max(),
}
"""Which tokens of the draft are dropped, by rule."""


def declared(p: Array, q: Array, rule: str = "token_v3", knob: Number | str = "1/2") -> Array:
    """nu of the table above.

    Raises:
        ValueError: unknown rule.
    """
    kappa = field_of(p).number(knob)
    if rule in SWITCHES:
        return q if SWITCHES[rule](p, q, kappa) else p
    if rule not in DROPS:
        raise ValueError(f"rule {rule!r} is unknown; choose one of {[*SWITCHES, *DROPS]}")
    dropped = np.where(DROPS[rule](p, q, kappa), q, 0 * q)
    return q - dropped + dropped.sum() * p  # type: ignore[no-any-return]


def position(p: Array, q: Array, rule: str = "token_v3", knob: Number | str = "1/2") -> Position:
    """Acceptance and correction at one position."""
    return verify_to(declared(p, q, rule, knob), q)


def lossless_at(rule: str = "token_v3", knob: Dial = "1/2") -> bool:
    """Whether every pair of laws is verified exactly (see the module's table)."""
    if rule in ("diff", "token_v1"):
        return always(knob, lambda value: value <= -1)
    return always(knob, lambda value: value < (-1 if rule == "opt" else 0))


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    rule: str = "token_v3",
    knob: Dial = "1/2",
) -> Round:
    """One round of cascade verification."""
    return verify(fx, target, draft, drafts, carry, position, {"rule": rule, "knob": knob})
