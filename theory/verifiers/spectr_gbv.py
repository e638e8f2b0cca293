"""SpecTr-GBV as published and as released (arXiv 2604.25925). It is not lossless for K > 1.

With phi(a) = 1 - (1 - a)^K, r(v) = min(1, Q(v)/P(v)), and strings v below the committed prefix, the
drafts are read in order; on each, the prefixes longer than the kept one are tested in order of
length, v passing with probability

    h(v) = [P(v) phi(r(v)) - s] / [phi(Q(v)) - s] ,   s = sum_x P(vx) phi(r(vx)) ,

or P(v) phi(r(v)) / phi(Q(v)) at full length. The last success is kept, whichever draft it is on.
The correction comes from norm(P(vx) (1 - r(vx)^K)) in the code; the rule's own aim, to keep v with
mass P(v) phi(r(v)), asks for norm(P(vx) (1 - r(vx))^K).

What is wrong with it: h(v) is the right probability of stopping at v *given that v is drafted and
nothing below it passed*, but a string of another draft that passed earlier pre-empts v, so the
kept masses differ from P phi(r) and no correction repairs them. With K = 1 and the modification it
is greedy block verification.

Parameters:
    last_position: "published": refused strings of full length are not remembered, and are tested
        again on the next copy (the release); "consulted": they are remembered like all others.
    modification: whether later targets of depth < gamma become norm(p (1 - min(1, q/(W p)))^K)
        after a partly kept block (Algorithm 2, absent from the release).
    residual: "code" or "consistent", as above.

Slots: ``k * gamma + i - 1`` for the test of length i on draft k, ``K * gamma`` for the last token.

Source: Algorithm 1, equation 2, from the official code; equation 4 and Algorithm 2 reconstructed.
"""

from __future__ import annotations

from theory.effects import Effects
from theory.fields import Number, divide, is_zero, minimum
from theory.laws import normalise
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round, below
from theory.verifiers.greedy_block import Layer, advance, layers_after, left_over, modified_target

OPTIONS = {"last_position": ("published", "consulted"), "residual": ("code", "consistent")}


def phi(a: Number, k: int) -> Number:
    """1 - (1 - a)^K: the probability that one of K independent trials succeeds."""
    return 1 - (1 - a) ** k


class _Joint:
    """Joint probabilities of a string under target and draft, and the masses the rule aims at."""

    def __init__(self, target: Rows, draft: Rows, k: int, one: Number) -> None:
        self._target, self._draft, self._k, self._one = target, draft, k, one

    def pair(self, path: Prefix) -> tuple[Number, Number]:
        """P(v), Q(v)."""
        p = q = self._one
        for i, x in enumerate(path):
            p, q = p * self._target(path[:i])[x], q * self._draft(path[:i])[x]
        return p, q

    def aim(self, p: Number, q: Number) -> Number:
        """P phi(r); 0 where P = 0."""
        return p * 0 if is_zero(p) else p * phi(minimum(1, q / p), self._k)

    def test(self, path: Prefix, gamma: int) -> Number:
        """h(v)."""
        p, q = self.pair(path)
        taken = 0 * p
        if len(path) < gamma:
            rows = zip(self._target(path), self._draft(path), strict=True)
            taken = sum((self.aim(p * a, q * b) for a, b in rows), start=taken)
        available = phi(q, self._k) - taken
        return 1 if is_zero(available) else (self.aim(p, q) - taken) / available


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    last_position: str = "published",
    modification: bool = False,
    residual: str = "code",
) -> Round:
    """One round on K i.i.d. drafts of equal length; ``carry`` is a tuple of ``Layer``."""
    _check("last_position", last_position)
    _check("residual", residual)
    gamma, num_drafts = len(drafts[0]), len(drafts)
    layers: tuple[Layer, ...] = carry  # type: ignore[assignment]
    current = modified_target(target, draft, layers)
    joint = _Joint(current, draft, num_drafts, fx.field.one)
    kept = _keep(fx, joint, drafts, last_position == "consulted")
    if modification:
        layers = layers_after(layers, target, draft, kept, gamma, num_drafts)
    p, q = current(kept), draft(kept)
    law = p
    if len(kept) < gamma:
        up, down = joint.pair(kept)
        if residual == "consistent":
            law = left_over(p, q, up / down, num_drafts)
        else:
            ratio = minimum(1, divide(q, p * up / down))
            law = normalise(p * (1 - ratio**num_drafts), fallback=p)
    last = fx.choose(law, num_drafts * gamma)
    after = advance(layers, below(target, kept), below(draft, kept), (last,))
    return Round(len(kept), (*kept, last), after)


def _keep(fx: Effects, joint: _Joint, drafts: tuple[Prefix, ...], consulted: bool) -> Prefix:
    """The kept string of Algorithm 1."""
    gamma = len(drafts[0])
    kept: Prefix = ()
    refused: set[Prefix] = set()
    for k, path in enumerate(drafts):
        for i in range(len(kept) + 1, gamma + 1):
            v = path[:i]
            remembers = i < gamma or consulted
            if remembers and v in refused:
                continue
            if fx.flip(joint.test(v, gamma), k * gamma + i - 1):
                kept = v
            elif remembers:
                refused.add(v)
        if gamma and len(kept) == gamma:
            break
    return kept


def _check(name: str, value: str) -> None:
    if value not in OPTIONS[name]:
        raise ValueError(f"{name} {value!r} is unknown; use one of {OPTIONS[name]}")
