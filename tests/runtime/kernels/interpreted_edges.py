"""Rows and tapes at which verifiers break, and inputs that a kernel refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor

from gpu_runtime.kernels._draw import draw
from gpu_runtime.kernels._round import DTYPES, open_round
from gpu_runtime.kernels._weights import new_law, node_sums
from gpu_runtime.verify import KERNELS, kernel
from sim.verifiers import VERIFIERS

NEVER = -torch.inf


def rounds(rule: str, vocab: int = 6, gamma: int = 2, batch: int = 8) -> dict[str, Any]:
    drafts = 2 if VERIFIERS[rule].multi_draft else 1
    generator = torch.Generator().manual_seed(11)
    shape = (batch, drafts, gamma + 1, vocab)
    p = torch.randn((batch, 1, gamma + 1, vocab), generator=generator).expand(shape).clone()
    slots = VERIFIERS[rule].slots(gamma, drafts)
    tape = torch.rand((batch, slots), generator=generator, dtype=torch.float64)
    first = torch.zeros((batch, drafts, gamma), dtype=torch.int64)
    return {"log_p": p, "log_q": p[:, :, :-1].clone(), "drafts": first, "uniforms": tape}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rule", KERNELS)
def test_equal_laws_accept_everything_and_the_bonus_is_from_p(rule: str, dtype) -> None:
    args = rounds(rule)
    args["uniforms"][:, :-1] = 1 - 2.0**-53
    args["log_q"] += 5.0
    for name in ("log_p", "log_q"):
        args[name] = args[name].to(dtype)
    if dtype is not torch.float32:  # a shift rounds otherwise
        args["log_q"] = args["log_p"][:, :, :-1].clone()
    verdict = kernel(rule)(**args, logits=True)
    assert (verdict.accepted == 2).all()
    law = torch.softmax(args["log_p"][:, 0, 2].double(), -1).cumsum(-1)
    expected = torch.searchsorted(law, args["uniforms"][:, -1:].contiguous(), right=True)[:, 0]
    assert torch.equal(verdict.token, expected)


@pytest.mark.parametrize("rule", KERNELS)
def test_point_masses_keep_the_longest_match(rule: str) -> None:
    args = rounds(rule, batch=3)
    args["log_p"][:] = args["log_q"][:] = NEVER
    args["log_q"][..., 0] = 0.0
    best = torch.tensor([[1, 2, 3], [0, 2, 3], [0, 0, 3]])
    args["log_p"].scatter_(-1, best[:, None, :, None].expand(*args["log_p"].shape[:3], 1), 0.0)
    verdict = kernel(rule)(**args)
    assert verdict.accepted.tolist() == [0, 1, 2]
    assert verdict.token.tolist() == [1, 2, 3]


@pytest.mark.parametrize("rule", KERNELS)
def test_a_token_that_the_target_forbids_fails_at_u_zero(rule: str) -> None:
    args = rounds(rule)
    args["log_p"][..., 0] = NEVER
    args["uniforms"][:] = 0.0
    verdict = kernel(rule)(**args, logits=True)
    assert (verdict.accepted == 0).all()
    assert (verdict.token == 1).all()


@pytest.mark.parametrize("rule", KERNELS)
def test_nothing_drafted_gives_a_draw_from_p(rule: str) -> None:
    args = rounds(rule)
    args["log_q"][:] = torch.nan
    args["log_p"][:, :, 1:] = torch.nan
    args["drafts"][:] = -1
    verdict = kernel(rule)(**args, lengths=torch.zeros(8, dtype=torch.int64), logits=True)
    law = torch.softmax(args["log_p"][:, 0, 0].double(), -1).cumsum(-1)
    expected = torch.searchsorted(law, args["uniforms"][:, -1:].contiguous(), right=True)[:, 0]
    assert (verdict.accepted == 0).all()
    assert torch.equal(verdict.token, expected)


@pytest.mark.parametrize("rule", KERNELS)
def test_the_last_uniform_below_one_gives_the_last_possible_token(rule: str) -> None:
    args = rounds(rule, vocab=9)
    args["log_p"][..., 7:] = NEVER
    args["log_q"] = args["log_p"][:, :, :-1].clone()
    args["uniforms"][:] = 1 - 2.0**-53
    verdict = kernel(rule)(**args, logits=True, tile=4)
    assert (verdict.accepted == 2).all()
    assert (verdict.token == 6).all()


def emptied(uniforms: Tensor, take: float) -> tuple[Tensor, Tensor]:
    """Draws at row 0 with weights (p - take p)_+, and p."""
    args = rounds("token", vocab=9, batch=uniforms.shape[0])
    tape = torch.zeros((uniforms.shape[0], 3), dtype=torch.float64)
    tape[:, 2] = uniforms
    rest: dict[str, Any] = {"slots": VERIFIERS["token"].slots, "validate": False}
    rows = args["log_p"], args["log_q"], args["drafts"], tape, None
    rnd = open_round(*rows, logits=True, tile=4, **rest)
    law, nodes = new_law(rnd, 0), torch.arange(rnd.batch, dtype=torch.int32)
    law.keep[:], law.take[:] = 1.0, take
    sums = node_sums(rnd, 3 * nodes, law)
    return draw(rnd, 3 * nodes, nodes, law, sums, 2), torch.softmax(args["log_p"][:, 0, 0], -1)


def test_an_empty_residual_falls_back_to_p() -> None:
    uniforms = torch.linspace(0.0, 0.99, 8, dtype=torch.float64)
    for take in (1.0, 1.0 - 2.0**-20):
        token, law = emptied(uniforms, take)
        total = law.double().cumsum(-1)
        expected = torch.searchsorted(total, uniforms[:, None] * total[:, -1:], right=True)
        assert torch.equal(token, expected[:, 0])


def test_refusals() -> None:
    args = rounds("token")
    with pytest.raises(ValueError, match=r"float64.*use one of"):
        kernel("token")(**args | {"log_p": args["log_p"].double()}, logits=True, validate=False)
    with pytest.raises(ValueError, match="verifies one draft"):
        kernel("block")(**rounds("kseq"))
    none = args["drafts"][:, :, :0]
    rows = args["log_p"][:, :, :1], args["log_q"][:, :, :0], none, args["uniforms"][:, :1]
    with pytest.raises(ValueError, match="array function"):
        kernel("token")(*rows, logits=True)
    with pytest.raises(ValueError, match="total mass of the target row"):
        kernel("token")(**args)
    with pytest.raises(ValueError, match="uniforms has shape"):
        kernel("token")(**args | {"uniforms": args["uniforms"][:, :1]}, logits=True)
