"""What a drafter proposes in a round: K drafts of each request, or a tree.

Both are trees of nodes below the newest committed token (the *root*), which the target reads in one
call: nodes in a fixed order, each with its parent (0 is the root, node j is number j + 1), its
depth, and the tokens between the root and its own row. ``Outcome`` says which path was kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.kv_cache import Bools, Ints


@dataclass(frozen=True)
class Proposal:
    """K drafts of each request.

    Attributes:
        drafts: [B, K, g] ids, -1 beyond ``lengths``.
        log_q: [B, K, g, V] the laws that they were drawn from.
        lengths: [B] tokens drafted.

    Node i K + k is token i of draft k.
    """

    drafts: Tensor
    log_q: Tensor
    lengths: Ints

    @property
    def counted(self) -> Ints:
        """Drafted tokens beside the one that every round emits, [B]."""
        return self.lengths

    def settle(self) -> None:
        """Wait until all of it may be read."""

    @property
    def tokens(self) -> Tensor:
        """The nodes' tokens [B, n]; padding counts as token 0."""
        batch, num_drafts, g = self.drafts.shape
        return self.drafts.clamp(min=0).transpose(1, 2).reshape(batch, g * num_drafts)

    @property
    def parents(self) -> list[int]:
        return draft_tree(*self.drafts.shape[1:])[1:]

    @property
    def depth(self) -> Ints:
        """Depth of the nodes, [1, n]; the root's is 0."""
        _, num_drafts, g = self.drafts.shape
        return np.repeat(np.arange(1, g + 1), num_drafts)[None]

    @property
    def real(self) -> Bools:
        """Which nodes are drafts and not padding, [B, n]."""
        return np.asarray(self.depth <= self.lengths[:, None])

    @property
    def before(self) -> Tensor:
        """The drafted tokens before each row, [B, 1 + n, g], padded with -1."""
        return drafted_before(self.drafts)


@dataclass(frozen=True)
class LateProposal(Proposal):
    """One draft of each request whose last token takes the bonus's place.

    The target reads the tokens before it only; where they and it are all kept, nothing more is
    emitted. ``known`` [B, g - 1] are the tokens that the target reads, which exist before
    ``drafts`` and ``log_q`` do: ``wait`` returns when these may be read.
    """

    known: Tensor
    wait: Callable[[], None]

    @property
    def counted(self) -> Ints:
        return np.maximum(self.lengths - 1, 0)

    @property
    def tokens(self) -> Tensor:
        return self.known

    @property
    def parents(self) -> list[int]:
        return list(range(self.known.shape[1]))

    @property
    def depth(self) -> Ints:
        return np.arange(1, self.known.shape[1] + 1)[None]

    @property
    def before(self) -> Tensor:
        return drafted_before(self.known[:, None])

    def settle(self) -> None:
        self.wait()


@dataclass(frozen=True)
class TreeProposal:
    """A tree of drafts for each request, parents before children.

    Attributes:
        ids: [B, n] token of each node; -1 where there is none.
        above: [B, n] number of each node's parent node; -1 for the root.
    """

    ids: Tensor
    above: Ints

    @property
    def counted(self) -> Ints:
        """Drafted tokens, [B]."""
        return np.asarray(self.real.sum(axis=1), dtype=np.int64)

    @property
    def tokens(self) -> Tensor:
        return self.ids.clamp(min=0)

    @property
    def parents(self) -> Ints:
        return self.above + 1

    @property
    def real(self) -> Bools:
        return np.asarray(self.ids.cpu().numpy() >= 0)

    @property
    def depth(self) -> Ints:
        """Depth of the nodes, [B, n]; the root's is 0."""
        return node_depths(self.above)

    @property
    def before(self) -> Tensor:
        """The drafted tokens before each row, [B, 1 + n, depth], padded with -1."""
        depth, rows = self.depth, np.arange(len(self.above))
        ids = self.ids.cpu().numpy()
        batch, n = self.above.shape
        seen = np.full((batch, 1 + n, int(depth.max(initial=0))), -1, dtype=np.int64)
        for node in range(n):
            seen[:, node + 1] = seen[rows, self.above[:, node] + 1]
            seen[rows, node + 1, depth[:, node] - 1] = ids[:, node]
        return torch.from_numpy(seen).to(self.ids.device)


@dataclass(frozen=True)
class Outcome:
    """What became of a proposal.

    Attributes:
        accepted: [B] tokens kept.
        path: [B, m] numbers of the nodes that were kept, ``accepted`` of each row.
        branch: [B] the draft that was kept; 0 for trees.
        log_p: the target's laws, [B, K, g + 1, V] or [B, 1 + n, V] for trees.
        whole: [B] whether all was kept and a drafted token takes the bonus's place.
    """

    accepted: Ints
    path: Ints
    branch: Ints
    log_p: Tensor
    whole: Bools


def draft_tree(num_drafts: int, g: int) -> list[int]:
    """Parents of the root and of K branches of g nodes; branch k's node at depth i + 1 is
    1 + i K + k."""
    first = [0] * num_drafts if g else []
    return [-1, *first, *range(1, 1 + (g - 1) * num_drafts)]


def drafted_before(drafts: Tensor) -> Tensor:
    """The drafted tokens before each row of the tree, [B, 1 + K g, g], padded with -1."""
    batch, num_drafts, g = drafts.shape
    steps = torch.arange(g, device=drafts.device)
    seen = steps <= steps[:, None]
    branches = drafts[:, None].where(seen[None, :, None, :], -1).reshape(batch, g * num_drafts, g)
    return torch.cat([drafts.new_full((batch, 1, g), -1), branches], dim=1)


def node_depths(above: Ints) -> Ints:
    """Depths of nodes [B, n] from their parents' numbers (-1: the root, of depth 0)."""
    rows = np.arange(len(above))
    depth = np.zeros((len(above), above.shape[1] + 1), dtype=np.int64)  # the last entry serves -1
    for node in range(above.shape[1]):
        depth[:, node] = depth[rows, above[:, node]] + 1
    return depth[:, :-1]


def pad_round(log_p: Tensor, proposal: Proposal, gamma: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and drafts padded to gamma, so that the tape's slots never depend on the batch."""
    missing = gamma - proposal.drafts.shape[2]
    if missing == 0:
        return log_p, proposal.log_q, proposal.drafts
    rows = log_p[:, :, -1:].expand(-1, -1, missing, -1)
    ids = proposal.drafts.new_full((*proposal.drafts.shape[:2], missing), -1)
    return (
        torch.cat([log_p, rows], dim=2),
        torch.cat([proposal.log_q, rows], dim=2),
        torch.cat([proposal.drafts, ids], dim=2),
    )
