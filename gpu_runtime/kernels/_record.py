"""Which kernels a call launches, with what types and constants, found without a device.

The host code of a verifier is run on tensors of the device ``meta``, which have shapes but no data,
while launches are recorded instead of made. That it runs at all proves that it never reads a result
back: there is no host synchronisation within a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from triton.runtime.jit import JITFunction

POINTERS = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.int64: "*i64",
    torch.int32: "*i32",
}
ALIGNMENT = 16
"""Bytes that pointers are aligned to, and the divisor of numbers that the compiler is told of."""

WARPS = 4
"""Warps of a program that does not say."""


@dataclass(frozen=True)
class Launch:
    """One specialisation of a kernel.

    signature: type by argument, "constexpr" for constants. constants: their values. aligned:
    arguments that are multiples of ALIGNMENT. warps: of a program. grid: of the first launch.
    """

    kernel: Any
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    aligned: tuple[str, ...]
    warps: int
    grid: tuple[int, ...]

    @property
    def name(self) -> str:
        return str(self.kernel.__name__)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells kernels apart, alignment aside."""
        return self.name, self.signature, self.constants


def _launch(kernel: Any, grid: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Launch:
    values = dict(zip(kernel.arg_names, args, strict=False)) | options
    fixed = {kernel.arg_names[i] for i in kernel.constexprs}
    signature, constants, aligned = [], [], []
    for name in kernel.arg_names:
        value = values[name]
        if name in fixed:
            signature.append((name, "constexpr"))
            constants.append((name, value))
            continue
        signature.append((name, POINTERS[value.dtype] if isinstance(value, Tensor) else "i32"))
        if isinstance(value, Tensor) or value % ALIGNMENT == 0:
            aligned.append(name)
    warps = options.get("num_warps", WARPS)
    return Launch(kernel, tuple(signature), tuple(constants), tuple(aligned), warps, tuple(grid))


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Launches made inside go to the list that is yielded, and nowhere else."""
    launches: list[Launch] = []

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        launches.append(_launch(self, grid, args, options))

    with patch.object(JITFunction, "run", run):
        yield launches


def launches_of(
    verify: Callable[..., Any],
    slots: int,
    *,
    batch: int,
    num_drafts: int,
    gamma: int,
    vocab: int,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> list[Launch]:
    """The launches of one call of a verifier on logits of the given shape."""
    shape = (batch, num_drafts)
    rows: dict[str, Any] = {"device": "meta", "dtype": dtype}
    log_p = torch.empty((*shape, gamma + 1, vocab), **rows)
    log_q = torch.empty((*shape, gamma, vocab), **rows)
    drafts = torch.empty((*shape, gamma), dtype=torch.int64, device="meta")
    uniforms = torch.empty((batch, slots), dtype=torch.float64, device="meta")
    with recorded() as launches:
        verify(log_p, log_q, drafts, uniforms, logits=True, validate=False, **options)
    return launches
