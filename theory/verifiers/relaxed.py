"""Relaxed verification at one position, and the round that strings positions together.

A relaxed rule keeps a drafted token x with probability acc(x) and otherwise draws a correction,
so a verified position follows its *declared law*

    nu(y) = q(y) acc(y) + sum_x q(x) (1 - acc(x)) corr_x(y),      alpha = sum_x q(x) acc(x).

None of the rules here lets the correction depend on the rejected token (corr_x = corr). Every
rule is one module with the same parts:

* ``program``: the round;
* ``position(p, q, **params)``: acc and corr, from which the round is made;
* ``declared(p, q, **params)``: nu in closed form, written without acc and corr;
* ``lossless_at(**params)``: whether nu = p for all laws p, q of any vocabulary;
* ``bonus_from(**params)``: the law of the token after a fully accepted block. Engines draw it
  from p, because q was never computed there; the text then follows neither the target nor
  nu alone, and its law depends on gamma (``theory.declared``).

A parameter may depend on the context: give a function or a mapping from the prefix (all tokens
since the start of the generation) to its value. The round then hands the committed prefix on as
its carry, which is no hidden state, only the place where the parameter is looked up.

Slots, for every rule: ``i`` for the test of drafted token i + 1, ``gamma`` for the emitted token.

Source: Leviathan et al. 2023 for the round; the common form of the rules is derived here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol, cast

import numpy as np

from theory.catalogue import verifier
from theory.effects import Effects
from theory.fields import Array, Number, divide, field_of, is_zero, minimum, to_fraction
from theory.laws import residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round, only_draft

Dial = Number | str | Mapping[Prefix, Number] | Callable[[Prefix], Number]
"""A parameter: one value, or a value for every prefix."""

BonusSource = Literal["target", "declared"]


@dataclass(frozen=True)
class Position:
    """A rule at one position.

    Attributes:
        accept: [V], acc(x); without meaning where q = 0, since such a token is never drafted.
        correction: [V], the law drawn after a rejection.
    """

    accept: Array
    correction: Array

    def kept(self, q: Array) -> Array:
        """[V], q acc: the probability that each token is drafted and accepted."""
        return q * self.accept

    def alpha(self, q: Array) -> Number:
        """The acceptance probability."""
        return self.kept(q).sum()

    def law(self, q: Array) -> Array:
        """[V], nu: the law of the position."""
        return np.asarray(self.kept(q) + (1 - self.alpha(q)) * self.correction)


class LossyRule(Protocol):
    """The parts of a module of a relaxed rule."""

    def position(self, p: Array, q: Array, **params: Any) -> Position: ...
    def declared(self, p: Array, q: Array, **params: Any) -> Array: ...
    def lossless_at(self, **params: Any) -> bool: ...
    def bonus_from(self, **params: Any) -> BonusSource: ...


def load_rule(name: str) -> LossyRule:
    """The module of a lossy rule by its name in the catalogue.

    Raises:
        ValueError: unknown name, or a rule of another kind.
    """
    entry = verifier(name)
    if entry.kind != "lossy":
        raise ValueError(f"{name!r} is {entry.kind}, not lossy; its output law is the target's")
    return cast(LossyRule, importlib.import_module(f"theory.verifiers.{name}"))


def verify_to(nu: Array, q: Array) -> Position:
    """The rule that accepts with min(1, nu/q) and corrects from norm((nu - q)_+): it emits nu.

    It accepts most among all rules with this law (the coupling is maximal).
    """
    return Position(minimum(1, divide(nu, q)), residual(nu, q))


def dial(value: Number | str, row: Array, name: str, low: Number, high: Number) -> Number:
    """A parameter as a number of the row's field (a symbol is taken as inside the range).

    Raises:
        ValueError: not a number, or outside [low, high].
    """
    try:
        number = field_of(row).number(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if getattr(number, "free_symbols", None):
        return number
    if not is_zero(number - low) and not is_zero(number - high) and not low < number < high:
        raise ValueError(f"{name} = {value} is outside [{low}, {high}]; choose a value inside")
    return number


def always(value: Dial, test: Callable[[Fraction], bool]) -> bool:
    """Whether a parameter passes ``test`` at every prefix (unknown, hence no, for a function)."""
    if callable(value):
        return False
    values = value.values() if isinstance(value, Mapping) else [value]
    return all(test(Fraction(v) if isinstance(v, float) else to_fraction(v)) for v in values)


def is_dynamic(params: Mapping[str, Any]) -> bool:
    """Whether some parameter depends on the context."""
    return any(callable(value) or isinstance(value, Mapping) for value in params.values())


def at(params: Mapping[str, Any], prefix: Prefix) -> dict[str, Any]:
    """The parameters after ``prefix``.

    Raises:
        ValueError: a mapping without a value for this prefix.
    """
    return {name: _value(name, value, prefix) for name, value in params.items()}


def _value(name: str, value: Any, prefix: Prefix) -> Any:
    if callable(value):
        return value(prefix)
    if not isinstance(value, Mapping):
        return value
    if prefix not in value:
        raise ValueError(f"{name} has no value after prefix {list(prefix)}; add it to the mapping")
    return value[prefix]


def from_target(**params: Any) -> BonusSource:
    """``bonus_from`` of a rule whose bonus always comes from p."""
    del params
    return "target"


def verify(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry,
    position: Callable[..., Position],
    params: Mapping[str, Any],
    bonus: Callable[..., Array] | None = None,
) -> Round:
    """One round of a relaxed rule; ``bonus(p, q, **params)`` is the bonus law, None for p."""
    path, committed = only_draft(drafts, "a relaxed rule"), cast(Prefix, carry)
    gamma = len(path)
    for i, x in enumerate(path):
        here = position(target(path[:i]), draft(path[:i]), **at(params, committed + path[:i]))
        if not fx.flip(here.accept[x], i):
            tokens = (*path[:i], fx.choose(here.correction, gamma))
            return Round(i, tokens, _carry(params, committed, tokens))
    last = target(path)
    if bonus is not None:
        last = bonus(last, draft(path), **at(params, committed + path))
    tokens = (*path, fx.choose(last, gamma))
    return Round(gamma, tokens, _carry(params, committed, tokens))


def _carry(params: Mapping[str, Any], committed: Prefix, tokens: Prefix) -> Prefix:
    return committed + tokens if is_dynamic(params) else ()
