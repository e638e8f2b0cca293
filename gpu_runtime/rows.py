"""All rows of a real network below a prompt, so that exact theory can predict what it will do.

The processed law at every prefix of at most ``depth - 1`` allowed tokens, as a ``RowTree``: the
prefixes hang below the prompt as one tree in the model's cache, so the prompt is read once and a
level costs one call (or a few, by ``BATCH``). Rows are those that decoding sees: same logits, same
processor, same context of penalties. Allowed tokens are relabelled 0 .. n-1 in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_runtime.kv_cache import RowCache
from gpu_runtime.models import LanguageModel
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import Processor, fit_vocabulary, require_laws
from theory.models import RowTree

BATCH = 256
"""Prefixes per call; bounds the memory of the logits."""
LARGEST = 2**15
"""Most prefixes of one enumeration."""


def allowed_tokens(model: LanguageModel, processor: Processor) -> list[int]:
    """The token ids behind the labels 0 .. n-1."""
    allowed = range(model.vocab_size) if processor.allowed is None else processor.allowed
    return sorted(set(allowed))


def enumerate_rows(
    model: LanguageModel,
    prompt: Sequence[int],
    processor: Processor,
    depth: int,
    stop: Sequence[int] = (),
) -> RowTree:
    """Levels 0 to ``depth - 1`` of the processed rows below ``prompt``, float64 [n**i, n].

    Args:
        stop: ids that end a request, for ``min_new_tokens``; the tree goes on below them.

    Raises:
        ValueError: more than ``LARGEST`` prefixes, an empty prompt, a depth below 1, or a row
            that is not a law.
    """
    tokens = allowed_tokens(model, processor)
    size = sum(len(tokens) ** level for level in range(depth))
    if depth < 1 or size > LARGEST:
        raise ValueError(
            f"depth {depth} over {len(tokens)} tokens means {size} prefixes; use 1 to {LARGEST} "
            "prefixes (fewer allowed tokens, or a lower depth)"
        )
    if not prompt:
        raise ValueError("the prompt is empty; give at least one token (such as BOS)")
    request = Request(0, (0, 0), [int(token) for token in prompt], len(prompt))
    cache = model.new_cache(1, len(prompt) + size)
    model.read(cache, [request.sequence[:-1]])
    paths: NDArray[np.int64] = np.zeros((1, 0), dtype=np.int64)
    parents = np.array([-1])
    levels = []
    for level in range(depth):
        newest = paths[:, -1] if level else np.array(request.sequence[-1:])
        first = cache.pending
        laws = [
            _laws(
                model, cache, processor, request, (newest[part], parents[part], paths[part]), stop
            )
            for part in np.array_split(np.arange(len(paths)), -(-len(paths) // BATCH))
        ]
        levels.append(_normalised(torch.cat(laws)[:, tokens]))
        parents = np.repeat(first + np.arange(len(paths)), len(tokens))
        grown = np.tile(np.array(tokens), len(paths))
        paths = np.column_stack([np.repeat(paths, len(tokens), axis=0), grown])
    return RowTree(tuple(levels))


def _laws(
    model: LanguageModel,
    cache: RowCache,
    processor: Processor,
    request: Request,
    nodes: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    stop: Sequence[int],
) -> Tensor:
    """Log-laws [n, V] at some nodes: their tokens, their parents and the paths to them."""
    tokens, parents, paths = nodes
    logits = model.extend(cache, torch.from_numpy(tokens)[None], parents.tolist())
    logits = fit_vocabulary(logits, model.vocab_size, model.width)
    context = None
    if processor.needs_context:
        context = contexts([request], torch.from_numpy(paths)[None].to(logits.device), stop)
    laws = processor(logits.to(model.law_dtype), context)[0]
    require_laws(laws, f"{model.name}, prefix number")
    return laws


def _normalised(log_rows: Tensor) -> NDArray[np.float64]:
    rows = log_rows.double().exp().cpu().numpy()
    return np.asarray(rows / rows.sum(axis=1, keepdims=True), dtype=np.float64)
