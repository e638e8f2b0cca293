"""The two effects of a verification rule, and the interpreters that give them meaning.

A rule is a plain function ``program(fx)`` that asks for ``fx.choose(law)`` (a token) and
``fx.flip(prob)`` (a coin), and returns an outcome. What that means is up to the interpreter:

* :func:`enumerate_law` runs every path and returns the law of the outcome, weighted exactly
  (rationals), in floats, or in symbols;
* :class:`Tape` reads explicit uniforms in [0, 1): a choice is the first token whose cumulative
  probability exceeds ``u`` (half-open buckets), a flip succeeds iff ``u < prob``.

Every request names a *slot*. Slots are the documented layout of a rule's tape, so that array code
and kernels can be fed the same uniforms, and reading one slot twice is an error: no uniform is
ever reused. Programs must be pure: all randomness goes through ``fx``, which lets enumeration
replay them. :func:`check_interpreter` is the conformance suite for interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from theory.fields import EXACT, FLOAT, SYMBOLIC, Array, Field, Number, is_zero

Slot = Hashable
Outcome = TypeVar("Outcome", bound=Hashable)


class Effects(Protocol):
    """What a program may ask for."""

    @property
    def field(self) -> Field: ...

    def choose(self, law: Array, slot: Slot) -> int:
        """A token drawn from ``law``."""
        ...

    def flip(self, prob: Number, slot: Slot) -> bool:
        """True with probability ``prob``."""
        ...


class _Replay:
    """One run of a program along recorded choices; new choices take their first option."""

    def __init__(self, field: Field, past: tuple[int, ...]) -> None:
        self.field = field
        self.past = past
        self.weight = field.one
        self.pending: list[tuple[int, ...]] = []
        self._step = 0
        self._used: set[Slot] = set()

    def choose(self, law: Array, slot: Slot) -> int:
        _claim(self._used, slot)
        if self._step == len(self.past):
            options = [token for token, mass in enumerate(law) if not is_zero(mass)]
            if not options:
                raise ValueError(f"slot {slot!r}: a law without mass was drawn from: {list(law)}")
            self.pending.extend((*self.past, token) for token in options[1:])
            self.past = (*self.past, options[0])
        token = self.past[self._step]
        self._step += 1
        self.weight = self.weight * law[token]
        return token

    def flip(self, prob: Number, slot: Slot) -> bool:
        return self.choose([1 - prob, prob], slot) == 1  # type: ignore[arg-type]


def enumerate_law(
    program: Callable[[Effects], Outcome], field: Field = EXACT
) -> dict[Outcome, Number]:
    """The law of a program's outcome: every path, weighted in ``field``.

    Cost: one run of the program per path. Outcomes must be hashable.
    """
    law: dict[Outcome, Number] = {}
    todo: list[tuple[int, ...]] = [()]
    while todo:
        run = _Replay(field, todo.pop())
        outcome = program(run)
        law[outcome] = law.get(outcome, field.zero) + run.weight
        todo.extend(run.pending)
    return law


def exact_law(program: Callable[[Effects], Outcome]) -> dict[Outcome, Number]:
    """:func:`enumerate_law` in rationals."""
    return enumerate_law(program, EXACT)


def symbolic_law(program: Callable[[Effects], Outcome]) -> dict[Outcome, Number]:
    """:func:`enumerate_law` in sympy expressions."""
    return enumerate_law(program, SYMBOLIC)


class Tape:
    """Decisions read off explicit uniforms.

    Args:
        uniforms: by slot; a sequence serves integer slots.
        field: number type of the laws (exact laws are compared with the uniforms exactly).
    """

    def __init__(
        self, uniforms: Sequence[float] | Mapping[Any, float] | Array, field: Field = FLOAT
    ) -> None:
        self.field = field
        self._uniforms: Any = uniforms
        self._used: set[Slot] = set()

    def _read(self, slot: Slot) -> float:
        _claim(self._used, slot)
        try:
            u = float(self._uniforms[slot])
        except (KeyError, IndexError) as error:
            raise ValueError(f"the tape has no uniform in slot {slot!r}; make it longer") from error
        if not 0 <= u < 1:
            raise ValueError(f"slot {slot!r}: uniform {u} is outside [0, 1)")
        return u

    def choose(self, law: Array, slot: Slot) -> int:
        total = self._read(slot)
        last, cumulative = -1, self.field.zero
        for token, mass in enumerate(law):
            if is_zero(mass):
                continue
            last, cumulative = token, cumulative + mass
            if total < self.field.to_float(cumulative):
                return token
        if last < 0:
            raise ValueError(f"slot {slot!r}: a law without mass was drawn from: {list(law)}")
        return last

    def flip(self, prob: Number, slot: Slot) -> bool:
        return self._read(slot) < self.field.to_float(prob)


def _claim(used: set[Slot], slot: Slot) -> None:
    if slot in used:
        raise ValueError(f"slot {slot!r} is read twice; every decision needs its own uniform")
    used.add(slot)


class Scoped:
    """The same effects with every slot prefixed by a name: disjoint tapes for parts of a run."""

    def __init__(self, fx: Effects, *name: Hashable) -> None:
        self.field = fx.field
        self._fx = fx
        self._name = name

    def choose(self, law: Array, slot: Slot) -> int:
        return self._fx.choose(law, (*self._name, slot))

    def flip(self, prob: Number, slot: Slot) -> bool:
        return self._fx.flip(prob, (*self._name, slot))


def check_interpreter(
    law_of: Callable[[Callable[[Effects], Any]], Mapping[Any, Number]], field: Field
) -> None:
    """Conformance suite for enumerating interpreters.

    Checks total weight one, product weights along paths, deterministic coins taking one branch,
    unit laws, and that reading a slot twice is refused.

    Raises:
        AssertionError: the interpreter does not conform.
    """
    third, two_thirds = field.number("1/3"), field.number("2/3")
    law = np.array([third, two_thirds], dtype=object)

    def two_draws(fx: Effects) -> tuple[int, bool]:
        first = fx.choose(law, 0)
        return first, fx.flip(law[first], 1)

    weights = law_of(two_draws)
    expected = {
        (0, True): third * third,
        (0, False): third * two_thirds,
        (1, True): two_thirds * two_thirds,
        (1, False): two_thirds * third,
    }
    assert set(weights) == set(expected), weights
    for outcome, weight in expected.items():
        assert abs(field.to_float(weights[outcome] - weight)) < 1e-12, (outcome, weights)
    certain = law_of(lambda fx: (fx.flip(field.one, 0), fx.flip(field.zero, 1)))
    assert list(certain) == [(True, False)], certain

    def twice(fx: Effects) -> tuple[int, int]:
        return fx.choose(law, 0), fx.choose(law, 0)

    try:
        law_of(twice)
    except ValueError:
        return
    raise AssertionError("a slot was read twice without an error")
