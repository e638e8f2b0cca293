"""The rows of a real model along given texts: what it would have sampled each token from.

The prompt is read into the cache, then the output is fed in spans; a span costs one call and gives
one row before each of its tokens. Rows are those that decoding sees: same logits, same processor,
same context of penalties. Texts of different lengths are batched; paddings are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_runtime.models import LanguageModel, chain_path, pad_rows
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import Processor, fit_vocabulary, require_laws

SPAN = 64
"""Output tokens of one call."""
ENTRIES = 2**25
"""Entries of the logits of one call; bounds its memory."""

Text = tuple[Sequence[int], Sequence[int]]
"""A prompt and an output."""


@dataclass(frozen=True)
class TeacherForcing:
    """Rows of one model along texts.

    Attributes:
        model: the model.
        processor: temperature, filters and penalties.
        width: entries of a row; ids that the model does not know get probability 0.
        stop: ids that end a request, for ``min_new_tokens``.
    """

    model: LanguageModel
    processor: Processor
    width: int
    stop: tuple[int, ...] = ()

    def log_rows(self, texts: Sequence[Text]) -> Iterator[NDArray[np.floating]]:
        """Log rows [len(output), width] of each text, in order.

        Raises:
            ValueError: an empty prompt or output, ids that the model does not know, a text that
                does not fit its context, or a row that is no law.
        """
        return self._rows(texts, process=True)

    def scores(self, texts: Sequence[Text]) -> Iterator[NDArray[np.floating]]:
        """Scores before temperature and filters, likewise: what a greedy engine maximises."""
        return self._rows(texts, process=False)

    def _rows(self, texts: Sequence[Text], process: bool) -> Iterator[NDArray[np.floating]]:
        for number, text in enumerate(texts):
            self._check(number, text)
        step = max(1, ENTRIES // (SPAN * self.width))
        for start in range(0, len(texts), step):
            yield from self._batch(texts[start : start + step], process)

    @torch.no_grad()
    def _batch(self, texts: Sequence[Text], process: bool) -> Iterator[NDArray[np.floating]]:
        requests = [
            Request(i, (0, i), [int(t) for t in prompt], len(prompt))
            for i, (prompt, _) in enumerate(texts)
        ]
        longest = max(len(prompt) + len(output) for prompt, output in texts)
        cache = self.model.new_cache(len(texts), longest + SPAN)
        self.model.read(cache, [request.sequence[:-1] for request in requests])
        parts: list[list[NDArray[np.floating]]] = [[] for _ in texts]
        most = max(len(output) for _, output in texts)
        for start in range(0, most, SPAN):
            spans = [list(output[start : start + SPAN]) for _, output in texts]
            fed = [
                [request.sequence[-1], *span[:-1]] if span else []
                for request, span in zip(requests, spans, strict=True)
            ]
            tokens, chain = pad_rows(fed)
            logits = self.model.extend(cache, tokens, chain)
            logits = fit_vocabulary(logits, self.model.vocab_size, self.width)
            rows = self._laws(logits, requests, tokens) if process else logits.float()
            counts = np.array([len(span) for span in fed], dtype=np.int64)
            for part, row, count in zip(parts, rows, counts, strict=True):
                part.append(row[:count].cpu().numpy())
            cache.commit(chain_path(len(texts), len(chain)), counts)
            for request, span in zip(requests, spans, strict=True):
                request.sequence.extend(int(token) for token in span)
        for part in parts:
            yield np.concatenate(part)

    def _laws(self, logits: Tensor, requests: Sequence[Request], tokens: Tensor) -> Tensor:
        context = None
        if self.processor.needs_context:
            later = tokens[:, 1:]
            n = tokens.shape[1]
            seen = torch.arange(n - 1) < torch.arange(n)[:, None]
            between = later[:, None].where(seen[None], -1).to(logits.device)
            context = contexts(requests, between, self.stop)
        rows = self.processor(logits.to(self.model.law_dtype), context)
        require_laws(rows, f"{self.model.name}, text and position")
        return rows

    def _check(self, number: int, text: Text) -> None:
        prompt, output = text
        if not prompt or not output:
            raise ValueError(f"sample {number} has an empty prompt or output; give both")
        foreign = [t for t in (*prompt, *output) if not 0 <= t < self.model.vocab_size]
        if foreign:
            raise ValueError(
                f"sample {number} holds token {foreign[0]}; {self.model.name} has ids 0 to "
                f"{self.model.vocab_size - 1}. Were the samples made with another tokenizer?"
            )
        if len(prompt) + len(output) > self.model.context:
            raise ValueError(
                f"sample {number} has {len(prompt) + len(output)} tokens; the context of "
                f"{self.model.name} has {self.model.context}"
            )
