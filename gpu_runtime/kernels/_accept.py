"""The last steps of every block rule: test all prefixes, keep the longest that passes, emit.

h_i = s_i/(s_i + 1/W_i - 1) for i below the drafted length, min(1, W_i) at it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._draw import draw
from gpu_runtime.kernels._scan import block_probability, probability
from gpu_runtime.kernels._weights import Law, node_sums

if TYPE_CHECKING:
    from gpu_runtime.kernels._round import Round


@triton.jit
def accept_kernel(
    log_w,
    sums,
    lengths,
    uniforms,
    accepted,
    picks,
    batch,
    tiles,
    first,
    S,
    G: tl.constexpr,
    LANES: tl.constexpr,
    TILES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = request < batch
    length = tl.load(lengths + request, mask=real, other=0).to(tl.int32)
    tile = tl.arange(0, TILES)[None, :]
    kept = tl.zeros([LANES], dtype=tl.int32)
    for i in tl.static_range(1, G + 1):
        node = request * (G + 1) + i
        inside = (real & (i < length))[:, None] & (tile < tiles)
        masses = tl.load(sums + node[:, None] * tiles + tile, mask=inside, other=0.0)
        mass = tl.sum(masses.to(tl.float64), axis=1)
        ratio = tl.load(log_w + node, mask=real & (i <= length), other=float("-inf"))
        h = tl.where(i < length, block_probability(mass, ratio), probability(ratio))
        uniform = tl.load(uniforms + request * S + first + i - 1, mask=real, other=1.0)
        kept = tl.where((i <= length) & (uniform < h), i, kept)
    tl.store(accepted + request, kept.to(tl.int64), mask=real)
    tl.store(picks + request, request * (G + 1) + kept, mask=real)


def accept(rnd: Round, nodes: Tensor, law: Law, log_w: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """Accepted lengths and emitted tokens, [B] int64 each.

    Args:
        nodes: [B, g+1] int32 target rows of the prefixes of one draft, -1 beyond its length.
        law: the factors of their residuals. log_w: [B, g+1] float64.
        first: the slot of the test of length 1; that of length i is i - 1 later, and the token's
            is the one after the last test.
    """
    sums = node_sums(rnd, nodes, law)
    accepted = rnd.new(rnd.batch, dtype=torch.int64)
    picks = rnd.new(rnd.batch, dtype=torch.int32)
    accept_kernel[rnd.by_lanes(rnd.batch)](
        log_w,
        sums,
        rnd.lengths,
        rnd.uniforms,
        accepted,
        picks,
        rnd.batch,
        rnd.tiling.tiles,
        first,
        rnd.uniforms.shape[1],
        G=rnd.gamma,
        LANES=rnd.tiling.lanes,
        TILES=rnd.tiling.padded,
    )
    return accepted, draw(rnd, nodes, picks, law, sums, first + rnd.gamma)
