"""The embedded pairs of models that ``specproof check`` runs on.

* tables in rationals: the two-token example of Sun et al. 2024, and a seeded table over three
  tokens whose rows depend on the whole prefix;
* a tiny seeded Llama and a noised copy, through the real transformers path;
* SmolLM2-135M-Instruct and a noised copy, restricted to a few tokens so that every prefix of a
  round can be enumerated with the real network.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from papers_check.crosscheck import Decode, Pair, Samples
from theory.models import MarkovModel, TableModel, prefixes

if TYPE_CHECKING:
    from gpu_runtime.models import LanguageModel
    from gpu_runtime.sampling import Processor

BATCH = 1000
"""Requests decoded at once."""
MAIN = ("token", "block", "greedy_block", "kseq", "marked_block")
"""Rules that are also decoded on the large model."""
PROMPT = "def add(a, b):\n    "
"""Prompt of the SmolLM2 pair."""


def random_table(vocab: int, depth: int, seed: int, zeros: bool = True) -> TableModel:
    """A seeded table in small rationals whose rows depend on the whole prefix."""
    rng = random.Random(seed)

    def row() -> list[Fraction]:
        weights = [rng.randint(0 if zeros else 1, 6) for _ in range(vocab)]
        weights[rng.randrange(vocab)] += 1
        return [Fraction(weight, sum(weights)) for weight in weights]

    return TableModel({p: row() for n in range(depth) for p in prefixes(vocab, n)})


def table_pairs() -> list[Pair]:
    """Pairs given as tables: exact, enumerated and simulated; nothing to decode."""
    return [
        Pair(
            "two tokens (1/3, 2/3) | (2/3, 1/3)",
            MarkovModel(["1/3", "2/3"]),
            MarkovModel(["2/3", "1/3"]),
            gamma=2,
            horizon=5,
        ),
        Pair(
            "table, 3 tokens, rows by prefix",
            random_table(3, 6, seed=1),
            random_table(3, 6, seed=2),
            gamma=2,
            horizon=4,
        ),
    ]


def tiny_pair(rounds: int, seed: int = 0) -> Pair:
    """A seeded two-layer Llama over three tokens and a noised copy, in float64."""
    import torch

    from gpu_runtime import zoo
    from gpu_runtime.sampling import Processor

    target = zoo.load("tiny", dtype=torch.float64, seed=seed, vocab=3)
    draft = zoo.load("tiny-draft", dtype=torch.float64, seed=seed, vocab=3)
    return network_pair("tiny Llama, 3 tokens", target, draft, [0], Processor(), 2, 4, rounds)


def smollm2_pair(target: LanguageModel, draft: LanguageModel, rounds: int, tokens: int = 4) -> Pair:
    """SmolLM2 and its draft, restricted to the target's likeliest tokens after a prompt."""
    from gpu_runtime.sampling import Processor

    prompt = target.encode(PROMPT)
    processor = Processor(allowed=likeliest_tokens(target, prompt, tokens))
    name = f"SmolLM2-135M, {tokens} tokens allowed"
    pair = network_pair(name, target, draft, prompt, processor, 2, 3, rounds)
    return replace(pair, verifiers=MAIN)


def likeliest_tokens(model: LanguageModel, prompt: list[int], count: int) -> tuple[int, ...]:
    """The ``count`` likeliest next tokens after ``prompt``."""
    from gpu_runtime.rows import enumerate_rows
    from gpu_runtime.sampling import Processor

    row = enumerate_rows(model, prompt, Processor(), 1).levels[0][0]
    return tuple(int(token) for token in np.sort(np.argsort(-row, kind="stable")[:count]))


def network_pair(
    name: str,
    target: LanguageModel,
    draft: LanguageModel,
    prompt: list[int],
    processor: Processor,
    gamma: int,
    horizon: int,
    rounds: int,
) -> Pair:
    """A pair of networks with every row below ``prompt`` enumerated."""
    from gpu_runtime.rows import enumerate_rows

    depth = horizon + gamma
    return Pair(
        name,
        enumerate_rows(target, prompt, processor, depth),
        enumerate_rows(draft, prompt, processor, depth),
        gamma,
        horizon,
        decode=decoder(target, draft, prompt, processor),
        rounds=rounds,
    )


def decoder(
    target: LanguageModel, draft: LanguageModel, prompt: list[int], processor: Processor
) -> Decode:
    """The running decoder on one prompt, with tokens relabelled as ``enumerate_rows`` does."""
    from gpu_runtime.engine import decode
    from gpu_runtime.rows import allowed_tokens

    labels = {token: label for label, token in enumerate(allowed_tokens(target, processor))}

    def run(verifier: str, gamma: int, num_drafts: int, horizon: int, n: int) -> Samples:
        generations = [
            generation
            for start in range(0, n, BATCH)
            for generation in decode(
                target,
                draft,
                [prompt] * min(BATCH, n - start),
                verifier=verifier,
                gamma=gamma,
                num_drafts=num_drafts,
                processor=processor,
                max_new_tokens=horizon,
                seeds=0,
                request_ids=range(start, min(start + BATCH, n)),
            )
        ]
        tokens = np.array([[labels[t] for t in g.tokens] for g in generations], dtype=np.int64)
        accepted = np.array([g.accepted[0] for g in generations], dtype=np.int64)
        return Samples(accepted, tokens)

    return run
