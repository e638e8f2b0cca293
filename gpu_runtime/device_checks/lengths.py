"""The running decoder on the tiny pair: accepted lengths and laws against exact theory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gpu_runtime.engine import decode
from gpu_runtime.rows import enumerate_rows
from gpu_runtime.sampling import Processor
from gpu_runtime.zoo import noised, tiny
from sim.estimators import expected_accepted
from sim.losslessness.joint import joint_test
from sim.rows import string_law, string_numbers
from sim.verifiers import VERIFIERS
from theory.accepted_length import expected_accepted as exact_accepted
from theory.power import LEVEL

VOCAB, GAMMA, HORIZON, DRAFTS, BATCH = 3, 2, 4, 2, 500
PROMPT = [0]


@dataclass(frozen=True)
class LengthCheck:
    """Mean accepted length of decoded first rounds, within low..high, and the exact one; the test
    of the decoded text's law."""

    name: str
    generations: int
    accepted: float
    low: float
    high: float
    exact: float
    p_value: float
    rejected: bool

    @property
    def passed(self) -> bool:
        return self.low <= self.exact <= self.high and not self.rejected


def check_lengths(rules: list[str], count: int, device: torch.device) -> list[LengthCheck]:
    """Decode ``count`` generations with every rule, on float32 networks."""
    target = tiny(VOCAB, dtype=torch.float32)
    draft = noised(target, 0.2)
    for model in (target, draft):
        model.model.to(device)
    depth = HORIZON + GAMMA
    p_tree, q_tree = (enumerate_rows(m, PROMPT, Processor(), depth) for m in (target, draft))
    law = string_law(p_tree, HORIZON)
    found = []
    for rule in rules:
        drafts = DRAFTS if VERIFIERS[rule].multi_draft else 1
        runs = [
            generation
            for start in range(0, count, BATCH)
            for generation in decode(
                target,
                draft,
                [PROMPT] * min(BATCH, count - start),
                verifier=rule,
                gamma=GAMMA,
                num_drafts=drafts,
                max_new_tokens=HORIZON,
                request_ids=range(start, min(start + BATCH, count)),
            )
        ]
        strings = np.array([run.tokens for run in runs], dtype=np.int64)
        counts = np.bincount(string_numbers(strings, VOCAB), minlength=law.size)
        test = joint_test(counts, law, LEVEL)
        mean = expected_accepted(np.array([run.accepted[0] for run in runs]), GAMMA, LEVEL)
        exact = float(exact_accepted(rule, p_tree, q_tree, GAMMA, drafts))
        found.append(LengthCheck(rule, count, *mean[:3], exact, test.p_value, test.rejected))
    return found
