"""Kernels in law, over several rounds: chi-square at 1e-9, with a broken kernel for each rule.

The same test that ``device_check`` runs with millions of rounds.
"""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from gpu_runtime.device_checks.laws import check_law
from gpu_runtime.kernels import _draw, _weights, block, kseq
from gpu_runtime.verify import KERNELS, kernel
from sim.verifiers import VERIFIERS

SIZES = {"token": 3000, "block": 3000, "greedy_block": 6000, "kseq": 3000}


@triton.jit
def target_weights(target, draft, row, limits, keep, take, CELLS: tl.constexpr):
    """The residual forgotten: the token is drawn from p."""
    return target + 0.0 * draft


@triton.jit
def one(log_w):
    """The block residual without its factor: (p - q)_+."""
    return log_w * 0.0 + 1.0


def rho_one(rnd: Any) -> Any:
    """rho = 1, below the root: the residual is negative and clipped."""
    found = kseq_search(rnd)
    return found._replace(high=torch.ones_like(found.high))


def without_carry(*args: Any, **options: Any) -> Any:
    """Greedy block verification that never modifies later targets."""
    return kernel("greedy_block")(*args[:5], None, **options)


kseq_search = kseq.search
BROKEN = {
    "token": [(_weights, "node_weights", target_weights), (_draw, "node_weights", target_weights)],
    "block": [(block, "inverse", one)],
    "greedy_block": [],
    "kseq": [(kseq, "search", rho_one)],
}


def check(rule: str, verify: Any) -> Any:
    return check_law(rule, VERIFIERS[rule], verify, SIZES[rule], torch.device("cpu"))


@pytest.mark.parametrize("rule", KERNELS)
def test_the_kernel_is_lossless_and_a_broken_one_is_found(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = check(rule, kernel(rule))
    assert sound.passed, sound
    assert sound.detectable_tv < 0.15
    for module, name, replacement in BROKEN[rule]:
        monkeypatch.setattr(module, name, replacement)
    broken = check(rule, without_carry if rule == "greedy_block" else kernel(rule))
    assert broken.rejected, broken
