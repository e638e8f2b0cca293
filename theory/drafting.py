"""Drawing the drafts of a round, as programs over the same effects.

A *window* draws one path and decides after each token whether to draft another; it is a stopping
time when its decision uses only tokens drafted so far and draft rows (``theory.windows``).

A *drafting* draws all drafts of a round. Every one of them is a tree that is handed to the
verifier as the tuple of its root-to-leaf paths, siblings in the order they were drawn:

* :func:`independent`: K windows, run separately (K i.i.d. paths);
* :func:`tree`: at every node of depth i, ``branching[i]`` children, drawn afresh from the draft
  row (``replacement=True``) or without replacement: successive draws from the row renormalised
  on what is left, which is the order in which Gumbel top-k lists its tokens;
* :func:`likeliest`: a deterministic tree, the ``branching[i]`` likeliest tokens of each row.

So ``tree((K, 1, ..., 1))`` is K i.i.d. paths of equal length, and ``replacement=False`` makes their
first tokens distinct. Fresh siblings may be equal and are still two nodes, so which leaves share
a node is read off their places (:func:`chunks`); siblings drawn without replacement differ, and
where a row has fewer tokens than ``branching`` asks for, fewer are drawn.

Slots: ``("draft", n, i)`` for the token at depth i + 1 of the n-th node of that depth, in the
order of the leaves; for paths that is ``("draft", k, i)`` with k the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from theory.catalogue import Verifier
from theory.effects import Effects
from theory.fields import Array, is_zero
from theory.inputs import whole
from theory.laws import normalise
from theory.models import Prefix, Rows

Window = Callable[[Effects, Rows, int, int], Prefix]
"""``window(fx, draft, cap, k)`` draws the path of draft ``k``, at most ``cap`` tokens."""

Drafting = Callable[[Effects, Rows, int], tuple[Prefix, ...]]
"""``drafting(fx, draft, cap)`` draws all drafts of a round, at most ``cap`` tokens deep."""


def drafting_for(
    entry: Verifier,
    gamma: int,
    num_drafts: int,
    params: Mapping[str, Any],
    window: Window | None = None,
) -> Drafting:
    """The drafting that a verifier needs, at draft length gamma with K drafts or children.

    Raises:
        ValueError: a window for drafts that are no separate paths.
    """
    replacement = params.get("replacement", True)
    if entry.drafts in ("one", "iid") and replacement:
        return independent(fixed(gamma) if window is None else window, num_drafts)
    if window is not None:
        raise ValueError(f"{entry.name!r} drafts a tree of fixed shape; leave the window out")
    if entry.drafts == "point_mass":
        return likeliest((num_drafts,) * gamma)
    if entry.drafts == "tree":
        return tree(_widths(params, gamma, num_drafts), replacement)
    return tree((num_drafts,) + (1,) * (gamma - 1), replacement=False)


def drawn_tokens(entry: Verifier, gamma: int, num_drafts: int, params: Mapping[str, Any]) -> int:
    """The number of tokens that a round draws for a verifier (gamma for a deterministic tree)."""
    if entry.drafts == "point_mass":
        return gamma
    if entry.drafts != "tree":
        return gamma * num_drafts
    widths = _widths(params, gamma, num_drafts)
    return sum(prod(widths[: depth + 1]) for depth in range(len(widths)))


def draw_path(fx: Effects, draft: Rows, stop: Callable[[Prefix], bool], cap: int, k: int) -> Prefix:
    """Tokens drawn from the draft until ``stop(path)`` holds or ``cap`` is reached."""
    path: Prefix = ()
    while len(path) < cap and not stop(path):
        path = (*path, fx.choose(draft(path), ("draft", k, len(path))))
    return path


def fixed(gamma: int) -> Window:
    """The fixed window: ``gamma`` tokens, or fewer at the end of the budget."""

    def window(fx: Effects, draft: Rows, cap: int, k: int) -> Prefix:
        return draw_path(fx, draft, lambda path: len(path) == gamma, cap, k)

    return window


def independent(window: Window, num_drafts: int = 1) -> Drafting:
    """K paths, each drawn by its own run of the window."""

    def drafting(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
        return tuple(window(fx, draft, cap, k) for k in range(num_drafts))

    return drafting


def tree(branching: tuple[int, ...], replacement: bool = True) -> Drafting:
    """A sampled tree with ``branching[i]`` children at every node of depth i.

    Raises:
        ValueError: no levels, or a level without children.
    """
    _check(branching)

    def drafting(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
        leaves: list[Prefix] = [()]
        for depth, width in enumerate(branching[:cap]):
            grown: list[Prefix] = []
            for path in leaves:
                law = draft(path)
                for _ in range(width):
                    if not replacement and is_zero(law.sum()):
                        break
                    x = fx.choose(law, ("draft", len(grown), depth))
                    grown.append((*path, x))
                    law = law if replacement else without(law, x)
            leaves = grown
        return tuple(leaves)

    return drafting


def likeliest(branching: tuple[int, ...]) -> Drafting:
    """The deterministic tree of the ``branching[i]`` likeliest tokens of each draft row.

    Ties go to the lower token; tokens of probability zero are never proposed. With one child a
    level it is the draft's greedy path.

    Raises:
        ValueError: no levels, or a level without children.
    """
    _check(branching)

    def drafting(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
        del fx
        leaves: list[Prefix] = [()]
        for width in branching[:cap]:
            leaves = [(*path, x) for path in leaves for x in best_tokens(draft(path), width)]
        return tuple(leaves)

    return drafting


def best_tokens(row: Array, width: int) -> list[int]:
    """The ``width`` likeliest tokens of positive probability, best first."""
    order = sorted(range(len(row)), key=lambda token: -row[token])
    return [token for token in order[:width] if not is_zero(row[token])]


def without(law: Array, token: int) -> Array:
    """``law`` renormalised on the other tokens; all zeros if nothing is left."""
    rest = law.copy()
    rest[token] = rest[token] * 0
    return normalise(rest)


def chunks(
    drafts: tuple[Prefix, ...], depth: int, width: int | None
) -> list[tuple[int, tuple[Prefix, ...]]]:
    """The children of a node of the given depth, as (token, the leaves below it).

    Args:
        drafts: the leaves below the node.
        depth: its depth.
        width: number of fresh children; None where siblings are known to differ.
    """
    if width is not None:
        size = len(drafts) // width
        groups = [drafts[start : start + size] for start in range(0, len(drafts), size)]
        return [(group[0][depth], group) for group in groups]
    below: dict[int, tuple[Prefix, ...]] = {}
    for path in drafts:
        if len(path) > depth:
            below[path[depth]] = (*below.get(path[depth], ()), path)
    return list(below.items())


def _widths(params: Mapping[str, Any], gamma: int, num_drafts: int) -> tuple[int, ...]:
    """Children at each level of a sampled tree: ``branching``, else K everywhere."""
    given = params.get("branching")
    if given is None:
        return (num_drafts,) * gamma
    _check(given)
    return tuple(given)


def _check(branching: Any) -> None:
    if not isinstance(branching, (tuple, list)) or not branching:
        raise ValueError(f"branching {branching!r} has no levels; write (2, 1): children a level")
    for width in branching:
        whole(width, f"branching {branching!r}: children")
