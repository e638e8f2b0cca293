"""Which implementation verifies: a Triton kernel where rows are on CUDA, else the array function.

``get(name)`` is the entry of ``sim.verifiers`` whose ``verify`` makes that choice, so that the
engine calls every rule alike. ``verify_logits`` starts from raw logits, normalisation included: the
kernels then read each row twice (statistics, weights) and write no law at all.

Array functions check the values of their inputs unless told not to. Kernels check shapes only,
since looking at a value waits for the device; ``validate=True`` makes them look.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from sim.verifiers import ArrayVerifier, Verdict
from sim.verifiers import get as array_verifier

KERNELS = ("token", "block", "greedy_block", "kseq")
"""Verifiers with a kernel, ``gpu_runtime.kernels.<name>``."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""What the kernels read; float64 rows stay with the array functions."""


def kernel(name: str) -> Callable[..., Verdict]:
    """The kernel's ``verify``.

    Raises:
        ValueError: no kernel of that name.
    """
    if name not in KERNELS:
        raise ValueError(f"no kernel for {name!r}; there are {', '.join(KERNELS)}")
    found: Callable[..., Verdict] = import_module(f"gpu_runtime.kernels.{name}").verify
    return found


def has_kernel(name: str, log_p: Tensor, log_q: Tensor, drafts: Tensor) -> bool:
    """Whether a round of this rule on these rows is verified by a kernel."""
    return (
        name in KERNELS
        and log_p.is_cuda
        and log_p.dtype in DTYPES
        and log_q.dtype in DTYPES
        and drafts.numel() > 0
        and find_spec("triton") is not None
    )


@cache
def get(name: str) -> ArrayVerifier:
    """The verifier called ``name``, on kernels where they apply.

    Raises:
        ValueError: no such verifier.
    """
    rule = array_verifier(name)
    return replace(rule, verify=partial(verify, name)) if name in KERNELS else rule


def verify(
    name: str, log_p: Tensor, log_q: Tensor, drafts: Tensor, *rest: Any, **options: Any
) -> Verdict:
    """``sim.verifiers.get(name).verify`` by kernel or array function; same arguments."""
    if not has_kernel(name, log_p, log_q, drafts):
        found: Verdict = array_verifier(name).verify(log_p, log_q, drafts, *rest, **options)
        return found
    with on_device(log_p):
        return kernel(name)(log_p, log_q, drafts, *rest, **{"validate": False} | options)


def verify_logits(
    name: str, p_logits: Tensor, q_logits: Tensor, drafts: Tensor, *rest: Any, **options: Any
) -> Verdict:
    """As ``verify``, but from the logits whose softmax the rows are (temperature applied)."""
    if has_kernel(name, p_logits, q_logits, drafts):
        with on_device(p_logits):
            return kernel(name)(p_logits, q_logits, drafts, *rest, logits=True, **options)
    log_p, log_q = (
        torch.log_softmax(part if part.dtype == torch.float64 else part.float(), dim=-1)
        for part in (p_logits, q_logits)
    )
    return verify(name, log_p, log_q, drafts, *rest, **options)


def on_device(rows: Tensor) -> Any:
    """Launch on the device of the rows, also where it is not the current one."""
    return torch.cuda.device(rows.device) if rows.is_cuda else nullcontext()
