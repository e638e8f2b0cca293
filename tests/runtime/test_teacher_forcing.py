"""Rows along texts are the rows that decoding would have sampled from."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runtime import teacher_forcing
from gpu_runtime.rows import enumerate_rows
from gpu_runtime.sampling import Processor
from gpu_runtime.teacher_forcing import TeacherForcing
from tests.runtime.tools import pair

PROMPTS = ([0, 1, 2], [3], [2, 2, 1, 0, 3])
OUTPUTS = ([1, 0, 3, 3, 2], [2, 2, 0], [0])
PENALISED = Processor(
    temperature=0.7, frequency_penalty=0.3, presence_penalty=0.2, repetition_penalty=1.3
)


@pytest.mark.parametrize(
    "processor", [Processor(), Processor(top_k=2), PENALISED], ids=["plain", "top_k", "penalties"]
)
@pytest.mark.parametrize("span", [64, 2])
def test_rows_along_texts(processor: Processor, span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ragged batch, in one span and in several."""
    monkeypatch.setattr(teacher_forcing, "SPAN", span)
    target, _ = pair()
    texts = list(zip(PROMPTS, OUTPUTS, strict=True))
    found = list(TeacherForcing(target, processor, target.width).log_rows(texts))
    for rows, (prompt, output) in zip(found, texts, strict=True):
        tree = enumerate_rows(target, prompt, processor, len(output))
        expected = [tree.row(tuple(output[:i])) for i in range(len(output))]
        np.testing.assert_allclose(np.exp(rows), expected, atol=1e-12)


def test_batches_are_split_and_kept_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = pair()
    texts = list(zip(PROMPTS, OUTPUTS, strict=True))
    forcing = TeacherForcing(target, Processor(), target.width)
    whole = list(forcing.log_rows(texts))
    monkeypatch.setattr(teacher_forcing, "ENTRIES", 1)
    for one, other in zip(whole, forcing.log_rows(texts), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_scores_rank_as_the_laws() -> None:
    target, _ = pair()
    text = (PROMPTS[0], OUTPUTS[0])
    forcing = TeacherForcing(target, Processor(temperature=0.5), target.width)
    (scores,), (rows,) = list(forcing.scores([text])), list(forcing.log_rows([text]))
    np.testing.assert_array_equal(scores.argsort(axis=1), rows.argsort(axis=1))
    difference = rows - 2 * scores
    np.testing.assert_allclose(difference - difference[:, :1], 0, atol=1e-5)


def test_texts_that_do_not_fit() -> None:
    target, _ = pair()
    forcing = TeacherForcing(target, Processor(), target.width)
    with pytest.raises(ValueError, match="sample 1 has an empty prompt or output"):
        list(forcing.log_rows([([0], [1]), ([], [1])]))
    with pytest.raises(ValueError, match="holds token 9; tiny has ids 0 to 3"):
        list(forcing.log_rows([([0], [9])]))
    with pytest.raises(ValueError, match="has 601 tokens"):
        list(forcing.log_rows([([0], [1] * 600)]))
