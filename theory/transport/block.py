"""The largest E[tau] of any rule that verifies K i.i.d. drafts of gamma tokens.

Every rule accepts what some *winner* rule accepts: one draft is selected, of law G on strings of
length gamma, and verified as a single draft (``theory.marks``). A law G is possible iff
G(A) <= phi_K(Q(A)) for all sets A of strings, phi_K(a) = 1 - (1 - a)^K (Border 1991). So, with G(v)
the mass of the strings that start with v,

    block optimum      max over G of sum_v f(v) ,  f(v) <= P(v) ,           f(v) <= G(v)
    stateless optimum  the same with               f(vx) <= p(x|v) f(v) ,   f(v) <= G(v)

over strings v of length 1..gamma, f(root) = 1. The second is the optimum of rules that never
change later targets. Sets A are exponentially many, but for a given G the most violated ones
are {G/Q >= t}, because phi_K is concave: a sort finds them. So the linear program starts with none
and adds those that its solution violates, about ten times. What it adds for a violated A is
sum_x (G(x) - t Q(x))_+ <= phi_K(s) - t s at s = Q(A), t = phi_K'(s): the tangent at s, which bounds
every set at once, and A exactly (:class:`Cut`).

The multipliers b(v) of f(v) <= G(v) form a certificate of optimality of their own
(``theory.transport.checker``), of size V^gamma rather than of the number of multisets of drafts.
The minimax form, block optimum = min over b in [0, 1] of sum_v (1 - b(v)) P(v) + E max_k B(X_k), is
derived here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from theory.fields import Array, Number
from theory.models import RowTree
from theory.transport.linear import LinearProgram, Row, Solution
from theory.transport.one_position import hit_probability, sums_before
from theory.transport.tree_bounds import node_masses

LEAVES = 128
"""Largest number of drafted strings that is solved for (half a minute at the limit)."""

VIOLATION = 1e-10
"""Mass by which a set may exceed its bound in a float solution."""

BAND = 32
"""Strings on either side of a set's threshold that a cut decides anew."""

Node = tuple[int, int]
"""A string by its length and its index on that level (``theory.models.RowTree``)."""


class Cut(NamedTuple):
    """The constraint at the set A of the first ``size`` strings of ``inside`` and ``near``.

    The strings of ``inside`` count with G - t Q, those of ``near`` with its positive part, which is
    decided anew in every solution; the others count nothing. Valid for any choice of them.
    """

    inside: tuple[int, ...]
    near: tuple[int, ...]
    size: int


@dataclass
class BlockProgram:
    """The linear program of one pair of row trees, before any set is added.

    Columns: G of every string that can be drafted, then f of every node that can be accepted.

    Raises:
        ValueError: more than ``LEAVES`` strings can be drafted (of more than one token).
    """

    target: RowTree
    draft: RowTree
    num_drafts: int
    stateless: bool
    leaves: list[int] = field(init=False)
    nodes: list[Node] = field(init=False)
    supply: Array = field(init=False)
    rows: list[Row] = field(init=False, default_factory=list)
    bounds: list[Number] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        wanted, drafted = node_masses(self.target), node_masses(self.draft)
        self.leaves = [int(leaf) for leaf in np.flatnonzero(drafted[-1] != 0)]
        if self.target.depth > 1 and len(self.leaves) > LEAVES:
            raise ValueError(
                f"{len(self.leaves)} drafted strings are more than {LEAVES}; lower gamma or the "
                "vocabulary, or use the level-wise bound"
            )
        self.supply = drafted[-1][self.leaves]
        self.nodes = [
            (length, index)
            for length in range(1, self.target.depth + 1)
            for index in np.flatnonzero(
                (wanted[length - 1] != 0) & (drafted[length - 1] != 0)
            ).tolist()
        ]
        column = {node: len(self.leaves) + i for i, node in enumerate(self.nodes)}
        self._add_links(column)
        for (length, index), j in column.items():
            parent = column.get((length - 1, index // self.target.vocab))
            if self.stateless and parent is not None:
                chance = self.target.levels[length - 1].reshape(-1)[index]
                self._add({j: 1, parent: -chance}, 0)
            else:
                self._add({j: 1}, wanted[length - 1][index])
        self._add(dict.fromkeys(range(len(self.leaves)), 1), 1)
        self._add(dict.fromkeys(range(len(self.leaves)), -1), -1)

    def _add(self, row: Row, bound: Number) -> None:
        self.rows.append(row)
        self.bounds.append(bound)

    def _add_links(self, column: dict[Node, int]) -> None:
        """Rows f(v) <= G(v), in the order of ``nodes``: the first rows of the program."""
        for (length, index), j in column.items():
            span = self.target.vocab ** (self.target.depth - length)
            below = range(index * span, (index + 1) * span)
            self._add({j: 1} | {i: -1 for i, leaf in enumerate(self.leaves) if leaf in below}, 0)

    def program(self, cuts: Iterable[Cut] = ()) -> LinearProgram:
        """The program with the given cuts; the rows of a cut end with its bound."""
        rows, bounds = list(self.rows), list(self.bounds)
        columns = len(self.leaves) + len(self.nodes)
        gain = dict.fromkeys(range(len(self.leaves), columns), 1)
        for cut in cuts:
            mass = self.supply[[*cut.inside, *cut.near][: cut.size]].sum()
            slope = self.num_drafts * (1 - mass) ** (self.num_drafts - 1)
            excess: dict[int, Number] = dict.fromkeys(cut.inside, 1)
            for leaf in cut.near:
                rows.append({leaf: 1, columns: -1})
                bounds.append(slope * self.supply[leaf])
                excess[columns] = 1
                columns += 1
            rows.append(excess)
            outside = mass - self.supply[list(cut.inside)].sum()
            bounds.append(hit_probability(mass, self.num_drafts) - slope * outside)
        return LinearProgram(columns, gain, rows, bounds)

    def solve(self) -> Solution:
        """Solve in floats, adding cuts until none is violated.

        Cuts without a multiplier are dropped whenever the value has gone down, which it can only
        do finitely often.
        """
        cuts: list[Cut] = []
        value = np.inf
        while True:
            solution = self.program(cuts).solve()
            fresh = [cut for cut in self.violated(solution.primal) if cut not in cuts]
            if not fresh:
                return solution
            if solution.value < value - VIOLATION:
                value = solution.value
                ends = (
                    len(self.rows) - 1 + np.cumsum([len(cut.near) + 1 for cut in cuts], dtype=int)
                )
                cuts = [
                    cut
                    for cut, end in zip(cuts, ends.tolist(), strict=True)
                    if solution.dual[end] > 0
                ]
            cuts += fresh

    def violated(self, primal: NDArray[np.float64]) -> list[Cut]:
        """Cuts at the sets {G/Q >= t} that hold too much, the worst of each run."""
        winner, supply = primal[: len(self.leaves)], self.supply.astype(np.float64)
        order = np.argsort(-winner / supply, kind="stable")
        excess = sums_before(winner[order]) - hit_probability(
            sums_before(supply[order]), self.num_drafts
        )
        leaves = order.tolist()
        return [
            Cut(
                tuple(leaves[: max(size - BAND, 0)]),
                tuple(leaves[max(size - BAND, 0) : size + BAND]),
                size,
            )
            for size in range(1, len(leaves))
            if excess[size] > VIOLATION and excess[size] >= max(excess[size - 1], excess[size + 1])
        ]


def block_value(target: RowTree, draft: RowTree, num_drafts: int, stateless: bool = False) -> float:
    """The optimum in floats, without a proof.

    Raises:
        ValueError: more than ``LEAVES`` strings can be drafted.
    """
    return BlockProgram(target, draft, num_drafts, stateless).solve().value
