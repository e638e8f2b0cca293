"""Greedy block verification with its distribution modification (appendix of arXiv 2403.10444).

As block verification, but with the unclipped ratio W_i = P(x^i)/Q(x^i); a node is then kept with
mass min(P, Q), the largest possible, at a price: f/P may grow along a path, so after tau < gamma
the target of every later node of depth < gamma (counted from the start of this block, emitted
tokens included) must become

    p'(. | v) = norm((W(v) p - q)_+) .

Later rounds verify against p' and may add a layer of their own on top. The carry is one
:class:`Layer` for each block that still reaches ahead, oldest first.

With an adaptive window the block is no longer gamma deep everywhere: the modification lasts until
the *stopping tree* of the block ends along the emitted path, that is, until the stopping rule would
have ended drafting there, had those tokens been drafted. The rule is therefore asked about tokens
that were not drafted (:class:`StoppingTree`; parameter ``stop``). Taking the length of the drafted
path instead is biased (``tests/exact/test_windows_lossless.py``). Derived here.

Slots: as block verification.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from theory.effects import Effects
from theory.fields import Array, Number, divide, field_of, is_zero, minimum, positive_part
from theory.laws import normalise, residual
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round, below, only_draft


@dataclass(frozen=True)
class StoppingTree:
    """How far an adaptive window's block reaches, seen from a node of it.

    Attributes:
        stop: whether drafting ends after a path, counted from the start of the block.
        at: the tokens emitted since then.
    """

    stop: Callable[[Prefix], bool]
    at: Prefix = ()

    def covers(self, path: Prefix) -> bool:
        """Whether drafting would have gone on all the way to ``path`` and beyond it."""
        whole = self.at + path
        return not any(self.stop(whole[:i]) for i in range(len(self.at), len(whole) + 1))


@dataclass(frozen=True)
class Layer:
    """The part of an old block that reaches beyond the committed prefix.

    Attributes:
        ratio: W at the committed prefix, measured with the target that the block was verified
            against.
        left: the coming positions whose target it modifies: how many, or the stopping tree.
        power: 1; K where K drafts share the modification (``spectr_gbv``).
    """

    ratio: Number
    left: int | StoppingTree
    power: int = 1

    def covers(self, path: Prefix) -> bool:
        """Whether the row after ``path`` is modified."""
        if isinstance(self.left, int):
            return len(path) < self.left
        return self.left.covers(path)

    def after(self, tokens: Prefix, ratio: Number) -> Layer:
        """The layer once ``tokens``, which it covers, were emitted."""
        left = self.left
        if isinstance(left, int):
            return replace(self, ratio=ratio, left=left - len(tokens))
        return replace(self, ratio=ratio, left=replace(left, at=left.at + tokens))


def modified_target(target: Rows, draft: Rows, layers: tuple[Layer, ...]) -> Rows:
    """The rows that the next round must be verified against."""
    for layer in layers:
        target = _under(layer, target, draft)
    return target


def _under(layer: Layer, target: Rows, draft: Rows) -> Rows:
    @cache
    def ratio(path: Prefix) -> Number | None:
        """W at a node below the committed prefix; None where Q = 0."""
        if not path:
            return layer.ratio
        before, x = path[:-1], path[-1]
        above, q = ratio(before), draft(before)[x]
        return None if above is None or is_zero(q) else above * target(before)[x] / q

    @cache
    def row(path: Prefix) -> Array:
        p, w = target(path), ratio(path) if layer.covers(path) else None
        return p if w is None else left_over(p, draft(path), w, layer.power)

    return row


def left_over(p: Array, q: Array, ratio: Number, power: int = 1) -> Array:
    """norm(p (1 - min(1, q/(W p)))^power); with power 1 the residual norm((W p - q)_+)."""
    if power == 1:
        return residual(p, q, ratio)
    missing = divide(positive_part(ratio * p - q), ratio * p)
    return normalise(p * missing**power, fallback=p)


def advance(
    layers: tuple[Layer, ...], target: Rows, draft: Rows, tokens: Prefix
) -> tuple[Layer, ...]:
    """The layers after ``tokens`` were emitted; spent ones are dropped."""
    kept = []
    for layer in layers:
        ratio: Number | None = layer.ratio
        for i, x in enumerate(tokens):
            q = draft(tokens[:i])[x]
            ratio = None if ratio is None or is_zero(q) else ratio * target(tokens[:i])[x] / q
        if ratio is not None and layer.covers(tokens):
            kept.append(layer.after(tokens, ratio))
        target = _under(layer, target, draft)  # the layers above were measured with this one
    return tuple(kept)


def pass_probability(ratio: Number, p: Array, q: Array) -> Number:
    """h_i at an inner node: 1 if W >= 1, else z/(z + 1 - W), z = sum (W p - q)_+."""
    z = positive_part(ratio * p - q).sum()
    slack = positive_part(1 - ratio)
    return 1 if is_zero(slack) else z / (z + slack)


def judge(fx: Effects, target: Rows, draft: Rows, path: Prefix, slot: int) -> int:
    """The length kept of a drafted path against (already modified) target rows.

    The test of length i reads slot ``slot + i - 1``.
    """
    gamma = len(path)
    ratios = [fx.field.one]
    for i, x in enumerate(path):
        ratios.append(ratios[-1] * target(path[:i])[x] / draft(path[:i])[x])
    if gamma == 0 or fx.flip(minimum(1, ratios[gamma]), slot + gamma - 1):
        return gamma
    for i in range(gamma - 1, 0, -1):
        if fx.flip(pass_probability(ratios[i], target(path[:i]), draft(path[:i])), slot + i - 1):
            return i
    return 0


def layers_after(
    layers: tuple[Layer, ...],
    target: Rows,
    draft: Rows,
    kept: Prefix,
    gamma: int,
    power: int = 1,
    tree: StoppingTree | None = None,
) -> tuple[Layer, ...]:
    """All layers once ``kept`` was kept of a block of ``gamma``: a partly kept block adds its own.

    ``target`` is unmodified, and ``layers`` are measured before the block; ``tree`` is where the
    block would have gone on, if the window is adaptive.
    """
    if len(kept) < gamma:
        left = gamma if tree is None else tree
        layers = (*layers, Layer(field_of(draft(())).one, left, power))
    return advance(layers, target, draft, kept)


def program(
    fx: Effects,
    target: Rows,
    draft: Rows,
    drafts: tuple[Prefix, ...],
    carry: Carry = (),
    stop: Callable[[Prefix], bool] | None = None,
) -> Round:
    """One round of greedy block verification; ``carry`` is a tuple of :class:`Layer`.

    ``stop`` tells where an adaptive window ends a block: asked about a path from its start.
    """
    path = only_draft(drafts, "greedy block verification")
    layers: tuple[Layer, ...] = carry  # type: ignore[assignment]
    gamma = len(path)
    kept = path[: judge(fx, modified_target(target, draft, layers), draft, path, 0)]
    tree = None if stop is None else StoppingTree(stop)
    layers = layers_after(layers, target, draft, kept, gamma, tree=tree)
    return finish(fx, target, draft, layers, kept, gamma)


def finish(
    fx: Effects, target: Rows, draft: Rows, layers: tuple[Layer, ...], kept: Prefix, slot: int
) -> Round:
    """The end of a round: a token after ``kept``, from the target as ``layers`` modify it."""
    p, q = below(target, kept), below(draft, kept)
    last = fx.choose(modified_target(p, q, layers)(()), slot)
    return Round(len(kept), (*kept, last), advance(layers, p, q, (last,)))
