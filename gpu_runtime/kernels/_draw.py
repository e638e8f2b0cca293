"""One token a request from the weights of a node, by inverse CDF in two steps.

The token is the first whose cumulative weight exceeds u times the total: the sums of the tiles
give the tile, the cumulative sum inside it the token (float64). If rounding leaves none it is the
last one of positive weight. Where the total is of rounding size the draw is from p itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._scan import TOLERANCE
from gpu_runtime.kernels._weights import Law, node_tiles, node_weights

if TYPE_CHECKING:
    from gpu_runtime.kernels._round import Round

NOWHERE = tl.constexpr(2**30)


@triton.jit
def pick(weights, index, base, threshold):
    """First index with weight and base + cumulative > threshold, else the last with weight.

    Args:
        weights: [LANES, N] float64. base, threshold: [LANES].
    """
    cumulative = base[:, None] + tl.cumsum(weights, axis=1)
    positive = weights > 0
    hit = positive & (cumulative > threshold[:, None])
    first = tl.min(tl.where(hit, index, NOWHERE), axis=1)
    last = tl.maximum(tl.max(tl.where(positive, index, -1), axis=1), 0)
    return tl.where(first < NOWHERE, first, last)


@triton.jit
def draw_kernel(
    p,
    q,
    p_stats,
    q_stats,
    lengths,
    nodes,
    picks,
    limits,
    keep,
    take,
    sums,
    uniforms,
    tokens,
    batch,
    count,
    tiles,
    vocab,
    slot,
    S,
    K: tl.constexpr,
    G: tl.constexpr,
    CELLS: tl.constexpr,
    LANES: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = request < batch
    node = tl.load(picks + request, mask=real, other=0)
    row = tl.load(nodes + node, mask=real, other=-1)
    tile = tl.arange(0, TILES)[None, :]
    inside = real[:, None] & (tile < tiles)
    place = sums + node[:, None] * tiles + tile
    masses = tl.load(place, mask=inside, other=0.0).to(tl.float64)
    whole = tl.load(place + count * tiles, mask=inside, other=0.0).to(tl.float64)
    usable = tl.sum(masses, axis=1) > TOLERANCE
    masses = tl.where(usable[:, None], masses, whole)
    threshold = tl.load(uniforms + request * S + slot, mask=real, other=0.0)
    threshold = threshold * tl.sum(masses, axis=1)
    chosen = pick(masses, tile, tl.zeros_like(threshold), threshold)
    base = tl.sum(tl.where(tile < chosen[:, None], masses, 0.0), axis=1)
    token = chosen[:, None] * TILE + tl.arange(0, TILE)[None, :]
    target, draft = node_tiles(p, q, p_stats, q_stats, lengths, row, token, vocab, K, G)
    weights = node_weights(target, draft, row, limits, keep, take, CELLS)
    weights = tl.where(usable[:, None], weights, target)
    found = pick(weights.to(tl.float64), token, base, threshold)
    tl.store(tokens + request, found.to(tl.int64), mask=real)


def draw(rnd: Round, nodes: Tensor, picks: Tensor, law: Law, sums: Tensor, slot: int) -> Tensor:
    """Tokens [B] int64.

    Args:
        nodes, law, sums: of ``node_sums``. picks: [B] int32, the node of each request as a place
            in ``nodes``. slot: the column of the tape to read.
    """
    sizes, tokens = rnd.tiling, rnd.new(rnd.batch, dtype=torch.int64)
    draw_kernel[rnd.by_lanes(rnd.batch)](
        rnd.p,
        rnd.q,
        rnd.p_stats,
        rnd.q_stats,
        rnd.lengths,
        nodes,
        picks,
        *law,
        sums,
        rnd.uniforms,
        tokens,
        rnd.batch,
        nodes.numel(),
        sizes.tiles,
        rnd.vocab,
        slot,
        rnd.uniforms.shape[1],
        K=rnd.num_drafts,
        G=rnd.gamma,
        CELLS=law.cells,
        LANES=sizes.lanes,
        TILE=sizes.tile,
        TILES=sizes.padded,
        num_warps=8,
    )
    return tokens
