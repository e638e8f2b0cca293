"""A key-value cache with one length per row, exact rollback, and room for a tree of guesses.

Each row b holds ``lengths[b]`` *committed* entries in slots 0..lengths[b]-1, followed by the
*pending* nodes of a tree: node j sits in slot lengths[b] + j, at position lengths[b] + depth(j),
and sees the committed entries and its own ancestors. All rows have one shape of tree, or each its
own; the tokens differ anyway. ``commit`` keeps one path of each row's tree by moving its entries
behind the committed ones; ``discard`` forgets the tree. Entries beyond a row's last slot are stale:
the mask hides them (their weight is exactly 0) and the next write replaces them, so that a rollback
is a change of one integer.

    slots of row b:  | committed 0 .. n-1 | node 0 | node 1 | ... | stale ...

Because the mask and the positions are explicit, a chain of new tokens, K drafts that are hidden
from each other, and a whole prefix tree are the same operation with different parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Parents = Sequence[int] | Ints
"""Numbers of the nodes that new nodes follow (-1: the committed end): [n] for all rows, or
[B, n]."""


@dataclass(frozen=True)
class Plan:
    """Where the new tokens of one call go: positions [B, n] and what each may see.

    ``visible`` is [B or 1, n, T]; ``key_positions`` [B or 1, T] are the positions of the slots,
    from which a sliding window is cut.
    """

    positions: Ints
    visible: Bools
    key_positions: Ints

    def within(self, window: int) -> Bools:
        """``visible`` restricted to the last ``window`` positions, the token's own included."""
        distance = self.positions[: len(self.visible), :, None] - self.key_positions[:, None, :]
        return self.visible & (distance < window)


class RowCache(Cache):
    """Preallocated keys and values of all layers, [B, heads, capacity, d] each.

    Storage is allocated by the first call, in the shape and dtype that the model writes.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        super().__init__(layers=[])
        self.capacity = capacity
        self.lengths: Ints = np.zeros(rows, dtype=np.int64)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self._depth: Ints = np.zeros((1, 0), dtype=np.int64)
        self._ancestors: Bools = np.zeros((1, 0, 0), dtype=np.bool_)
        self._new = 0

    @property
    def pending(self) -> int:
        """Nodes of the tree that follows the committed entries."""
        return int(self._depth.shape[1])

    @property
    def entries(self) -> Ints:
        """Entries of each row that a call can see: committed and pending, [B]."""
        return self.lengths + self.pending

    def plan(self, parents: Parents) -> Plan:
        """Append nodes to the tree of each row.

        The caller runs the model next. ``abandon`` takes the nodes back if that fails.

        Raises:
            ValueError: no room for the nodes.
        """
        shapes = np.atleast_2d(np.asarray(parents, dtype=np.int64))
        start, n = self.pending, shapes.shape[1]
        if int(self.lengths.max(initial=0)) + start + n > self.capacity:
            raise ValueError(
                f"{n} tokens after {int(self.lengths.max())} + {start} entries exceed the cache's "
                f"capacity of {self.capacity}; open it with a larger one"
            )
        self._grow(shapes)
        self._new = n
        return self._layout(start)

    def abandon(self) -> None:
        """Take back the nodes of the last ``plan``."""
        kept = self.pending - self._new
        self._depth = self._depth[:, :kept]
        self._ancestors = self._ancestors[:, :kept, :kept]
        self._new = 0

    def update(  # type: ignore[override]
        self, key: Tensor, value: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Write a layer's new entries and return all that the plan's mask spans (model's hook)."""
        while len(self.keys) <= layer_idx:
            rows, heads, _n, dim = key.shape
            self.keys.append(key.new_zeros((rows, heads, self.capacity, dim)))
            rows, heads, _n, dim = value.shape
            self.values.append(value.new_zeros((rows, heads, self.capacity, dim)))
        first = self.entries - self._new
        end = int(self.entries.max())
        for store, new in ((self.keys[layer_idx], key), (self.values[layer_idx], value)):
            if (first == first[0]).all():
                store[:, :, first[0] : first[0] + self._new] = new
            else:
                slots = torch.from_numpy(first[:, None] + np.arange(self._new)).to(new.device)
                row = torch.arange(len(first), device=new.device)[:, None]
                store[row, :, slots] = new.transpose(1, 2)
        return self.keys[layer_idx][:, :, :end], self.values[layer_idx][:, :, :end]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The longest row's committed entries (transformers asks for one number)."""
        return int(self.lengths.max(initial=0))

    def commit(self, path: Ints, counts: Ints) -> None:
        """Keep the first ``counts[b]`` nodes of ``path[b]`` ([B, m] node indices); drop the rest.

        Raises:
            ValueError: a path that is not a chain of the tree from the committed end.
        """
        width = int(counts.max(initial=0))
        kept = path[:, :width]
        tree = np.arange(len(self._depth))[:, None]
        follows = self._depth[tree, kept] == np.arange(width)
        follows[:, 1:] &= self._ancestors[tree, kept[:, 1:], kept[:, :-1]]
        if not (follows | (np.arange(width) >= counts[:, None])).all():
            raise ValueError(f"path {path.tolist()} is not a chain of the tree; check it")
        if (kept != np.arange(width)).any():
            self._move(kept)
        self.lengths = self.lengths + counts
        self.discard()

    def discard(self) -> None:
        """Forget the pending tree."""
        self._depth, self._ancestors = self._depth[:1, :0], self._ancestors[:1, :0, :0]
        self._new = 0

    def cut_back(self, lengths: Ints) -> None:
        """Go back to ``lengths`` [B] committed entries where there are more."""
        self.discard()
        self.lengths = np.minimum(self.lengths, lengths)

    def restore(self, lengths: Ints) -> None:
        """Go back to earlier ``lengths``, after a failure: stale entries are cleared as well,
        since a NaN among them would survive a mask (0 * NaN)."""
        self.discard()
        self.lengths = lengths.copy()
        for store in (*self.keys, *self.values):
            for row, length in enumerate(lengths.tolist()):
                store[row, :, length:] = 0

    def select(self, rows: Ints) -> None:
        """Keep only the rows with these indices, in this order."""
        self.lengths = self.lengths[rows]
        index = torch.from_numpy(rows)
        for stores in (self.keys, self.values):
            for layer, store in enumerate(stores):
                stores[layer] = store.index_select(0, index.to(store.device))

    def _grow(self, parents: Ints) -> None:
        start, n = self.pending, parents.shape[1]
        trees = max(len(parents), len(self._depth))
        depth = np.zeros((trees, start + n), dtype=np.int64)
        depth[:, :start] = self._depth
        ancestors = np.zeros((trees, start + n, start + n), dtype=np.bool_)
        ancestors[:, :start, :start] = self._ancestors
        tree = np.arange(trees)
        for node in range(start, start + n):
            parent = parents[:, node - start]
            wrong = (parent < -1) | (parent >= node)
            if wrong.any():
                raise ValueError(
                    f"parent {parent[wrong][0]} of node {node} must be -1 or an earlier node"
                )
            seen = ancestors[tree, parent] & (parent >= 0)[:, None]
            ancestors[:, node] = seen
            ancestors[:, node, node] = True
            depth[:, node] = seen.sum(axis=1)
        self._depth, self._ancestors = depth, ancestors

    def _layout(self, start: int) -> Plan:
        shared = len(self._depth) == 1 and bool((self.lengths == self.lengths[:1]).all())
        base = self.lengths[:1] if shared else self.lengths
        nodes, rows = self.pending, len(base)
        slots = np.arange(int(base.max()) + nodes)
        node = slots - base[:, None]
        in_tree = (node >= 0) & (node < nodes)
        node_or_none = np.where(in_tree, node, nodes)
        seen = np.zeros((rows, nodes - start, nodes + 1), dtype=np.bool_)
        seen[:, :, :nodes] = self._ancestors[:, start:]
        places = np.broadcast_to(node_or_none[:, None], (rows, nodes - start, len(slots)))
        visible = (node < 0)[:, None, :] | np.take_along_axis(seen, places, axis=2)
        depth = np.zeros((rows, nodes + 1), dtype=np.int64)
        depth[:, :nodes] = self._depth
        in_order = base[:, None] + np.take_along_axis(depth, node_or_none, axis=1)
        key_positions = np.where(node < 0, slots, in_order)
        return Plan(self.lengths[:, None] + self._depth[:, start:], visible, key_positions)

    def _move(self, path: Ints) -> None:
        width = path.shape[1]
        for store in (*self.keys, *self.values):
            row = torch.arange(len(path), device=store.device)[:, None]
            first = torch.from_numpy(self.lengths).to(store.device)[:, None]
            source = first + torch.from_numpy(path).to(store.device)
            target = first + torch.arange(width, device=store.device)
            store[row, :, target] = store[row, :, source]
