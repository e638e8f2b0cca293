"""Logit rules that depend on what a row's request has already written.

A verification row i of a draft stands after the output so far *and* the first i drafted tokens, so
each row brings its own ``Context``. Rules (c = how often a token stands in the output of the row,
s = whether it stands in the prompt or the output), applied to logits before temperature:

    frequency, presence:  logit - frequency * c - presence * [c > 0]
    repetition r:         logit / r if logit > 0 else logit * r, where s
    minimum length:       stop tokens get -inf while the output is shorter than ``min_new_tokens``

Source: the definitions of the OpenAI interface (frequency, presence) and of CTRL (Keskar et al.
2019, repetition), as in common engines.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Context:
    """Token ids before each row, padded with -1: ``prompt`` [..., P], ``output`` [..., T].

    The leading axes are those of the logits. ``stop`` lists the ids that end a request.
    """

    prompt: Tensor
    output: Tensor
    stop: tuple[int, ...] = ()


def counts(tokens: Tensor, width: int) -> Tensor:
    """How often each id occurs, [..., width]; ids of -1 are padding and count nothing."""
    real = (tokens >= 0).to(torch.float64)
    zeros = torch.zeros((*tokens.shape[:-1], width), dtype=torch.float64, device=tokens.device)
    return zeros.scatter_add(-1, tokens.clamp(min=0), real)


def penalise(
    logits: Tensor, context: Context, *, frequency: float, presence: float, repetition: float
) -> Tensor:
    """Logits after the three penalties; same shape and dtype."""
    width = logits.shape[-1]
    written = counts(context.output, width)
    if repetition != 1:
        seen = (written + counts(context.prompt, width)) > 0
        scaled = torch.where(logits > 0, logits / repetition, logits * repetition)
        logits = torch.where(seen, scaled, logits)
    charge = frequency * written + presence * (written > 0).to(written.dtype)
    return logits - charge.to(logits.dtype)


def hold_back_stops(logits: Tensor, context: Context, min_new_tokens: int) -> Tensor:
    """Logits with the stop ids at -inf on rows whose output is still too short."""
    if not context.stop:
        return logits
    early = (context.output >= 0).sum(-1, keepdim=True) < min_new_tokens
    stop = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    stop[list(context.stop)] = True
    return logits.masked_fill(early & stop, -torch.inf)
