"""The law of the winner: one draft that stands for K.

Each of K i.i.d. drafts carries a label law mu along its path, split among the tokens at every
node; at its end it draws a label, and the first draft with the highest label wins. Its law is

    G(v) = Q(v) T(v) ,   T(v) = E_(mu_v) z ,   rows g(x | v) = q(x | v) T(vx) / T(v) ,

for every choice of the splits. (The highest label is b with probability S_b^K - S_(b-1)^K, an
event about labels alone; given it, the winner is a draft given that its label is b.) So the
winner is verified like a single draft from G: by block verification, or by greedy block
verification, which needs G below later prefixes too.

A node keeps its label law and its *demand*: target mass over draft mass, P(v)/Q(v), and where the
rule is stateless (``capped``) only the part that every prefix could still accept,

    demand(vx) = demand(v) p(x)/q(x) ,  capped at T(vx) .

The ratios wished from the split are the uncapped demands of the children, and the node's running
ratio of target to winner, clipped or not, is demand(v)/T(v). Derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from theory.effects import Effects
from theory.fields import Array, Number, is_zero, minimum
from theory.marks.scheme import Node, Scheme
from theory.marks.splitting import Split
from theory.models import Prefix, Rows


class WinnerLaw:
    """Rows of the winner below a committed prefix.

    Args:
        target, draft: rows below the prefix.
        scheme: the splits.
        depth: levels of splits; the last one uses ``scheme.last``.
        capped: whether demands are capped (stateless verification).
        start: the node at the prefix; by default the start of a block.
    """

    def __init__(
        self,
        target: Rows,
        draft: Rows,
        scheme: Scheme,
        depth: int,
        capped: bool,
        start: Node | None = None,
    ) -> None:
        self._target, self._draft, self._scheme = target, draft, scheme
        self._depth, self._capped = depth, capped
        self._nodes: dict[Prefix, Node | None] = {(): start or scheme.start}
        self._splits: dict[Prefix, Split] = {}

    def node(self, path: Prefix) -> Node | None:
        """Demand and label law after ``path``; None where the draft never goes."""
        if path not in self._nodes:
            self._nodes[path] = self._child(path[:-1], path[-1])
        return self._nodes[path]

    def _child(self, path: Prefix, x: int) -> Node | None:
        node, p, q = self.node(path), self._target(path), self._draft(path)
        if node is None or is_zero(q[x]):
            return None
        shares = self._split(path, node)
        demand = node.demand * p[x] / q[x]
        if self._capped:
            demand = minimum(demand, shares.means[x])
        return Node(demand, tuple(shares.laws(np.array([x]))[0]))

    def _split(self, path: Prefix, node: Node) -> Split:
        if path not in self._splits:
            last = len(path) == self._depth - 1
            p, q = tuple(self._target(path)), tuple(self._draft(path))
            self._splits[path] = _split_rows(self._scheme, node, p, q, last)
        return self._splits[path]

    def offer(self, path: Prefix) -> Array | None:
        """q(x) T(vx), the winner's row times T(v); None where the draft never goes."""
        node = self.node(path)
        if node is None:
            return None
        return np.asarray(self._draft(path) * self._split(path, node).means)

    def row(self, path: Prefix) -> Array:
        """g(. | path), the winner's next-token law.

        Raises:
            ValueError: no draft ever goes through ``path``.
        """
        offer = self.offer(path)
        if offer is None:
            raise ValueError(f"the winner never goes through {list(path)}: the draft gives it 0")
        return np.asarray(offer / offer.sum())

    def choose(self, fx: Effects, drafts: Sequence[Prefix]) -> Prefix:
        """Draw a label for every draft (slot k for draft k); the first highest wins."""
        labels = [fx.choose(self._label_law(path), k) for k, path in enumerate(drafts)]
        return drafts[labels.index(max(labels))]

    def _label_law(self, path: Prefix) -> Array:
        node = self.node(path)
        if node is None:
            raise ValueError(f"draft {list(path)} has draft probability 0; it was not drawn from q")
        return np.array(node.marks, dtype=self._scheme.cells.masses.dtype)


@lru_cache(maxsize=64)
def winner_law(
    target: Rows,
    draft: Rows,
    scheme: Scheme,
    depth: int,
    capped: bool,
    start: Node | None = None,
) -> WinnerLaw:
    """A :class:`WinnerLaw`, kept for the runs by which enumeration replays a round."""
    return WinnerLaw(target, draft, scheme, depth, capped, start)


@lru_cache(maxsize=4096)
def _split_rows(
    scheme: Scheme, node: Node, p: tuple[Number, ...], q: tuple[Number, ...], last: bool
) -> Split:
    """The split at one node, kept for the other prefixes with the same rows."""
    kind = scheme.cells.masses.dtype
    demand, rows = np.array(node.demand, kind), (np.array(p, kind), np.array(q, kind))
    return scheme.split(demand, *rows, np.array(node.marks, kind), last)
