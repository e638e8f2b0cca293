"""Verification times beside their floor, one softmax of the same logits, by shape and rule.

The floor reads every logit and writes every probability; a kernel reads every logit it needs (its
statistics, then its weights) and writes next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from gpu_runtime.device_checks.timing import eager_seconds, seconds
from gpu_runtime.verify import KERNELS, has_kernel, verify_logits
from sim.verifiers import VERIFIERS

SETS = 3
"""Input sets that take turns."""
DRAFTS = 4
REFERENCE_VOCAB = 131_072
"""The vocabulary at which the array function is timed as well."""


class Shape(NamedTuple):
    """batch requests of gamma drafted tokens over vocab tokens."""

    vocab: int
    gamma: int
    batch: int


FULL = tuple(
    Shape(vocab, gamma, batch)
    for vocab in (32_768, 131_072, 151_936, 262_144)
    for gamma in (3, 7)
    for batch in (1, 32)
)
REDUCED = (Shape(1000, 3, 1), Shape(1000, 3, 4))


@dataclass(frozen=True)
class Cost:
    """Seconds of one verification of a batch by a kernel (None where none ran) and by the array
    function (None where not timed), and of the softmax of all its rows."""

    rule: str
    vocab: int
    gamma: int
    batch: int
    num_drafts: int
    dtype: str
    kernel: float | None
    array: float | None
    floor: float

    @property
    def over_floor(self) -> float | None:
        """Kernel time over the floor."""
        return None if self.kernel is None else self.kernel / self.floor


def measure(
    shapes: Sequence[Shape], device: torch.device, dtype: torch.dtype = torch.bfloat16
) -> list[Cost]:
    """The costs of every rule with a kernel at every shape."""
    found = []
    for shape in shapes:
        for rule in KERNELS:
            drafts = DRAFTS if VERIFIERS[rule].multi_draft else 1
            found.append(_cost(rule, shape, drafts, device, dtype))
    return found


def copy_rate(device: torch.device, size: int = 2**30) -> float:
    """Bytes a second, read and written, of a large copy on the device."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds([partial(target.copy_, source)], device)


def _cost(rule: str, shape: Shape, drafts: int, device: torch.device, dtype: torch.dtype) -> Cost:
    inputs = [_inputs(rule, shape, drafts, device, dtype, seed) for seed in range(SETS)]
    floor = seconds([partial(_floor, *rows[:2]) for rows in inputs], device)
    runs: list[Callable[[], Any]] = [
        partial(verify_logits, rule, *rows, validate=False) for rows in inputs
    ]
    kernel = seconds(runs, device) if has_kernel(rule, *inputs[0][:3]) else None
    array = None
    if shape.vocab == REFERENCE_VOCAB or kernel is None:
        array = eager_seconds([partial(_by_array, rule, *rows) for rows in inputs], device)
    name = str(dtype).removeprefix("torch.")
    return Cost(rule, *shape, drafts, name, kernel, array, floor)


def _inputs(
    rule: str, shape: Shape, drafts: int, device: torch.device, dtype: torch.dtype, seed: int
) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator(device).manual_seed(seed)
    options: dict[str, Any] = {"generator": generator, "device": device}
    lead = (shape.batch, drafts)
    p = 2.0 * torch.randn((*lead, shape.gamma + 1, shape.vocab), **options)
    q = p[:, :, :-1] + 0.5 * torch.randn((*lead, shape.gamma, shape.vocab), **options)
    race = -torch.rand(q.shape, **options).log()
    tokens = (q - race.log()).argmax(-1)
    slots = VERIFIERS[rule].slots(shape.gamma, drafts)
    tape = torch.rand((shape.batch, slots), dtype=torch.float64, **options)
    return p.to(dtype), q.to(dtype), tokens, tape


def _floor(p: torch.Tensor, q: torch.Tensor) -> None:
    torch.softmax(p, dim=-1)
    torch.softmax(q, dim=-1)


def _by_array(rule: str, p: torch.Tensor, q: torch.Tensor, *rest: torch.Tensor) -> None:
    laws = [torch.log_softmax(part.float(), dim=-1) for part in (p, q)]
    VERIFIERS[rule].verify(*laws, *rest, validate=False)
