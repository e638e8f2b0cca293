"""Which drafts of a request share a prefix: equal prefixes are one node with one row.

``heads[b, k, i]`` holds, for the first i tokens of draft k, the first draft with the same tokens
(its *head*, whose rows stand for the node) and the number of drafts that have them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_ELEMENTS = 4096
"""Most comparisons of two drafts that a program holds at once."""


@triton.jit
def head_of(heads, place, drafts: tl.constexpr, mask):
    """The head of a prefix; ``place`` is (b K + k)(g + 1) + i."""
    if drafts == 1:
        return tl.zeros_like(place)
    return tl.load(heads + 2 * place, mask=mask, other=0).to(place.dtype)


@triton.jit
def prefix_kernel(
    drafts,
    heads,
    batch,
    K: tl.constexpr,
    G: tl.constexpr,
    PADDED: tl.constexpr,
    LANES: tl.constexpr,
):
    request = tl.program_id(0) * LANES + tl.arange(0, LANES)
    draft = tl.arange(0, PADDED)
    own = request[:, None] * K + draft[None, :]
    real = (request < batch)[:, None] & (draft < K)[None, :]
    same = real[:, :, None] & (draft < K)[None, None, :]
    for i in range(G + 1):
        first = tl.min(tl.where(same, draft[None, None, :], K), axis=2)
        many = tl.sum(same.to(tl.int32), axis=2)
        place = heads + 2 * (own * (G + 1) + i)
        tl.store(place, first.to(tl.int32), mask=real)
        tl.store(place + 1, many, mask=real)
        if i < G:
            token = tl.load(drafts + own * G + i, mask=real, other=-1)
            other = (request[:, None, None] * K + draft[None, None, :]) * G + i
            its = tl.load(drafts + other, mask=same, other=-2)
            same = same & (token[:, :, None] == its)


def prefixes(drafts: Tensor, lanes: int) -> Tensor:
    """``heads`` [B, K, g+1, 2] int32 of drafts [B, K, g]; empty for K = 1, where all is known."""
    batch, num_drafts, gamma = drafts.shape
    if num_drafts == 1:
        return torch.empty(0, dtype=torch.int32, device=drafts.device)
    shape = (batch, num_drafts, gamma + 1, 2)
    heads = torch.empty(shape, dtype=torch.int32, device=drafts.device)
    padded = triton.next_power_of_2(num_drafts)
    lanes = max(1, min(lanes, MOST_ELEMENTS // padded**2))
    grid = (triton.cdiv(batch, lanes),)
    prefix_kernel[grid](drafts, heads, batch, K=num_drafts, G=gamma, PADDED=padded, LANES=lanes)
    return heads
