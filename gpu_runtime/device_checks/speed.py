"""Decoding speed: against transformers' assisted generation, and against its own prediction.

The prediction is exact theory times measured prices: expected target calls for N tokens on the
Markov pair, each at the price of a round of gamma drafts, which is measured on rounds that keep
nothing. Prices are differences between a long and a short run, so what a request pays once (its
prompt, its last shorter rounds) cancels.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from gpu_runtime.device_checks.pairs import Size, random_pair, transitions
from gpu_runtime.device_checks.timing import synchronize
from gpu_runtime.engine import AUTOREGRESSIVE, Generation, decode
from gpu_runtime.models import LanguageModel
from gpu_runtime.verify import get
from sim.verifiers import ArrayVerifier, Verdict
from theory.accepted_length.calls import Flows, calls_by_state

PROMPT = [1, 2, 3]


@dataclass(frozen=True)
class Throughput:
    """Tokens a second of one contender, a number for each turn; tokens per target call."""

    name: str
    tokens_per_second: list[float]
    tokens_per_call: float | None

    @property
    def median(self) -> float:
        return statistics.median(self.tokens_per_second)


@dataclass(frozen=True)
class Prediction:
    """Token verification at one gamma: exact and counted calls for the tokens decoded, the price
    of a round and of a plain step in seconds, and speed-ups over plain decoding."""

    gamma: int
    tokens: int
    exact_calls: float
    counted_calls: float
    round_seconds: float
    plain_seconds: float
    predicted_speedup: float
    measured_speedup: float

    @property
    def measured_over_predicted(self) -> float:
        return self.measured_speedup / self.predicted_speedup


class Plan(NamedTuple):
    """How much to decode: tokens of a long and of a short run, and repeats."""

    long: int
    short: int
    repeats: int


def contest(
    size: Size, vocab: int, gamma: int, tokens: int, turns: int, device: torch.device
) -> list[Throughput]:
    """Contenders take turns on one random pair, in rotated order; the first turn warms up."""
    target, draft = random_pair(size, vocab, device, context=tokens + 64)
    calls: dict[str, float] = {}

    def ours(verifier: str) -> Callable[[int], None]:
        def run(seed: int) -> None:
            made: list[Generation] = []
            _decode(target, draft, verifier, gamma, tokens, seed, made)
            calls[verifier] = made[0].tokens_per_call

        return run

    contenders: dict[str, Callable[[int], None]] = {
        AUTOREGRESSIVE: ours(AUTOREGRESSIVE),
        "block": ours("block"),
        "transformers generate": lambda seed: _generate(target, None, gamma, tokens, seed),
        "transformers assisted": lambda seed: _generate(target, draft, gamma, tokens, seed),
    }
    names = list(contenders)
    speeds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns + 1):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            time = _timed(partial(contenders[name], turn), device)
            if turn > 0:
                speeds[name].append(tokens / time)
    return [Throughput(name, speeds[name], calls.get(name)) for name in names]


def predict(
    size: Size, vocab: int, gammas: tuple[int, ...], plan: Plan, device: torch.device
) -> list[Prediction]:
    """Predicted and measured speed-up of token verification at several gammas."""
    target, draft = random_pair(size, vocab, device, context=plan.long + 64)
    p, q = transitions(target), transitions(draft)
    successor = np.tile(np.arange(vocab), (vocab, 1))
    flows = Flows(np.minimum(p, q), np.clip(p - q, 0.0, None), p, successor)
    plain = _slope(target, draft, AUTOREGRESSIVE, 0, plan, device)[0] / (plan.long - plan.short)
    found = []
    for gamma in gammas:
        refusing = replace(get("token"), name="refusing", verify=_refuse)
        rounds = plan.long - plan.short
        price = _slope(target, draft, refusing, gamma, plan, device)[0] / rounds
        seconds, counted = _slope(target, draft, "token", gamma, plan, device)
        exact = [
            float(calls_by_state(flows, gamma, tokens)[PROMPT[-1]])
            for tokens in (plan.long, plan.short)
        ]
        calls = exact[0] - exact[1]
        found.append(
            Prediction(
                gamma,
                rounds,
                calls,
                counted,
                price,
                plain,
                rounds * plain / (calls * price),
                rounds * plain / seconds,
            )
        )
    return found


def _refuse(*args: Any, **options: Any) -> Verdict:
    """Token verification whose decision is ignored: every round keeps nothing."""
    verdict = get("token").verify(*args, **options)
    return verdict._replace(accepted=torch.zeros_like(verdict.accepted))


def _slope(
    target: LanguageModel,
    draft: LanguageModel,
    verifier: str | ArrayVerifier,
    gamma: int,
    plan: Plan,
    device: torch.device,
) -> tuple[float, float]:
    """Mean extra seconds and extra target calls of the long run over the short one."""
    seconds, calls = [], []
    for seed in range(plan.repeats + 1):
        times, counts = [], []
        for tokens in (plan.long, plan.short):
            made: list[Generation] = []
            work = partial(_decode, target, draft, verifier, gamma, tokens, seed, made)
            times.append(_timed(work, device))
            counts.append(len(made[0].accepted))
        if seed > 0:
            seconds.append(times[0] - times[1])
            calls.append(counts[0] - counts[1])
    return statistics.mean(seconds), statistics.mean(calls)


def _decode(
    target: LanguageModel,
    draft: LanguageModel,
    verifier: str | ArrayVerifier,
    gamma: int,
    tokens: int,
    seed: int,
    made: list[Generation],
) -> None:
    """Decode one request into ``made``."""
    options: dict[str, Any] = {"verifier": verifier, "gamma": gamma, "seeds": seed}
    made += decode(target, draft, [PROMPT], max_new_tokens=tokens, **options)


def _generate(
    target: LanguageModel, draft: LanguageModel | None, gamma: int, tokens: int, seed: int
) -> None:
    """Sampling by transformers, alone or assisted by the draft with a fixed draft length."""
    torch.manual_seed(seed)
    ids = torch.tensor([PROMPT], device=target.device)
    options: dict[str, Any] = {}
    if draft is not None:
        settings = draft.model.generation_config
        settings.num_assistant_tokens = gamma
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        options["assistant_model"] = draft.model
    target.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=0,
        max_new_tokens=tokens,
        **options,
    )


def _timed(run: Callable[[], Any], device: torch.device) -> float:
    synchronize(device)
    start = perf_counter()
    run()
    synchronize(device)
    return perf_counter() - start
