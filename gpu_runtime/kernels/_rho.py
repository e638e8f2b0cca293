"""K-SEQ's rho: the smallest of [1, k] with phi_k(beta(rho)) <= rho beta(rho), k drafts surviving.

rho depends on a node alone (its rows, and how many drafts share its prefix), so all nodes are
searched at once before any decision. Each pass over the vocabulary evaluates CANDIDATES values of
beta(rho) = sum_x min(q, p/rho) and keeps the interval between two of them that holds the root;
after PASSES the upper end, which is lossless, is at most (k - 1) 2^-19 above it. Nodes of a single
draft have rho = 1 and are skipped, and so is every prefix that an earlier draft has as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._weights import node_tiles

if TYPE_CHECKING:
    from gpu_runtime.kernels._round import Round

CANDIDATES, PASSES = 32, 4
MOST_ELEMENTS = 4096
"""Most tile sums that a program holds at once."""
SLACK = tl.constexpr(4 * 2.0**-23)
"""Rows that are equal up to rounding get rho = 1."""


class Search(NamedTuple):
    """By target row, float64 [rows]: the ends of the interval, beta at the upper one."""

    low: Tensor
    high: Tensor
    beta: Tensor


@triton.jit
def at_least_one(beta, count):
    """phi_k(beta) = 1 - (1 - beta)^k."""
    below = beta < 1.0
    miss = tl.exp(count * tl.log(1.0 - tl.where(below, beta, 0.0)))
    return tl.where(below, 1.0 - miss, 1.0)


@triton.jit
def searched(heads, lengths, row, rows, K: tl.constexpr, G: tl.constexpr):
    """Whether a target row's rho is searched, and how many drafts it has."""
    real = row < rows
    branch, i = row // (G + 1), row % (G + 1)
    drafted = real & (i < tl.load(lengths + branch // K, mask=real, other=0))
    head = tl.load(heads + 2 * row, mask=drafted, other=-1)
    count = tl.load(heads + 2 * row + 1, mask=drafted, other=1)
    return drafted & (head == branch % K) & (count > 1), count


@triton.jit
def open_kernel(
    heads, lengths, nodes, low, high, rows, K: tl.constexpr, G: tl.constexpr, LANES: tl.constexpr
):
    row = tl.program_id(0) * LANES + tl.arange(0, LANES)
    used, count = searched(heads, lengths, row, rows, K, G)
    tl.store(nodes + row, tl.where(used, row, -1), mask=row < rows)
    tl.store(low + row, tl.full([LANES], 1.0, tl.float64), mask=row < rows)
    tl.store(high + row, count.to(tl.float64), mask=row < rows)


@triton.jit
def beta_kernel(
    p,
    q,
    p_stats,
    q_stats,
    lengths,
    nodes,
    low,
    high,
    sums,
    rows,
    vocab,
    CANDIDATES: tl.constexpr,
    K: tl.constexpr,
    G: tl.constexpr,
    LANES: tl.constexpr,
    TILE: tl.constexpr,
):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    tile, tiles = tl.program_id(1), tl.num_programs(1)
    row = tl.load(nodes + lane, mask=lane < rows, other=-1)
    if tl.max(row, axis=0) >= 0:
        used = row >= 0
        token = (tile * TILE + tl.arange(0, TILE))[None, :]
        target, draft = node_tiles(p, q, p_stats, q_stats, lengths, row, token, vocab, K, G)
        start = tl.load(low + lane, mask=used, other=1.0)
        step = (tl.load(high + lane, mask=used, other=1.0) - start) / (CANDIDATES - 1)
        for c in range(CANDIDATES):
            scale = (1.0 / (start + step * c)).to(tl.float32)
            beta = tl.sum(tl.minimum(draft, target * scale[:, None]), axis=1)
            tl.store(sums + (lane * CANDIDATES + c) * tiles + tile, beta, mask=used)


@triton.jit
def narrow_kernel(
    heads,
    nodes,
    low,
    high,
    beta,
    sums,
    rows,
    tiles,
    CANDIDATES: tl.constexpr,
    LANES: tl.constexpr,
    TILES: tl.constexpr,
):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    used = tl.load(nodes + lane, mask=lane < rows, other=-1) >= 0
    c = tl.arange(0, CANDIDATES)[None, :]
    tile = tl.arange(0, TILES)[None, None, :]
    place = (lane[:, None] * CANDIDATES + c)[:, :, None] * tiles + tile
    inside = used[:, None, None] & (tile < tiles)
    found = tl.sum(tl.load(sums + place, mask=inside, other=0.0).to(tl.float64), axis=2)
    found = tl.minimum(found, 1.0)
    start = tl.load(low + lane, mask=used, other=1.0)
    step = (tl.load(high + lane, mask=used, other=1.0) - start) / (CANDIDATES - 1)
    rho = start[:, None] + step[:, None] * c
    count = tl.load(heads + 2 * lane + 1, mask=used, other=1).to(tl.float64)
    valid = at_least_one(found, count[:, None]) <= rho * found + SLACK
    best = tl.min(tl.where(valid, c, CANDIDATES - 1), axis=1)
    at_best = c == best[:, None]
    tl.store(beta + lane, tl.sum(tl.where(at_best, found, 0.0), axis=1), mask=used)
    tl.store(high + lane, tl.sum(tl.where(at_best, rho, 0.0), axis=1), mask=used)
    tl.store(low + lane, start + step * tl.maximum(best - 1, 0), mask=used)


def search(rnd: Round) -> Search:
    """rho (``high``) and beta(rho) of all nodes that several drafts share."""
    sizes, rows = rnd.tiling, rnd.rows
    found = Search(*(rnd.new(rows, dtype=torch.float64) for _ in range(3)))
    if rnd.num_drafts == 1:
        return found
    nodes = rnd.new(rows, dtype=torch.int32)
    shape = {"K": rnd.num_drafts, "G": rnd.gamma}
    open_kernel[(triton.cdiv(rows, sizes.scan),)](
        rnd.heads, rnd.lengths, nodes, found.low, found.high, rows, **shape, LANES=sizes.scan
    )
    sums = rnd.new(rows, CANDIDATES, sizes.tiles, dtype=torch.float32)
    lanes = max(1, MOST_ELEMENTS // (CANDIDATES * sizes.padded))
    for _ in range(PASSES):
        beta_kernel[rnd.by_lanes(rows, sizes.tiles)](
            rnd.p,
            rnd.q,
            rnd.p_stats,
            rnd.q_stats,
            rnd.lengths,
            nodes,
            found.low,
            found.high,
            sums,
            rows,
            rnd.vocab,
            CANDIDATES=CANDIDATES,
            **shape,
            LANES=sizes.lanes,
            TILE=sizes.tile,
        )
        narrow_kernel[(triton.cdiv(rows, lanes),)](
            rnd.heads,
            nodes,
            *found,
            sums,
            rows,
            sizes.tiles,
            CANDIDATES=CANDIDATES,
            LANES=lanes,
            TILES=sizes.padded,
        )
    return found
