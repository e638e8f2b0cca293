"""What all verification programs share: their signature and their result."""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from theory.catalogue import verifier
from theory.effects import Effects
from theory.models import Prefix, Rows

Carry = Hashable
"""State that a stateful rule hands to the next round; ``()`` when there is none."""


@dataclass(frozen=True)
class Round:
    """Outcome of one round.

    Attributes:
        accepted: drafted tokens kept (tau), without the correction or bonus token.
        tokens: the emitted tokens: ``accepted`` drafted ones and one more.
        carry: state for the next round.
    """

    accepted: int
    tokens: Prefix
    carry: Carry = ()


class Program(Protocol):
    """A verification rule; see ``theory.verifiers``."""

    def __call__(
        self,
        fx: Effects,
        target: Rows,
        draft: Rows,
        drafts: tuple[Prefix, ...],
        carry: Carry = (),
        **params: Any,
    ) -> Round: ...


def load_program(name: str) -> Program:
    """The program of a verifier by its name in the catalogue.

    Raises:
        ValueError: unknown name; the message suggests the nearest.
    """
    return cast(Program, importlib.import_module(f"theory.verifiers.{verifier(name).name}").program)


def only_draft(drafts: tuple[Prefix, ...], rule: str) -> Prefix:
    """The single draft of a rule that judges one.

    Raises:
        ValueError: several drafts.
    """
    if len(drafts) != 1:
        raise ValueError(f"{rule} verifies one draft, got {len(drafts)}; use num_drafts=1")
    return drafts[0]


def below(rows: Rows, kept: Prefix) -> Rows:
    """The same rows as seen from ``kept``."""
    return lambda path: rows(kept + path)
