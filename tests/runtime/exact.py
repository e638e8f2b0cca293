"""The exact law of whole runs on a tiny network, rounds included, and a test of samples against it.

``runs`` walks over all rounds that a decoder can take, with the state that its window or drafter
keeps, and returns the joint law of the emitted tokens and of (drafted, accepted) of every round.
The rows are those of the real network (``gpu_runtime.rows``); the rules are theory's programs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gpu_runtime.engine import Generation
from gpu_runtime.models import LanguageModel
from gpu_runtime.rows import enumerate_rows
from gpu_runtime.sampling import Processor
from sim.losslessness.joint import JointResult, joint_test
from tests.runtime.tools import pair
from theory.effects import Effects, enumerate_law
from theory.fields import FLOAT, Array
from theory.models import Prefix, RowTree, rows_after
from theory.verifiers.common import Round, load_program

Step = Callable[[Effects, Prefix, Any, int], tuple[Round, int]]
"""``step(fx, prefix, state, cap)``: one round after ``prefix``, and the tokens it drafted."""
Learn = Callable[[Any, int, int, int], Any]
"""``learn(state, drafted, accepted, emitted)``: the state after a round."""
Run = tuple[Prefix, tuple[tuple[int, int], ...]]
"""Emitted tokens; (drafted, accepted) of each round."""

PROMPT = [0, 2, 1]
VOCAB, HORIZON = 3, 4


@cache
def trees(prompt: tuple[int, ...] = tuple(PROMPT)) -> tuple[RowTree, RowTree]:
    """Rows of the tiny target and its draft below a prompt."""
    return rows_of(pair(vocab=VOCAB)[0], prompt), rows_of(pair(vocab=VOCAB)[1], prompt)


def rows_of(model: LanguageModel, prompt: Sequence[int]) -> RowTree:
    """Rows of a model below a prompt."""
    return enumerate_rows(model, prompt, Processor(), HORIZON)


def point_mass_step(
    verifier: str, prompt: tuple[int, ...], path: Callable[[Prefix, int], Sequence[int]]
) -> Step:
    """Rounds whose draft is the function ``path(prefix, cap)`` of the text."""
    program = load_program(verifier)

    def step(fx: Effects, prefix: Prefix, _: Any, cap: int) -> tuple[Round, int]:
        drafted = tuple(path(prefix, cap))

        def draft(so_far: Prefix) -> Array:
            return np.eye(VOCAB)[drafted[len(so_far)]]

        target = rows_after(trees(prompt)[0], prefix)
        return program(fx, target, draft, (drafted,)), len(drafted)

    return step


def keep(state: Any, drafted: int, accepted: int, emitted: int) -> Any:
    """A state that never changes."""
    return state


def runs(step: Step, start: Hashable = None, learn: Learn = keep) -> dict[Run, float]:
    """The joint law of ``HORIZON`` tokens and the rounds that wrote them. The state of a request
    moves by ``learn``, or is the carry of the round."""
    states: list[dict[tuple[Prefix, Any, Any], float]] = [
        defaultdict(float) for _ in range(HORIZON + 1)
    ]
    states[0][(), start, ()] = 1.0
    for length in range(HORIZON):
        for (prefix, state, rounds), weight in states[length].items():
            cap = HORIZON - length - 1

            def program(fx: Effects, at: Any = (prefix, state, cap)) -> tuple[Round, int]:
                return step(fx, *at)

            for (outcome, drafted), chance in enumerate_law(program, FLOAT).items():
                tokens = (prefix + outcome.tokens)[:HORIZON]
                emitted = len(tokens) - length
                after = outcome.carry or learn(state, drafted, outcome.accepted, emitted)
                record = (*rounds, (drafted, outcome.accepted))
                states[len(tokens)][tokens, after, record] += weight * chance
    law: dict[Run, float] = defaultdict(float)
    for (tokens, _, rounds), weight in states[HORIZON].items():
        law[tokens, rounds] += weight
    return dict(law)


def observed(generations: Sequence[Generation]) -> dict[Run, int]:
    """Counts of runs."""
    return dict(
        Counter(
            (tuple(g.tokens), tuple(zip(g.drafted, g.accepted, strict=True))) for g in generations
        )
    )


def compare(generations: Sequence[Generation], law: dict[Run, float]) -> JointResult:
    """Test the runs against their exact law at a false-alarm probability of 1e-9."""
    return joint_test(observed(generations), law)
