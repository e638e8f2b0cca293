"""Small pairs, forced verifiers and sessions for the tests of the runtime."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from gpu_runtime.drafters import Drafter, Setting
from gpu_runtime.drafters.model import ModelDrafter
from gpu_runtime.judging import Rules
from gpu_runtime.models import LanguageModel
from gpu_runtime.requests import Request
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Session
from gpu_runtime.windows import Window
from gpu_runtime.windows.fixed import FixedWindow
from gpu_runtime.zoo import noised, tiny
from sim.verifiers import VERIFIERS, Verdict

PROMPTS = [[0, 1, 2], [3], [2, 2, 1, 0, 3]]
CASES = [
    (name, num_drafts)
    for name, rule in sorted(VERIFIERS.items())
    for num_drafts in ((1, 3) if rule.multi_draft else (1,))
]
"""Every array verifier with the numbers of drafts that it takes."""


@cache
def pair(
    dtype: torch.dtype = torch.float64, vocab: int = 4, noise: float = 0.2
) -> tuple[LanguageModel, LanguageModel]:
    """A tiny target and its draft."""
    target = tiny(vocab, dtype=dtype)
    return target, noised(target, noise)


@dataclass(frozen=True)
class Forced:
    """A verifier that takes the accepted lengths from a script, one entry a round."""

    decide: Callable[..., Verdict]
    name: str = "forced"
    stateful: bool = False
    multi_draft: bool = True

    def slots(self, gamma: int, num_drafts: int) -> int:
        return 1

    def verify(self, *arguments: Any, **params: Any) -> Verdict:
        return self.decide(*arguments)


def always(accepted: Sequence[int], branch: int = 0, token: int = 0) -> Forced:
    """Accept these lengths, the same every round."""

    def decide(log_p: torch.Tensor, *_: Any) -> Verdict:
        lengths = torch.tensor(list(accepted))
        full = torch.full_like(lengths, branch)
        return Verdict(lengths, full, torch.full_like(lengths, token))

    return Forced(decide)


def session(
    prompts: Sequence[Sequence[int]],
    verifier: Any,
    gamma: int,
    num_drafts: int = 1,
    new: int = 60,
    window: Window | None = None,
    drafter: Drafter | None = None,
) -> Session:
    """A session on the tiny pair, ready for its first round."""
    target, draft = pair()
    requests = [Request(i, (0, i), list(p), len(p)) for i, p in enumerate(prompts)]
    setting = Setting(
        Processor(),
        window or FixedWindow(gamma),
        num_drafts,
        target.width,
        target.law_dtype,
        target.device,
        max(map(len, prompts)) + new + (num_drafts + 2) * gamma + 1,
    )
    drafting = (drafter or ModelDrafter(draft)).open(requests, setting)
    return Session(target, drafting, requests, setting, Rules(verifier, max_new_tokens=new))
