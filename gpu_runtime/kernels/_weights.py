"""What a node leaves of its target: w(x) = (keep p(x) - take q(x))_+, summed over tiles.

``keep`` and ``take`` depend on the cell of the token, how many limits l_j have p(x) >= l_j q(x).
Every verifier's residual has this form:

    token, block    no limit       keep 1              take 1/W (0: the target itself)
    greedy block    no limit       keep 1/M            take (c + M/W)/M, all layers at once
    K-SEQ           limit rho      keep 1 - G/rho, 1   take 0, G
    marked          label values   T is linear in p/q on every cell

The sums of p itself come along, for the draw from a node whose weights are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from gpu_runtime.kernels._round import Round

LARGEST = 1e30
"""Largest factor of a draft row: far beyond it the weights are empty."""


class Law(NamedTuple):
    """Factors by target row: limits [rows, N], keep and take [rows, N+1], float32."""

    limits: Tensor
    keep: Tensor
    take: Tensor

    @property
    def cells(self) -> int:
        return int(self.keep.shape[1] - 1)


def new_law(rnd: Round, cells: int) -> Law:
    """Uninitialised factors of every target row."""
    sizes = (cells, cells + 1, cells + 1)
    return Law(*(rnd.new(rnd.rows, size, dtype=torch.float32) for size in sizes))


@triton.jit
def probability_tile(rows, stats, row, token, inside, vocab):
    """p(x) of a tile of rows, float32 [LANES, TILE]; 0 outside."""
    some = tl.max(inside.to(tl.int32), axis=1) > 0
    top = tl.load(stats + 2 * row, mask=some, other=0.0).to(tl.float32)
    scale = 1.0 / tl.load(stats + 2 * row + 1, mask=some, other=1.0)
    place = rows + row.to(tl.int64)[:, None] * vocab + token
    logit = tl.load(place, mask=inside, other=float("-inf")).to(tl.float32)
    return tl.exp(logit - top[:, None]) * scale.to(tl.float32)[:, None]


@triton.jit
def node_tiles(
    p,
    q,
    p_stats,
    q_stats,
    lengths,
    row,
    token,
    vocab,
    K: tl.constexpr,
    G: tl.constexpr,
):
    """p and q [LANES, TILE] of target rows (-1: none); q is 0 at a bonus row.

    Args:
        token: [LANES, TILE], or one tile for all lanes [1, TILE].
    """
    used = row >= 0
    place = tl.where(used, row, 0)
    branch, i = place // (G + 1), place % (G + 1)
    drafted = used & (i < tl.load(lengths + branch // K, mask=used, other=0))
    inside = token < vocab
    target = probability_tile(p, p_stats, place, token, used[:, None] & inside, vocab)
    q_row = branch * G + tl.minimum(i, G - 1)
    draft = probability_tile(q, q_stats, q_row, token, drafted[:, None] & inside, vocab)
    return target, draft


@triton.jit
def node_weights(target, draft, row, limits, keep, take, CELLS: tl.constexpr):
    """w [LANES, TILE] of target rows."""
    used = row >= 0
    place = tl.where(used, row, 0)
    first = place * (CELLS + 1)
    keeps = tl.load(keep + first, mask=used, other=0.0)[:, None]
    takes = tl.load(take + first, mask=used, other=0.0)[:, None]
    for j in tl.static_range(CELLS):
        limit = tl.load(limits + place * CELLS + j, mask=used, other=0.0)[:, None]
        reached = target >= limit * draft
        higher = tl.load(keep + first + j + 1, mask=used, other=0.0)[:, None]
        keeps = tl.where(reached, higher, keeps)
        higher = tl.load(take + first + j + 1, mask=used, other=0.0)[:, None]
        takes = tl.where(reached, higher, takes)
    return tl.maximum(keeps * target - takes * draft, 0.0)


@triton.jit
def weights_kernel(
    p,
    q,
    p_stats,
    q_stats,
    lengths,
    nodes,
    limits,
    keep,
    take,
    sums,
    count,
    vocab,
    K: tl.constexpr,
    G: tl.constexpr,
    CELLS: tl.constexpr,
    LANES: tl.constexpr,
    TILE: tl.constexpr,
):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    tile, tiles = tl.program_id(1), tl.num_programs(1)
    row = tl.load(nodes + lane, mask=lane < count, other=-1)
    token = (tile * TILE + tl.arange(0, TILE))[None, :]
    target, draft = node_tiles(p, q, p_stats, q_stats, lengths, row, token, vocab, K, G)
    weights = node_weights(target, draft, row, limits, keep, take, CELLS)
    out = sums + lane * tiles + tile
    tl.store(out, tl.sum(weights, axis=1), mask=lane < count)
    tl.store(out + count * tiles, tl.sum(target, axis=1), mask=lane < count)


def node_sums(rnd: Round, nodes: Tensor, law: Law) -> Tensor:
    """float32 sums [2, M, tiles] of w and of p, at the target rows ``nodes`` [M] (-1: zeros)."""
    count, sizes = nodes.numel(), rnd.tiling
    sums = rnd.new(2, count, sizes.tiles, dtype=torch.float32)
    weights_kernel[rnd.by_lanes(count, sizes.tiles)](
        rnd.p,
        rnd.q,
        rnd.p_stats,
        rnd.q_stats,
        rnd.lengths,
        nodes,
        *law,
        sums,
        count,
        rnd.vocab,
        K=rnd.num_drafts,
        G=rnd.gamma,
        CELLS=law.cells,
        LANES=sizes.lanes,
        TILE=sizes.tile,
    )
    return sums
