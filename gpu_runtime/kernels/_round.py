"""One batch of rounds on the device: row tables, their statistics and the tiling.

A row of the target table has number r = (b K + k)(g + 1) + i, of the draft table (b K + k) g + i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from gpu_runtime.kernels._prefixes import prefixes
from gpu_runtime.kernels._stats import row_stats
from sim.verifiers._checks import check_inputs, check_shapes

TILE = 2048
"""Tokens of a tile; a shorter vocabulary is one tile, and then a program takes several rows."""
ELEMENTS, LANES = 2048, 128
"""Tokens that a program reads at once; requests of a program that works on scalars."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Tiling:
    """tile: tokens of a tile. tiles: tiles of a row. lanes: rows of a program. scan: requests of a
    program that works on scalars."""

    tile: int
    tiles: int
    lanes: int
    scan: int

    @property
    def padded(self) -> int:
        """``tiles``, rounded up to a power of two."""
        return int(triton.next_power_of_2(self.tiles))


def tiling(vocab: int, tile: int = TILE) -> Tiling:
    """The tiling of a vocabulary; ``tile`` is a power of two."""
    tile = min(tile, int(triton.next_power_of_2(vocab)))
    return Tiling(tile, -(-vocab // tile), max(1, ELEMENTS // tile), LANES)


@dataclass(frozen=True)
class Round:
    """p: [B, K, g+1, V] and q: [B, K, g, V] logits or log laws. p_stats, q_stats: [rows, 2].

    drafts: [B, K, g] int64. uniforms: [B, S] float64. lengths: [B] int64. heads: [B, K, g+1, 2]
    int32, for each prefix the first draft that has it and how many have it.
    """

    p: Tensor
    q: Tensor
    p_stats: Tensor
    q_stats: Tensor
    drafts: Tensor
    uniforms: Tensor
    lengths: Tensor
    heads: Tensor
    tiling: Tiling

    @property
    def batch(self) -> int:
        return int(self.drafts.shape[0])

    @property
    def num_drafts(self) -> int:
        return int(self.drafts.shape[1])

    @property
    def gamma(self) -> int:
        return int(self.drafts.shape[2])

    @property
    def vocab(self) -> int:
        return int(self.p.shape[3])

    @property
    def rows(self) -> int:
        """Rows of the target table."""
        return self.batch * self.num_drafts * (self.gamma + 1)

    def new(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """An uninitialised tensor on the device of the rows."""
        return torch.empty(shape, dtype=dtype, device=self.p.device)

    def by_scan(self) -> tuple[int]:
        """A grid over the requests, ``tiling.scan`` a program."""
        return (-(-self.batch // self.tiling.scan),)

    def by_lanes(self, count: int, *more: int) -> tuple[int, ...]:
        """A grid over ``count`` rows, ``tiling.lanes`` a program."""
        return (-(-count // self.tiling.lanes), *more)


def open_round(
    log_p: Tensor,
    log_q: Tensor,
    drafts: Tensor,
    uniforms: Tensor,
    lengths: Tensor | None,
    *,
    slots: Callable[[int, int], int],
    logits: bool,
    tile: int,
    validate: bool,
    renormalise: bool = False,
) -> Round:
    """Check the inputs and find the statistics of the rows.

    Args:
        logits: the rows are logits of any scale; else they are log laws and taken as they are,
            unless ``renormalise``.
        validate: check the values of log laws too, which waits for the device.

    Raises:
        ValueError: inputs that break the contract (``sim.verifiers``), a dtype that the kernels do
            not read, or an empty round.
    """
    batch, num_drafts, gamma = drafts.shape
    p_shape, q_shape = (torch.empty(part.shape, device="meta") for part in (log_p, log_q))
    needed = slots(gamma, num_drafts)
    check_shapes(p_shape, q_shape, drafts, uniforms, lengths, needed)
    if validate and not logits:
        check_inputs(log_p, log_q, drafts, uniforms, lengths, needed)
    if log_p.dtype not in DTYPES or log_q.dtype not in DTYPES:
        raise ValueError(f"rows are {log_p.dtype} and {log_q.dtype}; use one of {DTYPES}")
    if batch == 0 or gamma == 0:
        raise ValueError(f"drafts has shape {tuple(drafts.shape)}; use the array function for it")
    where: dict[str, Any] = {"device": log_p.device, "dtype": torch.int64}
    lengths = torch.full((batch,), gamma, **where) if lengths is None else lengths.to(**where)
    drafts, sizes = drafts.to(**where).contiguous(), tiling(log_p.shape[3], tile)
    heads = prefixes(drafts, sizes.scan)
    p, q = log_p.contiguous(), log_q.contiguous()
    stats = row_stats(p, q, lengths, heads, sizes, logits or renormalise)
    uniforms = uniforms.to(device=p.device, dtype=torch.float64).contiguous()
    return Round(p, q, *stats, drafts, uniforms, lengths, heads, sizes)
