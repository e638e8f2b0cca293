"""Block verification on the device: running ratios, the residuals of all prefixes, one decision.

Rule and slots as in ``sim.verifiers.block``.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._accept import accept
from gpu_runtime.kernels._round import TILE, open_round
from gpu_runtime.kernels._scan import advance, inverse, token_log
from gpu_runtime.kernels._weights import LARGEST, new_law
from sim.verifiers._checks import check_single
from sim.verifiers._common import Verdict
from sim.verifiers.block import slots

__all__ = ["slots", "verify"]


@triton.jit
def block_kernel(
    p,
    q,
    p_stats,
    q_stats,
    drafts,
    lengths,
    log_w,
    nodes,
    keep,
    take,
    batch,
    vocab,
    LARGEST: tl.constexpr,
    G: tl.constexpr,
    LANES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = request < batch
    length = tl.load(lengths + request, mask=real, other=0).to(tl.int32)
    ratio = tl.zeros([LANES], dtype=tl.float64)
    for i in tl.static_range(G + 1):
        row = request * (G + 1) + i
        tl.store(log_w + row, ratio, mask=real)
        used = (i <= length) & (ratio > float("-inf"))
        tl.store(nodes + row, tl.where(used, row, -1), mask=real)
        scale = tl.minimum(inverse(ratio), LARGEST).to(tl.float32)
        tl.store(keep + row, 1.0, mask=real)
        tl.store(take + row, tl.where(i < length, scale, 0.0), mask=real)
        if i < G:
            here = real & (i < length)
            token = tl.load(drafts + request * G + i, mask=here, other=0)
            log_p = token_log(p, p_stats, row, token, vocab, here)
            log_q = token_log(q, q_stats, request * G + i, token, vocab, here)
            ratio = tl.where(here, tl.minimum(advance(ratio, log_p, log_q), 0.0), ratio)


def verify(
    log_p: Tensor,
    log_q: Tensor,
    drafts: Tensor,
    uniforms: Tensor,
    lengths: Tensor | None = None,
    carry: None = None,
    *,
    logits: bool = False,
    tile: int = TILE,
    validate: bool = True,
) -> Verdict:
    """Verify one draft a request as a block; arguments as in ``sim.verifiers``.

    Args:
        logits: the rows are logits of any scale instead of log laws.
        tile: tokens a program reads, a power of two.

    Raises:
        ValueError: inputs that break the contract, or more than one draft.
    """
    check_single(drafts, "block")
    rnd = open_round(
        log_p,
        log_q,
        drafts,
        uniforms,
        lengths,
        slots=slots,
        logits=logits,
        tile=tile,
        validate=validate,
    )
    law = new_law(rnd, 0)
    log_w = rnd.new(rnd.batch, rnd.gamma + 1, dtype=torch.float64)
    nodes = rnd.new(rnd.batch, rnd.gamma + 1, dtype=torch.int32)
    block_kernel[rnd.by_scan()](
        rnd.p,
        rnd.q,
        rnd.p_stats,
        rnd.q_stats,
        rnd.drafts,
        rnd.lengths,
        log_w,
        nodes,
        law.keep,
        law.take,
        rnd.batch,
        rnd.vocab,
        LARGEST=LARGEST,
        G=rnd.gamma,
        LANES=rnd.tiling.scan,
    )
    accepted, token = accept(rnd, nodes, law, log_w, 0)
    return Verdict(accepted, torch.zeros_like(accepted), token)
