"""Marked greedy block verification: K drafts, one winner by marks, judged by the greedy rule.

The winner's law G = Q T (``theory.marks``) takes the place of the draft law in greedy block
verification: a node is kept with mass min(P, G), so a block accepts sum_v min(P(v), G(v)), within
a fraction of a percent of the best rule there is (``theory.marks.table``). The price is that of
the greedy rule: after tau < gamma the target of every later node v of depth < gamma, counted from
the start of this block along the EMITTED tokens, is

    p'(. | v) = norm((P(v.) - G(v.))_+) = norm((demand(v) p - q T(v.))_+) .

G below the emitted tokens is a matter of the same splits, which are deterministic: they are run
again there. So the carry has one :class:`Layer` for each block that still reaches ahead, oldest
first, with the label law and the demand of the committed node; layers nest as in
``theory.verifiers.greedy_block``. A layer ends where the draft gives an emitted token 0, since
G is 0 below.

Params and slots: as ``theory.verifiers.marked_block``; windows must be fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from theory.effects import Effects
from theory.fields import Array
from theory.laws import residual
from theory.marks import Coupling, Node, Scheme, WinnerLaw, winner_law
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round
from theory.verifiers.greedy_block import judge
from theory.verifiers.marked_block import block_depth


@dataclass(frozen=True)
class Layer:
    """The part of an old block that reaches beyond the committed prefix.

    Attributes:
        node: demand P/Q and label law at the committed prefix, under the target that the block
            was verified against; P/G there is the demand over the mean of the label law.
        left: number of coming positions whose target it modifies.
    """

    node: Node
    left: int


def block_law(layer: Layer, target: Rows, draft: Rows, scheme: Scheme) -> WinnerLaw:
    """The law that the layer's block was judged against, below the committed prefix."""
    return winner_law(target, draft, scheme, layer.left, capped=False, start=layer.node)


@lru_cache(maxsize=64)
def under(layer: Layer, target: Rows, draft: Rows, scheme: Scheme) -> Rows:
    """The rows that a layer leaves of the target: norm((P - G)_+) at its ``left`` levels."""
    law = block_law(layer, target, draft, scheme)

    @cache
    def row(path: Prefix) -> Array:
        p, node = target(path), law.node(path) if len(path) < layer.left else None
        offer = None if node is None else law.offer(path)
        return p if node is None or offer is None else residual(p, offer, node.demand)

    return row


def modified_target(target: Rows, draft: Rows, scheme: Scheme, layers: tuple[Layer, ...]) -> Rows:
    """The rows that the next token must be drawn from."""
    for layer in layers:
        target = under(layer, target, draft, scheme)
    return target


def advance(
    layers: tuple[Layer, ...], target: Rows, draft: Rows, scheme: Scheme, tokens: Prefix
) -> tuple[Layer, ...]:
    """The layers after ``tokens`` were emitted; spent ones are dropped."""
    kept = []
    for layer in layers:
        if layer.left > len(tokens):
            node = block_law(layer, target, draft, scheme).node(tokens)
            kept += [] if node is None else [Layer(node, layer.left - len(tokens))]
        target = under(layer, target, draft, scheme)  # the next layer was measured with this one
    return tuple(kept)


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    cells: int = 8,
    coupling: str | Coupling = "mix",
    histogram: bool = True,
) -> Round:
    """One round of marked greedy block verification; ``carry`` is a tuple of :class:`Layer`.

    Raises:
        ValueError: unknown coupling, drafts of unequal length.
    """
    layers: tuple[Layer, ...] = carry  # type: ignore[assignment]
    scheme = Scheme.of(len(drafts), cells, fx.field, coupling, histogram)
    gamma = block_depth(scheme, drafts)
    current = modified_target(target, draft, scheme, layers)
    law = winner_law(current, draft, scheme, gamma, capped=False)
    winner = law.choose(fx, drafts)
    kept = winner[: judge(fx, current, law.row, winner, len(drafts))]
    if len(kept) < gamma:
        layers = (*layers, Layer(scheme.start, gamma))
    rest = modified_target(target, draft, scheme, layers)(kept)
    tokens = (*kept, fx.choose(rest, len(drafts) + gamma))
    return Round(len(kept), tokens, advance(layers, target, draft, scheme, tokens))
