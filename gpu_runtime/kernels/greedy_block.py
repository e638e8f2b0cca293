"""Greedy block verification on the device; the target modification is in ``_layers``.

Rule, slots and carry as in ``sim.verifiers.greedy_block``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gpu_runtime.kernels._accept import accept
from gpu_runtime.kernels._layers import follow, next_carry
from gpu_runtime.kernels._round import TILE, open_round
from sim.verifiers._checks import check_single
from sim.verifiers._common import Verdict
from sim.verifiers.greedy_block import Carry, check_carry, slots

__all__ = ["Carry", "slots", "verify"]


def verify(
    log_p: Tensor,
    log_q: Tensor,
    drafts: Tensor,
    uniforms: Tensor,
    lengths: Tensor | None = None,
    carry: Carry | None = None,
    *,
    logits: bool = False,
    tile: int = TILE,
    validate: bool = True,
) -> Verdict:
    """Verify one draft a request as a greedy block; arguments as in ``sim.verifiers``.

    Args:
        logits: the rows are logits of any scale instead of log laws.
        tile: tokens a program reads, a power of two.

    Raises:
        ValueError: inputs that break the contract, or more than one draft.
    """
    check_single(drafts, "greedy_block")
    if validate and carry is not None:
        check_carry(carry, drafts, lengths)
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
    layers = follow(rnd, carry)
    accepted, token = accept(rnd, layers.nodes, layers.law, layers.log_w[rnd.gamma], 0)
    state = next_carry(rnd, carry, layers, accepted, token)
    return Verdict(accepted, torch.zeros_like(accepted), token, state)
