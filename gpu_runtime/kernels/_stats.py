"""Row statistics: the largest logit and the sum of exponentials above it, for every row in use.

Two steps, so that one row can be read by many programs: each tile finds its own maximum and sum,
then the tiles of a row are combined. Target and draft rows go in one launch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._prefixes import head_of


class Sizes(Protocol):
    """What is needed of a ``Tiling``."""

    @property
    def tile(self) -> int: ...

    @property
    def tiles(self) -> int: ...

    @property
    def lanes(self) -> int: ...

    @property
    def padded(self) -> int: ...


@triton.jit
def row_in_use(lengths, heads, row, count, steps, extra, K: tl.constexpr, G: tl.constexpr):
    """Whether a row is drafted (or the bonus row, ``extra`` = 1) and the head of its prefix.

    Args:
        steps: rows of a draft, g + extra.
    """
    real = row < count
    branch, i = row // steps, row % steps
    used = i < tl.load(lengths + branch // K, mask=real, other=0) + extra
    return real & used & (head_of(heads, branch * (G + 1) + i, K, real) == branch % K)


@triton.jit
def tile_stats(rows, partial, row, count, used, vocab, TILE: tl.constexpr):
    """Maximum and sum of one tile of rows, into partial [rows, tiles, 2]; -inf and 0 if unused."""
    tile, tiles = tl.program_id(1), tl.num_programs(1)
    token = tile * TILE + tl.arange(0, TILE)
    inside = used[:, None] & (token < vocab)[None, :]
    place = rows + row.to(tl.int64)[:, None] * vocab + token[None, :]
    logit = tl.load(place, mask=inside, other=float("-inf")).to(tl.float32)
    top = tl.max(logit, axis=1)
    above = logit - tl.where(top > float("-inf"), top, 0.0)[:, None]
    out = partial + 2 * (row * tiles + tile)
    tl.store(out, top, mask=row < count)
    tl.store(out + 1, tl.sum(tl.exp(above), axis=1), mask=row < count)


@triton.jit
def stats_kernel(
    p,
    q,
    lengths,
    heads,
    p_partial,
    q_partial,
    p_rows,
    q_rows,
    vocab,
    K: tl.constexpr,
    G: tl.constexpr,
    LANES: tl.constexpr,
    TILE: tl.constexpr,
):
    row = tl.program_id(0) * LANES + tl.arange(0, LANES)
    if tl.program_id(2) == 0:
        used = row_in_use(lengths, heads, row, p_rows, G + 1, 1, K, G)
        tile_stats(p, p_partial, row, p_rows, used, vocab, TILE)
    else:
        used = row_in_use(lengths, heads, row, q_rows, G, 0, K, G)
        tile_stats(q, q_partial, row, q_rows, used, vocab, TILE)


@triton.jit
def combine_tiles(partial, stats, row, count, tiles, TILES: tl.constexpr):
    """stats [rows, 2] float64 of the tiles of rows."""
    tile = tl.arange(0, TILES)
    real = row < count
    inside = real[:, None] & (tile < tiles)[None, :]
    place = partial + 2 * (row[:, None] * tiles + tile[None, :])
    tops = tl.load(place, mask=inside, other=float("-inf"))
    sums = tl.load(place + 1, mask=inside, other=0.0)
    top = tl.max(tops, axis=1)
    top = tl.where(top > float("-inf"), top, 0.0)
    share = tl.exp((tops - top[:, None]).to(tl.float64)) * sums.to(tl.float64)
    tl.store(stats + 2 * row, top.to(tl.float64), mask=real)
    tl.store(stats + 2 * row + 1, tl.sum(share, axis=1), mask=real)


@triton.jit
def combine_kernel(
    p_partial,
    q_partial,
    p_stats,
    q_stats,
    p_rows,
    q_rows,
    tiles,
    LANES: tl.constexpr,
    TILES: tl.constexpr,
):
    row = tl.program_id(0) * LANES + tl.arange(0, LANES)
    if tl.program_id(1) == 0:
        combine_tiles(p_partial, p_stats, row, p_rows, tiles, TILES)
    else:
        combine_tiles(q_partial, q_stats, row, q_rows, tiles, TILES)


@lru_cache(maxsize=64)
def laws(count: int, device: torch.device) -> Tensor:
    """The statistics (0, 1) of ``count`` log laws; read only."""
    return torch.tensor([0.0, 1.0], dtype=torch.float64, device=device).repeat(count, 1)


def row_stats(
    p: Tensor, q: Tensor, lengths: Tensor, heads: Tensor, sizes: Sizes, needed: bool
) -> tuple[Tensor, Tensor]:
    """(maximum, sum) of the rows of p [B, K, g+1, V] and q [B, K, g, V], float64 [rows, 2].

    Rows that no draft reaches, and those of prefixes that an earlier draft has as well, get none.
    Without ``needed`` every row gets (0, 1): it is a log law already.
    """
    num_drafts, gamma, vocab = q.shape[1:]
    counts = [table.shape[0] * num_drafts * table.shape[2] for table in (p, q)]
    if not needed:
        return laws(counts[0], p.device), laws(counts[1], p.device)
    stats = [torch.empty((n, 2), dtype=torch.float64, device=p.device) for n in counts]
    partial = [
        torch.empty((n, sizes.tiles, 2), dtype=torch.float32, device=p.device) for n in counts
    ]
    blocks = triton.cdiv(counts[0], sizes.lanes)
    stats_kernel[(blocks, sizes.tiles, 2)](
        p,
        q,
        lengths,
        heads,
        *partial,
        *counts,
        vocab,
        K=num_drafts,
        G=gamma,
        LANES=sizes.lanes,
        TILE=sizes.tile,
    )
    combine_kernel[(blocks, 2)](
        *partial, *stats, *counts, sizes.tiles, LANES=sizes.lanes, TILES=sizes.padded
    )
    return stats[0], stats[1]
