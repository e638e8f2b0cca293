"""How a node's label law is split, as one value: the cells, the couplings, the tables.

Splits look at the current level only. At the last level of a block nothing is left to decide
below, so any coupling with the wished means does; above it, widely mixed label laws leave more to
decide. Hence the coupling ``entmix``: entropic with a future, the exact mix at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from theory.fields import EXACT, Array, Field, Number, divide
from theory.marks.coupling import Coupling, mix
from theory.marks.entropy import entropic
from theory.marks.labels import Cells, cells
from theory.marks.splitting import Split, split

COUPLINGS: dict[str, tuple[Coupling, Coupling]] = {
    "mix": (mix, mix),
    "entropic": (entropic, entropic),
    "entmix": (entropic, mix),
}
"""By name: the coupling at levels with a future, and at the last level."""


class Node(NamedTuple):
    """What a node hands to its children: its demand and its label law."""

    demand: Number
    marks: tuple[Number, ...]


@dataclass(frozen=True)
class Scheme:
    """How label laws are split: everything about marks that is not a probability of the models.

    Attributes:
        cells: the labels.
        inner, last: coupling at levels with a future, and at the last level of a block.
        histogram: see ``theory.marks.splitting``.
    """

    cells: Cells
    inner: Coupling
    last: Coupling
    histogram: bool = True

    @staticmethod
    def of(
        num_drafts: int,
        count: int,
        field: Field = EXACT,
        coupling: str | Coupling = "mix",
        histogram: bool = True,
    ) -> Scheme:
        """A scheme from the parameters of the verifiers.

        Raises:
            ValueError: unknown coupling, an iterative coupling over rationals, no cells.
        """
        if isinstance(coupling, str):
            if coupling not in COUPLINGS:
                raise ValueError(f"unknown coupling {coupling!r}; choose one of {[*COUPLINGS]}")
            if field is EXACT and coupling != "mix":
                raise ValueError(
                    f"coupling {coupling!r} iterates in floats; use 'mix' for rationals"
                )
            inner, last = COUPLINGS[coupling]
        else:
            inner = last = coupling
        return Scheme(cells(num_drafts, count, field), inner, last, histogram)

    @property
    def start(self) -> Node:
        """The node at the start of a block: all of the target, labels as they come."""
        return Node(self.cells.masses.sum(), tuple(self.cells.masses))

    def split(self, demand: Array, p: Array, q: Array, marks: Array, last: bool) -> Split:
        """The split at nodes of the given demands [...], rows [..., V] and label laws [..., B]."""
        wishes = divide(demand[..., None] * p, q)
        coupling = self.last if last else self.inner
        return split(wishes, q, marks, self.cells, coupling, self.histogram)
