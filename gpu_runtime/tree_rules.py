"""Rules that verify a whole tree of drafts, and which trees are well formed.

Point masses: at each node a token is drawn from the target's row; while it is drafted there, the
round goes on below it, and the first token outside the tree is the correction (the bonus, below a
leaf). Nothing is ever refused, so the text has the target's law whatever the tree, as long as the
tree was fixed before the draws. A node v is kept with probability P(v).

Slots: ``i`` for the token at position i + 1; one more than the tree is deep.

Exact face: ``theory.verifiers.point_mass``. Source: reference code of EAGLE (2401.15077).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_runtime.drafters.proposals import TreeProposal
from gpu_runtime.sampling import draw


@dataclass(frozen=True)
class TreeVerdict:
    """accepted [B]; path [B, m], the kept nodes' numbers (0 beyond ``accepted``); token [B]."""

    accepted: Tensor
    path: Tensor
    token: Tensor


@dataclass(frozen=True)
class PointMassTree:
    """The rule of deterministic trees."""

    name: str = "point_mass"
    stateful: bool = False
    multi_draft: bool = False

    def slots(self, depth: int, num_drafts: int = 1) -> int:
        """Uniforms of a round with trees of at most this depth."""
        return depth + 1

    def verify(self, log_p: Tensor, proposal: TreeProposal, uniforms: Tensor) -> TreeVerdict:
        """Walk down the tree along draws from ``log_p`` [B, 1 + n, V]."""
        device = log_p.device
        batch = torch.arange(len(log_p), device=device)
        ids = proposal.ids.to(device)
        above = torch.from_numpy(proposal.above).to(device)
        steps = int(proposal.depth.max(initial=0))
        node = torch.full_like(batch, -1)
        token = draw(log_p[:, 0], uniforms[:, 0])
        accepted, going = torch.zeros_like(batch), torch.ones_like(batch, dtype=torch.bool)
        path = torch.zeros((len(log_p), steps), dtype=torch.long, device=device)
        for i in range(steps):
            child = (above == node[:, None]) & (ids == token[:, None])
            going = going & child.any(dim=1)
            node = torch.where(going, child.to(torch.uint8).argmax(dim=1), node)
            path[:, i] = torch.where(going, node, 0)
            accepted = accepted + going
            drawn = draw(log_p[batch, node + 1], uniforms[:, i + 1])
            token = torch.where(going, drawn, token)
        return TreeVerdict(accepted, path, token)


TREE_VERIFIERS = {rule.name: rule for rule in (PointMassTree(),)}


def get(name: str) -> PointMassTree:
    """The rule for trees called ``name``.

    Raises:
        ValueError: no such rule.
    """
    if name not in TREE_VERIFIERS:
        known = ", ".join(sorted(TREE_VERIFIERS))
        raise ValueError(f"{name!r} does not verify trees; use one of {known}")
    return TREE_VERIFIERS[name]


def bad_choices(
    paths: Sequence[Sequence[int]], depth: int, width: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Which nodes of a tree given by paths of candidate ranks cannot be drafted.

    Returns the paths that are deeper than ``depth`` or name a rank of ``width`` or more, and the
    paths whose parent path is not listed.
    """
    known = {tuple(path) for path in paths} | {()}
    outside = [
        list(path)
        for path in paths
        if not 0 < len(path) <= depth or not all(0 <= rank < width for rank in path)
    ]
    orphans = [list(path) for path in paths if tuple(path[:-1]) not in known]
    return outside, orphans
