"""In law: strings that kernels emit, against the target's exact law; faulty rules must be found.

Tests and intervals have a false-alarm probability of 1e-9; ``detectable_tv`` is the total variation
that a test would have found. Accepted lengths of first rounds are held against exact theory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gpu_runtime.device_checks.simulated import Setup, generations, to_device
from sim.estimators import expected_accepted
from sim.losslessness.joint import joint_test
from sim.mutants import MUTANTS
from sim.rows import RowTable, string_law, string_numbers
from sim.testing import random_pair
from sim.verifiers import VERIFIERS, ArrayVerifier, Verdict
from theory.accepted_length import expected_accepted as exact_accepted
from theory.models import RowTree
from theory.power import LEVEL

VOCAB, GAMMA, HORIZON, DRAFTS = 3, 3, 4, 2
SEED = 5
CHUNK = 2**18
"""Generations at once."""


@dataclass(frozen=True)
class LawCheck:
    """Outcome for one rule or mutant.

    generations, rounds: how many were run. rejected: by the test of the law. accepted: mean
    accepted length of first rounds, within low..high; exact: the theory's (of the sound rule).
    """

    name: str
    generations: int
    rounds: int
    p_value: float
    detectable_tv: float
    rejected: bool
    accepted: float
    low: float
    high: float
    exact: float

    @property
    def passed(self) -> bool:
        """Lossless, and as long as theory says."""
        return not self.rejected and self.low <= self.exact <= self.high


def pair() -> tuple[RowTable, RowTable]:
    """A random pair of models over three tokens whose rows depend on the whole context."""
    return random_pair(np.random.default_rng(SEED), VOCAB, HORIZON - 1 + GAMMA)


def check_law(
    name: str,
    rule: ArrayVerifier,
    verify: Callable[..., Verdict],
    count: int,
    device: torch.device,
    seed: int = 0,
) -> LawCheck:
    """Test the law of ``count`` generations of a rule run by ``verify``."""
    models = pair()
    tables = to_device(models[0], device), to_device(models[1], device)
    drafts = DRAFTS if rule.multi_draft else 1
    setup = Setup(rule, verify, GAMMA, drafts, HORIZON)
    generator = torch.Generator(device).manual_seed(seed)
    counts = np.zeros(VOCAB**HORIZON, dtype=np.int64)
    lengths, rounds = [], 0
    for start in range(0, count, CHUNK):
        run = generations(tables, setup, min(CHUNK, count - start), generator)
        numbers = string_numbers(run.tokens.cpu().numpy(), VOCAB)
        counts += np.bincount(numbers, minlength=counts.size)
        lengths.append(run.accepted.cpu().numpy())
        rounds += run.rounds
    test = joint_test(counts, string_law(models[0], HORIZON), LEVEL)
    found = expected_accepted(np.concatenate(lengths), GAMMA, LEVEL)
    p_tree, q_tree = (row_tree(model, GAMMA) for model in models)
    exact = float(exact_accepted(rule.name, p_tree, q_tree, GAMMA, drafts))
    tested = test.p_value, test.detectable_tv, test.rejected
    return LawCheck(name, count, rounds, *tested, *found[:3], exact)


def row_tree(table: RowTable, depth: int) -> RowTree:
    """The rows of a table that knows whole contexts, by level."""
    law, vocab = np.exp(table.log_rows), table.vocab
    law = law / law.sum(axis=1, keepdims=True)
    first = [sum(vocab**m for m in range(n)) for n in range(depth + 1)]
    return RowTree(tuple(law[first[n] : first[n + 1]] for n in range(depth)))


def check_mutants(count: int, device: torch.device) -> list[LawCheck]:
    """The same test on every faulty rule whose law differs; each must be rejected.

    Faults outside the rule (in the rows read or drawn from) need another harness: ``sim.mutants``.
    """
    return [
        check_law(name, VERIFIERS[mutant.rule], mutant.verifier.verify, count, device, seed=1)
        for name, mutant in MUTANTS.items()
        if mutant.found_by == "law"
        and mutant.verifier.verify != VERIFIERS[mutant.rule].verify
        and not mutant.mixed
    ]
