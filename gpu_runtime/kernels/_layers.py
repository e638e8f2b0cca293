"""The target modification of greedy block verification, all layers of a row at once.

A layer replaces a row p by norm((p - q/W)_+). Since ((p - a q)_+ - b q)_+ = (p - (a + b) q)_+,
the row under any number of layers is again of that form,

    p' = (p - c q)_+ / M ,     one more layer:  c <- c + M/W ,  M <- M s ,  s = sum (p' - q/W)_+ ,

so a row's whole modification is two numbers. Layers follow each other (W needs the older ones'
rows), but the rows of a layer are independent: one scan and one pass over the vocabulary a layer.
The block of this round is the newest layer. Derived here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_runtime.kernels._scan import TOLERANCE, advance, inverse, token_log
from gpu_runtime.kernels._weights import LARGEST, Law, new_law, node_sums
from sim.verifiers.greedy_block import Carry

if TYPE_CHECKING:
    from gpu_runtime.kernels._round import Round


class Layers(NamedTuple):
    """Layers along a draft; slot g is the block of this round.

    taken, mass, log_w: [g+1, B, g+1] float64: by slot, request and row, c and M before the layer,
    and its log W. nodes: [B, g+1] int32 rows of this block. law: their residuals. first: the
    oldest slot in use.
    """

    taken: Tensor
    mass: Tensor
    log_w: Tensor
    nodes: Tensor
    law: Law
    first: int


@triton.jit
def modified_log(log_p, log_q, taken, mass):
    """log p' = log p + log(1 - c q/p) - log M."""
    positive = log_p > float("-inf")
    part = taken * tl.exp(tl.minimum(log_q - tl.where(positive, log_p, 0.0), 700.0))
    inside = positive & (part < 1.0)
    kept = tl.where(inside, log_p, 0.0) + tl.log(1.0 - tl.where(inside, part, 0.0))
    return tl.where(inside, kept - tl.log(mass), float("-inf"))


@triton.jit
def layer_kernel(
    p,
    q,
    p_stats,
    q_stats,
    drafts,
    lengths,
    log_ratio,
    left,
    sums,
    taken,
    mass,
    log_w,
    nodes,
    keep,
    take,
    slot,
    first,
    batch,
    tiles,
    vocab,
    LARGEST: tl.constexpr,
    G: tl.constexpr,
    LANES: tl.constexpr,
    TILES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = request < batch
    tile = tl.arange(0, TILES)[None, :]
    length = tl.load(lengths + request, mask=real, other=0).to(tl.int32)
    slots = tl.zeros_like(request) + slot
    older = real & (slots < G)
    ratio = tl.load(log_ratio + request * G + slot, mask=older, other=0.0)
    reach = tl.load(left + request * G + slot, mask=older, other=0).to(tl.int32)
    reach = tl.where(older, tl.minimum(reach, length), length + 1)
    for i in tl.static_range(G + 1):
        row = request * (G + 1) + i
        before = ((slot - 1) * batch + request) * (G + 1) + i
        known = real & (slots > first)
        c = tl.load(taken + before, mask=known, other=0.0)
        m = tl.load(mass + before, mask=known, other=1.0)
        inside = known[:, None] & (tile < tiles)
        share = tl.load(sums + row[:, None] * tiles + tile, mask=inside, other=0.0)
        share = tl.sum(share.to(tl.float64), axis=1)
        last = tl.load(log_w + before, mask=known, other=0.0)
        changed = share > TOLERANCE
        c = tl.where(changed, c + m * inverse(last), c)
        m = tl.where(changed, m * share, m)
        here = before + batch * (G + 1)
        tl.store(taken + here, c, mask=real)
        tl.store(mass + here, m, mask=real)
        tl.store(log_w + here, ratio, mask=real)
        used = (i < reach) & (ratio > float("-inf"))
        factor = tl.where(i < length, tl.minimum((c + m * inverse(ratio)) / m, LARGEST), 0.0)
        tl.store(nodes + row, tl.where(used, row, -1), mask=real)
        tl.store(keep + row, (1.0 / m).to(tl.float32), mask=real)
        tl.store(take + row, factor.to(tl.float32), mask=real)
        if i < G:
            drafted = real & (i < length)
            token = tl.load(drafts + request * G + i, mask=drafted, other=0)
            log_p = token_log(p, p_stats, row, token, vocab, drafted)
            log_q = token_log(q, q_stats, request * G + i, token, vocab, drafted)
            moved = advance(ratio, modified_log(log_p, log_q, c, m), log_q)
            ratio = tl.where(drafted, moved, ratio)


def follow(rnd: Round, carry: Carry | None) -> Layers:
    """The layers of ``carry`` (oldest first) and this block's own along the drafts."""
    batch, gamma = rnd.batch, rnd.gamma
    first = gamma if carry is None else min(1, gamma)
    log_ratio, left = carry if carry is not None else (rnd.uniforms, rnd.lengths)
    log_ratio, left = log_ratio.contiguous(), left.contiguous()
    shape = (gamma + 1, batch, gamma + 1)
    taken, mass, log_w = (rnd.new(*shape, dtype=torch.float64) for _ in range(3))
    nodes = rnd.new(batch, gamma + 1, dtype=torch.int32)
    law, sums = new_law(rnd, 0), rnd.new(1, dtype=torch.float32)
    for slot in range(first, gamma + 1):
        layer_kernel[rnd.by_lanes(batch)](
            rnd.p,
            rnd.q,
            rnd.p_stats,
            rnd.q_stats,
            rnd.drafts,
            rnd.lengths,
            log_ratio,
            left,
            sums,
            taken,
            mass,
            log_w,
            nodes,
            law.keep,
            law.take,
            slot,
            first,
            batch,
            rnd.tiling.tiles,
            rnd.vocab,
            LARGEST=LARGEST,
            G=gamma,
            LANES=rnd.tiling.lanes,
            TILES=rnd.tiling.padded,
        )
        if slot < gamma:
            sums = node_sums(rnd, nodes, law)
    return Layers(taken, mass, log_w, nodes, law, first)


@triton.jit
def carry_kernel(
    p,
    q,
    p_stats,
    q_stats,
    lengths,
    left,
    taken,
    mass,
    log_w,
    accepted,
    tokens,
    log_ratio_out,
    left_out,
    first,
    batch,
    vocab,
    G: tl.constexpr,
    LANES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    real = request < batch
    length = tl.load(lengths + request, mask=real, other=0)
    kept = tl.load(accepted + request, mask=real, other=0)
    token = tl.load(tokens + request, mask=real, other=0)
    row, corrected = request * (G + 1) + kept, real & (kept < length)
    log_p = token_log(p, p_stats, row, token, vocab, real)
    q_row = request * G + tl.minimum(kept, G - 1)
    log_q = token_log(q, q_stats, q_row, token, vocab, corrected)
    log_q = tl.where(corrected, log_q, float("-inf"))
    for slot in tl.static_range(1, G + 1):
        used = real & (tl.zeros_like(request) + slot >= first)
        place = (slot * batch + request) * (G + 1) + kept
        c = tl.load(taken + place, mask=used, other=0.0)
        m = tl.load(mass + place, mask=used, other=1.0)
        ratio = tl.load(log_w + place, mask=used, other=0.0)
        ratio = advance(ratio, modified_log(log_p, log_q, c, m), log_q)
        reach = length
        if slot < G:
            reach = tl.load(left + request * G + slot, mask=used, other=0)
        reach = tl.maximum(reach - kept - 1, 0)
        out = request * G + slot - 1
        tl.store(log_ratio_out + out, tl.where(reach > 0, ratio, 0.0), mask=real)
        tl.store(left_out + out, reach, mask=real)


def next_carry(
    rnd: Round, carry: Carry | None, layers: Layers, accepted: Tensor, tokens: Tensor
) -> Carry:
    """The layers after the emitted tokens, with this block's pushed as the newest."""
    shape = (rnd.batch, rnd.gamma)
    after = Carry(rnd.new(*shape, dtype=torch.float64), rnd.new(*shape, dtype=torch.int64))
    carry_kernel[(rnd.by_lanes(rnd.batch))](
        rnd.p,
        rnd.q,
        rnd.p_stats,
        rnd.q_stats,
        rnd.lengths,
        rnd.lengths if carry is None else carry.left.contiguous(),
        layers.taken,
        layers.mass,
        layers.log_w,
        accepted,
        tokens,
        *after,
        layers.first,
        rnd.batch,
        rnd.vocab,
        G=rnd.gamma,
        LANES=rnd.tiling.lanes,
    )
    return after
