"""Kernels beside the float64 array functions, decision by decision (run by ``test_kernels.py``)."""

from collections.abc import Callable
from functools import partial

import pytest
import torch

from gpu_runtime.device_checks.tapes import KINDS, Agreement, Case, agreement, random_rounds, same
from gpu_runtime.kernels import _round
from gpu_runtime.verify import KERNELS, kernel
from sim.verifiers import VERIFIERS, Verdict

SHORT = [
    Case("token", 7, batch=200),
    Case("block", 7, batch=200),
    Case("greedy_block", 7, batch=100, gamma=4, rounds=4),
    Case("kseq", 7, num_drafts=3, batch=100, gamma=2),
    Case("kseq", 7, num_drafts=1, batch=50, gamma=2),
]
"""One tile; many requests a program."""
TILED = [
    Case("token", 1025, batch=6),
    Case("token", 1000, batch=6, dtype=torch.float16),
    Case("block", 1025, batch=6, dtype=torch.bfloat16),
    Case("block", 1000, batch=6),
    Case("greedy_block", 1025, batch=3, gamma=3, rounds=2, dtype=torch.float16),
    Case("greedy_block", 1000, batch=3, gamma=2, rounds=2, dtype=torch.bfloat16),
    Case("kseq", 1025, num_drafts=2, batch=3, gamma=2, dtype=torch.bfloat16),
    Case("kseq", 1000, num_drafts=2, batch=3, gamma=2),
]
"""Several tiles, the last one ragged: 1000 = 3 x 256 + 232, 1025 = 4 x 256 + 1."""


def on_logits(rule: str) -> Callable[..., Verdict]:
    return partial(kernel(rule), logits=True)


@pytest.mark.parametrize("case", SHORT + TILED, ids=lambda case: case.label.replace(" ", "-"))
def test_decisions_agree_away_from_ties(case: Case) -> None:
    found = agreement(case, on_logits(case.rule), torch.Generator().manual_seed(3), tile=256)
    assert found.wrong == 0
    assert found.ties <= max(1, found.compared // 50), found


@pytest.mark.parametrize("rule", KERNELS)
def test_programs_of_one_row_decide_alike(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, where a tile fills a program."""
    monkeypatch.setattr(_round, "ELEMENTS", 64)
    monkeypatch.setattr(_round, "LANES", 1)
    drafts = 2 if VERIFIERS[rule].multi_draft else 1
    case = Case(rule, 100, gamma=2, num_drafts=drafts, batch=2)
    found = agreement(case, on_logits(rule), torch.Generator().manual_seed(4), tile=64)
    assert (found.ties, found.wrong) == (0, 0)


def test_every_kernel_has_cases() -> None:
    for cases in (SHORT, TILED):
        assert {case.rule for case in cases} == set(KERNELS)


def test_a_wrong_kernel_is_seen() -> None:
    """Negative control: the block rule judged as if it were the token rule."""
    case = Case("block", 7, batch=100)
    found = agreement(case, on_logits("token"), torch.Generator().manual_seed(3))
    assert found.wrong > 5
    assert isinstance(found, Agreement)


def test_rounds_hold_what_breaks_verifiers() -> None:
    rounds = random_rounds(Case("kseq", 5, num_drafts=4, batch=300), torch.Generator())
    assert rounds.lengths is not None
    real = torch.arange(3) < rounds.lengths[:, None]
    p, q = rounds.p[:, 0, :3][real], rounds.q[:, 0][real]
    zeros = (p == -torch.inf).sum(-1)
    assert (zeros == 4).any(), KINDS
    assert ((zeros > 0) & (zeros < 4)).any()
    assert (p.log_softmax(-1) - q.log_softmax(-1)).abs().amax(-1).nan_to_num(1).min() < 1e-6
    assert rounds.q[:, 0][~real].isnan().all()
    shared = (rounds.drafts[:, :1, 0] == rounds.drafts[:, 1:, 0]).any()
    assert shared


def test_log_laws_and_logits_give_the_same_decisions() -> None:
    case = Case("block", 300, batch=6)
    for rule, drafts in (("token", 1), ("block", 1), ("greedy_block", 1), ("kseq", 2)):
        case = Case(rule, 300, batch=6, gamma=2, num_drafts=drafts)
        p, q, *rest = random_rounds(case, torch.Generator().manual_seed(1))
        laws = [torch.log_softmax(part, dim=-1) for part in (p, q)]
        by_laws = kernel(rule)(*laws, *rest, tile=128)
        by_logits = kernel(rule)(p, q, *rest, logits=True, tile=256)
        assert same(by_laws, by_logits).all()
        assert same(by_laws, VERIFIERS[rule].verify(*laws, *rest)).all()


@pytest.mark.parametrize("rule", KERNELS)
def test_a_request_is_judged_alike_in_any_batch(rule: str) -> None:
    drafts = 2 if VERIFIERS[rule].multi_draft else 1
    case = Case(rule, 300, batch=5, gamma=2, num_drafts=drafts, rounds=1)
    rounds = random_rounds(case, torch.Generator().manual_seed(2))
    together = kernel(rule)(*rounds, logits=True, tile=128)
    for b in (0, 3):
        alone = [None if part is None else part[b : b + 1] for part in rounds]
        verdict = kernel(rule)(*alone, logits=True, tile=128)
        assert verdict.accepted[0] == together.accepted[b]
        assert verdict.token[0] == together.token[b]
        if verdict.carry is not None:
            assert torch.equal(verdict.carry.log_ratio[0], together.carry.log_ratio[b])
