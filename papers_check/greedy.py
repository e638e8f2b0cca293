"""Temperature 0: every verifier must write the autoregressive text, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.verifiers import VERIFIERS

if TYPE_CHECKING:
    from gpu_runtime.models import LanguageModel


@dataclass(frozen=True)
class GreedyRow:
    """One verifier's greedy texts against plain greedy decoding.

    Attributes:
        model: the target's name and number type.
        verifier, gamma, num_drafts: the configuration.
        prompts: texts compared.
        equal: texts that agree token for token.
        tokens_per_call: pooled over the texts.
    """

    model: str
    verifier: str
    gamma: int
    num_drafts: int
    prompts: int
    equal: int
    tokens_per_call: float

    @property
    def agrees(self) -> bool:
        return self.equal == self.prompts


def greedy_rows(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Sequence[list[int]],
    gamma: int,
    new_tokens: int,
    name: str,
    verifiers: Sequence[str],
) -> list[GreedyRow]:
    """Compare verifiers on the whole batch and on its first prompt alone."""
    from gpu_runtime.engine import decode
    from gpu_runtime.sampling import Processor

    processor = Processor(temperature=0)
    plain = decode(
        target,
        None,
        prompts,
        verifier="autoregressive",
        processor=processor,
        max_new_tokens=new_tokens,
    )
    truth = [generation.tokens for generation in plain]
    rows = []
    for verifier in verifiers:
        drafts = 2 if VERIFIERS[verifier].multi_draft else 1
        equal = tokens = calls = 0
        batches = [list(prompts), *([prompt] for prompt in prompts[:1])]
        for batch in batches:
            texts = decode(
                target,
                draft,
                batch,
                verifier=verifier,
                gamma=gamma,
                num_drafts=drafts,
                processor=processor,
                max_new_tokens=new_tokens,
            )
            equal += sum(text.tokens == true for text, true in zip(texts, truth, strict=False))
            tokens += sum(len(text.tokens) for text in texts)
            calls += sum(len(text.emitted) for text in texts)
        compared = sum(map(len, batches))
        rows.append(GreedyRow(name, verifier, gamma, drafts, compared, equal, tokens / calls))
    return rows
