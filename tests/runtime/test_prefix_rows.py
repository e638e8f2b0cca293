"""Rows after chosen prefixes of real networks, and the interval for E[tau] that they give."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from gpu_runtime.models import LanguageModel
from gpu_runtime.prefix_rows import PrefixRows, pair_rows
from gpu_runtime.rows import enumerate_rows
from gpu_runtime.sampling import Processor
from tests.runtime.tools import pair
from theory.accepted_length import expected_accepted
from theory.enclosure import RULES, Enclosure, enclose
from theory.models import Prefix, prefixes

PROMPT = [0, 2, 1]


@pytest.mark.parametrize(
    "processor",
    [
        Processor(),
        Processor(temperature=0.7, top_p=0.9),
        Processor(repetition_penalty=1.3, frequency_penalty=0.2, min_new_tokens=2),
    ],
)
def test_rows_equal_the_enumerated_ones_in_any_order(processor: Processor) -> None:
    target, _ = pair()
    tree = enumerate_rows(target, PROMPT, processor, 4, stop=(1,))
    rows = PrefixRows(target, PROMPT, processor, target.width, 60, stop=(1,))
    asked: list[list[Prefix]] = [[()], [(3,), (0,)], [(3, 2), (1,), (0, 0)], [(3, 2, 1), (2,)]]
    for batch in asked:
        for prefix, row in zip(batch, rows(batch), strict=True):
            np.testing.assert_allclose(row, tree.row(prefix), atol=1e-12)


@pytest.mark.parametrize("verifier", RULES)
def test_the_interval_of_the_tiny_pair_holds_the_exact_value(verifier: str) -> None:
    target, draft = pair()
    processor = Processor(temperature=0.8)
    trees = [enumerate_rows(model, PROMPT, processor, 4) for model in (target, draft)]
    truth = float(expected_accepted(verifier, trees[0], trees[1], 4))
    found: list[Enclosure] = []
    rows = pair_rows(target, draft, PROMPT, processor, capacity=160)
    last = enclose(rows, 4, verifier, max_calls=20, batch=8, progress=found.append)
    assert all(e.low - 1e-12 <= truth <= e.high + 1e-12 for e in found)
    assert last.expanded == sum(4**level for level in range(4))
    assert last.width < 1e-10
    assert found[2].width > 0.1  # the middle of the run says something


def test_prefixes_are_read_once_and_after_their_own_prefixes() -> None:
    target, _ = pair()
    rows = PrefixRows(target, PROMPT, Processor(), target.width, 3)
    with pytest.raises(ValueError, match=r"row after \[\] was never read"):
        rows([(1,)])
    rows([()])
    with pytest.raises(ValueError, match=r"row after \[\] was read before"):
        rows([()])
    with pytest.raises(ValueError, match="exceed the cache's capacity"):
        rows([(0,), (1,), (2,)])
    assert rows([(0,), (1,)]).shape == (2, 4)
    with pytest.raises(ValueError, match="prompt is empty"):
        PrefixRows(target, [], Processor(), target.width, 3)


def test_all_prefixes_fill_the_cache_exactly() -> None:
    target, draft = pair(vocab=3)
    rows = pair_rows(target, draft, PROMPT, Processor(), capacity=13)
    for level in range(3):
        p, q = rows(prefixes(3, level))
        assert p.shape == q.shape == (3**level, 3)


def _smollm2() -> tuple[LanguageModel, LanguageModel]:
    from gpu_runtime.zoo import load

    return load("smollm2"), load("smollm2-draft")


@pytest.mark.models
@pytest.mark.slow
def test_the_interval_of_a_real_vocabulary() -> None:
    """SmolLM2 and its noised copy, gamma = 4, V = 49,152; rows against plain forward passes."""
    target, draft = _smollm2()
    prompt = target.encode("def add(a, b):\n    return")
    rows = pair_rows(target, draft, prompt, Processor(temperature=0.7), capacity=64)
    asked: list[tuple[Prefix, np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []

    def noted(wanted: Sequence[Prefix]) -> tuple[Any, Any]:
        p, q = rows(wanted)
        asked.append((wanted[-1], p[-1], q[-1]))
        return p, q

    found: list[Enclosure] = []
    last = enclose(noted, 4, "block", max_calls=4, batch=16, progress=found.append)
    assert last.expanded == 49
    assert all(b.low >= a.low and b.width < a.width for a, b in pairwise(found))
    assert 0.5 < last.low < last.high < 4
    assert last.width < 0.5
    for prefix, *pair_of_rows in asked[::3]:
        assert pair_of_rows[0].shape == (49_152,)
        for model, row in zip((target, draft), pair_of_rows, strict=True):
            with torch.no_grad():
                logits = model.model(torch.tensor([[*prompt, *prefix]])).logits[0, -1]
            np.testing.assert_allclose(row, (logits / 0.7).softmax(-1).numpy(), atol=1e-4)
