"""Token verification on the device: one scan of the drafted tokens, then one row's residual.

Rule and slots as in ``sim.verifiers.token``.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._draw import draw
from gpu_runtime.kernels._round import TILE, open_round
from gpu_runtime.kernels._scan import log_divide, probability, token_log
from gpu_runtime.kernels._weights import new_law, node_sums
from sim.verifiers._checks import check_single
from sim.verifiers._common import Verdict
from sim.verifiers.token import slots

__all__ = ["slots", "verify"]


@triton.jit
def token_kernel(
    p,
    q,
    p_stats,
    q_stats,
    drafts,
    lengths,
    uniforms,
    accepted,
    nodes,
    picks,
    keep,
    take,
    batch,
    vocab,
    S,
    G: tl.constexpr,
    LANES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = request < batch
    length = tl.load(lengths + request, mask=real, other=0).to(tl.int32)
    kept = tl.zeros([LANES], dtype=tl.int32)
    for i in tl.static_range(G):
        here = real & (i < length)
        token = tl.load(drafts + request * G + i, mask=here, other=0)
        log_p = token_log(p, p_stats, request * (G + 1) + i, token, vocab, here)
        log_q = token_log(q, q_stats, request * G + i, token, vocab, here)
        uniform = tl.load(uniforms + request * S + i, mask=here, other=0.0)
        passed = here & (uniform < probability(log_divide(log_p, log_q)))
        kept += ((kept == i) & passed).to(tl.int32)
    row = request * (G + 1) + kept
    tl.store(accepted + request, kept.to(tl.int64), mask=real)
    tl.store(nodes + request, row, mask=real)
    tl.store(picks + request, request, mask=real)
    tl.store(keep + row, 1.0, mask=real)
    tl.store(take + row, tl.where(kept < length, 1.0, 0.0), mask=real)


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
    """Verify one draft a request, token by token; arguments as in ``sim.verifiers``.

    Args:
        logits: the rows are logits of any scale instead of log laws.
        tile: tokens a program reads, a power of two.

    Raises:
        ValueError: inputs that break the contract, or more than one draft.
    """
    check_single(drafts, "token")
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
    accepted = rnd.new(rnd.batch, dtype=torch.int64)
    nodes, picks = (rnd.new(rnd.batch, dtype=torch.int32) for _ in range(2))
    token_kernel[rnd.by_scan()](
        rnd.p,
        rnd.q,
        rnd.p_stats,
        rnd.q_stats,
        rnd.drafts,
        rnd.lengths,
        rnd.uniforms,
        accepted,
        nodes,
        picks,
        law.keep,
        law.take,
        rnd.batch,
        rnd.vocab,
        rnd.uniforms.shape[1],
        G=rnd.gamma,
        LANES=rnd.tiling.scan,
    )
    sums = node_sums(rnd, nodes, law)
    token = draw(rnd, nodes, picks, law, sums, rnd.gamma)
    return Verdict(accepted, torch.zeros_like(accepted), token)
