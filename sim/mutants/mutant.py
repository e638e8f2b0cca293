"""What a mutant is: one fault, as an array function, as an exact program, and as a change of the
models that it reads or draws from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from sim.mutants._programs import Rule
from sim.verifiers import VERIFIERS, ArrayVerifier, Verdict
from theory.fields import Array, Field
from theory.laws import point_mass
from theory.models import Model, Prefix
from theory.verifiers.common import load_program

Evidence = Literal["law", "length", "ties", "dependence"]
RowChange = Callable[[Array], Array]
PrefixChange = Callable[[Prefix], Prefix]


@dataclass(frozen=True)
class Mutant:
    """A faulty decoder.

    Attributes:
        name: stable identifier.
        rule: the verifier it spoils (``sim.verifiers``).
        fault: what is wrong.
        references: public discussions of the fault (owner/name#number).
        verifier: the faulty rule as an array function.
        program: the same rule as an exact program.
        found_by: what exposes it: ``law`` (the joint law of the text is wrong), ``length`` (only
            the accepted length is), ``ties`` (only a uniform that meets a threshold exactly),
            ``dependence`` (each text has the right law, but texts depend on each other).
        exact: whether its law is rational on rational models.
        gamma: draft length at which it is shown.
        pair: the embedded pair on which it is shown (``sim.mutants.pairs``).
        drawn: draft rows -> the rows that drafts are really drawn from.
        read: prefix -> the prefix whose target row is read in its place.
        mixed: whether the target rows are the even mixture with the draft's.
        eos: a token that should end the text, and does not always.
    """

    name: str
    rule: str
    fault: str
    references: tuple[str, ...]
    verifier: ArrayVerifier
    program: Rule
    found_by: Evidence = "law"
    exact: bool = True
    gamma: int = 2
    pair: str = "dense"
    drawn: RowChange | None = None
    read: PrefixChange | None = None
    mixed: bool = False
    eos: int | None = None

    @property
    def num_drafts(self) -> int:
        """Drafts a round on which it is shown."""
        return 2 if self.verifier.multi_draft else 1

    def corrected(self) -> Mutant:
        """The rule without the fault, in the same setting (a text is never ended)."""
        return replace(
            self,
            name=self.rule,
            verifier=VERIFIERS[self.rule],
            program=load_program(self.rule),
            drawn=None,
            read=None,
            mixed=False,
            eos=None,
        )

    def target_read(self, target: Model, draft: Model) -> Model:
        """The rows that verification reads in place of the target's."""
        if self.read is not None:
            target = Reread(target, self.read)
        return Mixed(target, draft) if self.mixed else target

    def reference(self, target: Model) -> Model:
        """The model that a correct decoder samples from: the target, ended by ``eos``."""
        return target if self.eos is None else Ended(target, self.eos)


def spoiled(rule: str, name: str, verify: Callable[..., Verdict]) -> ArrayVerifier:
    """The registry entry of ``rule`` with another array function."""
    return replace(VERIFIERS[rule], name=name, verify=verify, survival=None)


@dataclass(frozen=True)
class Redrawn:
    """A model whose rows are changed one by one."""

    model: Model
    change: RowChange

    @property
    def vocab(self) -> int:
        return self.model.vocab

    @property
    def order(self) -> int | None:
        """The number of last tokens that rows depend on, where the model has one."""
        return getattr(self.model, "order", None)

    @property
    def field(self) -> Field:
        return self.model.field

    def row(self, prefix: Prefix) -> Array:
        """The changed law after ``prefix``."""
        return self.change(self.model.row(prefix))


@dataclass(frozen=True)
class Reread:
    """A model that reads its rows at other prefixes, as a wrong cache does."""

    model: Model
    change: PrefixChange

    @property
    def vocab(self) -> int:
        return self.model.vocab

    @property
    def field(self) -> Field:
        return self.model.field

    def row(self, prefix: Prefix) -> Array:
        """The law after the prefix that is read in place of ``prefix``."""
        return self.model.row(self.change(prefix))


@dataclass(frozen=True)
class Mixed:
    """The even mixture of two models, row by row."""

    model: Model
    other: Model

    @property
    def vocab(self) -> int:
        return self.model.vocab

    @property
    def field(self) -> Field:
        return self.model.field

    def row(self, prefix: Prefix) -> Array:
        """(p + q)/2 after ``prefix``."""
        both: Any = self.model.row(prefix) + self.other.row(prefix)
        return both / 2  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Ended:
    """A model after whose token ``eos`` only ``eos`` follows."""

    model: Model
    eos: int

    @property
    def vocab(self) -> int:
        return self.model.vocab

    @property
    def field(self) -> Field:
        return self.model.field

    def row(self, prefix: Prefix) -> Array:
        """The law after ``prefix``; a point mass once the text has ended."""
        if self.eos in prefix:
            return point_mass(self.eos, self.vocab, self.field)
        return self.model.row(prefix)
