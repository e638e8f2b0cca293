"""Rows of real networks after chosen prefixes below a prompt, for theory that searches a tree.

The prefixes hang below the prompt as one growing tree in the model's cache, so the prompt is read
once and every further prefix costs one token. Rows are those that decoding sees: same logits, same
processor, same context of penalties, over the whole vocabulary (``gpu_runtime.rows`` enumerates
every prefix of a few allowed tokens instead).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_runtime.models import LanguageModel, check_vocabularies
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import Processor, fit_vocabulary, require_laws
from theory.enclosure import PairRows
from theory.models import Prefix


class PrefixRows:
    """The processed laws of one model after prefixes below a prompt.

    Args:
        width: entries of a row; ids that the model does not know get probability 0.
        capacity: most prefixes that will ever be asked for.
        stop: ids that end a request, for ``min_new_tokens``; the tree goes on below them.

    Raises:
        ValueError: an empty prompt.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        processor: Processor,
        width: int,
        capacity: int,
        stop: Sequence[int] = (),
    ) -> None:
        if not prompt:
            raise ValueError("the prompt is empty; give at least one token (such as BOS)")
        self._model, self._processor, self._width, self._stop = model, processor, width, stop
        self._request = Request(0, (0, 0), [int(token) for token in prompt], len(prompt))
        self._cache = model.new_cache(1, len(prompt) - 1 + capacity)
        self._nodes: dict[Prefix, int] = {}
        model.read(self._cache, [self._request.sequence[:-1]])

    def __call__(self, prefixes: Sequence[Prefix]) -> NDArray[np.float64]:
        """The rows after some prefixes, [n, width].

        Raises:
            ValueError: a prefix whose own prefixes were not asked for before, one that was asked
                for already, more than ``capacity``, or a row that is no law.
        """
        tokens, parents = zip(*map(self._hang, prefixes), strict=True)
        first = self._cache.pending
        logits = self._model.extend(self._cache, torch.tensor([tokens]), parents)
        self._nodes |= {prefix: first + i for i, prefix in enumerate(prefixes)}
        laws = self._laws(logits, prefixes)
        require_laws(laws, f"{self._model.name}, prefix number")
        rows = laws.double().exp().cpu().numpy()
        return np.asarray(rows / rows.sum(axis=1, keepdims=True), dtype=np.float64)

    def _hang(self, prefix: Prefix) -> tuple[int, int]:
        """The last token of a prefix and the node that it follows."""
        if prefix in self._nodes:
            raise ValueError(f"the row after {list(prefix)} was read before; keep it")
        if not prefix:
            return self._request.sequence[-1], -1
        if prefix[:-1] not in self._nodes:
            raise ValueError(f"the row after {list(prefix[:-1])} was never read; ask for it first")
        return prefix[-1], self._nodes[prefix[:-1]]

    def _laws(self, logits: Tensor, prefixes: Sequence[Prefix]) -> Tensor:
        logits = fit_vocabulary(logits, self._model.vocab_size, self._width)
        context = None
        if self._processor.needs_context:
            depth = max(map(len, prefixes))
            padded = [[*prefix, *[-1] * (depth - len(prefix))] for prefix in prefixes]
            drafted = torch.tensor([padded], dtype=torch.long, device=logits.device)
            context = contexts([self._request], drafted, self._stop)
        return self._processor(logits.to(self._model.law_dtype), context)[0]


def pair_rows(
    target: LanguageModel,
    draft: LanguageModel,
    prompt: Sequence[int],
    processor: Processor,
    capacity: int,
    stop: Sequence[int] = (),
) -> PairRows:
    """The rows of a target and its draft below a prompt, as ``theory.enclosure.enclose`` asks for
    them; ``capacity`` is at least ``max_calls * batch`` of the search.

    Raises:
        ValueError: vocabularies that do not match, an empty prompt.
    """
    check_vocabularies(target, draft)
    p, q = (
        PrefixRows(model, prompt, processor, target.width, capacity, stop)
        for model in (target, draft)
    )
    return lambda prefixes: (p(prefixes), q(prefixes))
