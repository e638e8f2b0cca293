"""K-SEQ on the device: rho of all shared prefixes first, then one scan of decisions.

Rule and slots as in ``sim.verifiers.kseq``. The survivors at a position are the drafts whose prefix
has the same head as the accepted one.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._draw import draw
from gpu_runtime.kernels._prefixes import head_of
from gpu_runtime.kernels._rho import at_least_one, search
from gpu_runtime.kernels._round import TILE, open_round
from gpu_runtime.kernels._scan import log_divide, probability, token_log
from gpu_runtime.kernels._weights import new_law, node_sums
from sim.verifiers._common import Verdict
from sim.verifiers.kseq import slots

__all__ = ["slots", "verify"]


@triton.jit
def shared_count(heads, place, drafts: tl.constexpr, mask):
    """How many drafts have a prefix, float64."""
    if drafts == 1:
        return tl.full(place.shape, 1.0, tl.float64)
    return tl.load(heads + 2 * place + 1, mask=mask, other=1).to(tl.float64)


@triton.jit
def kseq_kernel(
    p,
    q,
    p_stats,
    q_stats,
    drafts,
    lengths,
    heads,
    uniforms,
    rhos,
    betas,
    accepted,
    branches,
    nodes,
    picks,
    limits,
    keep,
    take,
    batch,
    vocab,
    S,
    K: tl.constexpr,
    G: tl.constexpr,
    LANES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = request < batch
    length = tl.load(lengths + request, mask=real, other=0).to(tl.int32)
    kept = tl.zeros([LANES], dtype=tl.int32)
    branch = tl.zeros([LANES], dtype=tl.int32)
    head = tl.zeros([LANES], dtype=tl.int32)
    for i in range(G):
        here = real & (kept == i) & (i < length)
        row = (request * K + head) * (G + 1) + i
        several = here & (shared_count(heads, row, K, here) > 1)
        log_rho = tl.log(tl.load(rhos + row, mask=several, other=1.0))
        winner = tl.full([LANES], -1, tl.int32)
        for k in tl.static_range(K):
            draft = request * K + k
            mine = here & (head_of(heads, draft * (G + 1) + i, K, here) == head)
            token = tl.load(drafts + draft * G + i, mask=mine, other=0)
            log_p = token_log(p, p_stats, row, token, vocab, mine)
            log_q = token_log(q, q_stats, (request * K + head) * G + i, token, vocab, mine)
            uniform = tl.load(uniforms + request * S + i * K + k, mask=mine, other=1.0)
            passed = mine & (uniform < probability(log_divide(log_p, log_q) - log_rho))
            winner = tl.where((winner < 0) & passed, k, winner)
        moved = winner >= 0
        branch = tl.where(moved, winner, branch)
        place = (request * K + branch) * (G + 1) + i + 1
        head = tl.where(moved, head_of(heads, place, K, moved), head)
        kept += moved.to(tl.int32)
    row = (request * K + head) * (G + 1) + kept
    rejected = real & (kept < length)
    count = shared_count(heads, row, K, rejected)
    several = rejected & (count > 1)
    rho = tl.load(rhos + row, mask=several, other=1.0)
    beta = tl.load(betas + row, mask=several, other=1.0)
    gain = tl.where(several, at_least_one(beta, count) / tl.where(beta > 0, beta, 1.0), 1.0)
    below = tl.where(rejected, 1.0 - gain / rho, 1.0)
    tl.store(accepted + request, kept.to(tl.int64), mask=real)
    tl.store(branches + request, branch.to(tl.int64), mask=real)
    tl.store(nodes + request, row, mask=real)
    tl.store(picks + request, request, mask=real)
    tl.store(limits + row, rho.to(tl.float32), mask=real)
    tl.store(keep + 2 * row, below.to(tl.float32), mask=real)
    tl.store(keep + 2 * row + 1, 1.0, mask=real)
    tl.store(take + 2 * row, 0.0, mask=real)
    tl.store(take + 2 * row + 1, tl.where(rejected, gain, 0.0).to(tl.float32), mask=real)


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
    """Verify K i.i.d. drafts a request; arguments as in ``sim.verifiers``.

    Args:
        logits: the rows are logits of any scale instead of log laws.
        tile: tokens a program reads, a power of two.

    Raises:
        ValueError: inputs that break the contract.
    """
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
        renormalise=True,
    )
    found, law = search(rnd), new_law(rnd, 1)
    accepted, branch = (rnd.new(rnd.batch, dtype=torch.int64) for _ in range(2))
    nodes, picks = (rnd.new(rnd.batch, dtype=torch.int32) for _ in range(2))
    kseq_kernel[rnd.by_scan()](
        rnd.p,
        rnd.q,
        rnd.p_stats,
        rnd.q_stats,
        rnd.drafts,
        rnd.lengths,
        rnd.heads,
        rnd.uniforms,
        found.high,
        found.beta,
        accepted,
        branch,
        nodes,
        picks,
        *law,
        rnd.batch,
        rnd.vocab,
        rnd.uniforms.shape[1],
        K=rnd.num_drafts,
        G=rnd.gamma,
        LANES=rnd.tiling.scan,
    )
    sums = node_sums(rnd, nodes, law)
    token = draw(rnd, nodes, picks, law, sums, slots(rnd.gamma, rnd.num_drafts) - 1)
    return Verdict(accepted, branch, token)
