"""Enumerated rows of a real network, and the law that decoding then follows."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from gpu_runtime.engine import decode
from gpu_runtime.rows import allowed_tokens, enumerate_rows
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Round
from sim.verifiers import VERIFIERS, Verdict
from tests.runtime.tools import CASES, Forced, pair
from theory.models import RowTree

PROMPT = [0, 2, 1]
LEVEL = 1e-9
"""False-alarm level of each statistical assertion."""


@pytest.mark.parametrize(
    "processor",
    [
        Processor(),
        Processor(temperature=0.7, top_p=0.9),
        Processor(allowed=(3, 0, 2), top_k=2),
        Processor(repetition_penalty=1.3, frequency_penalty=0.2, min_new_tokens=2),
    ],
)
@pytest.mark.parametrize(("verifier", "num_drafts"), [("block", 1), ("kseq", 3)])
def test_enumerated_rows_are_the_rows_of_decoding(
    processor: Processor, verifier: str, num_drafts: int
) -> None:
    target, draft = pair()
    tokens = allowed_tokens(target, processor)
    label = {token: i for i, token in enumerate(tokens)}
    trees = [enumerate_rows(model, PROMPT, processor, 6, stop=(1,)) for model in (target, draft)]
    compared = 0

    def compare(done: Round) -> None:
        nonlocal compared
        for b, request in enumerate(done.requests):
            before = request.sequence[len(PROMPT) : int(done.positions[b])]
            for k, drafted in enumerate(done.proposal.drafts[b].tolist()):
                for i in range(int(done.proposal.lengths[b]) + 1):
                    path = tuple(label[token] for token in before + drafted[:i])
                    p = done.log_p[b, k, i].exp()[tokens].numpy()
                    np.testing.assert_allclose(p, trees[0].row(path), atol=1e-12)
                    if i < int(done.proposal.lengths[b]):
                        q = done.proposal.log_q[b, k, i].exp()[tokens].numpy()
                        np.testing.assert_allclose(q, trees[1].row(path), atol=1e-12)
                    compared += 1

    decode(
        target,
        draft,
        [PROMPT] * 6,
        verifier=verifier,
        gamma=3,
        num_drafts=num_drafts,
        processor=processor,
        max_new_tokens=6,
        eos=1,
        observer=compare,
    )
    assert compared > 30


def test_levels_line_up_with_plain_forward_passes() -> None:
    target, _ = pair()
    tree = enumerate_rows(target, PROMPT, Processor(), 4)
    assert [level.shape for level in tree.levels] == [(1, 4), (4, 4), (16, 4), (64, 4)]
    for path in itertools.product(range(4), repeat=3):
        with torch.no_grad():
            logits = target.model(torch.tensor([[*PROMPT, *path]])).logits[0, -1]
        np.testing.assert_allclose(tree.row(path), logits.softmax(-1).numpy(), atol=1e-12)


def test_large_enumerations_and_bad_arguments_are_refused() -> None:
    target, _ = pair()
    for depth in (0, 9):
        with pytest.raises(ValueError, match=f"depth {depth} over 4 tokens"):
            enumerate_rows(target, PROMPT, Processor(), depth)
    with pytest.raises(ValueError, match="prompt is empty"):
        enumerate_rows(target, [], Processor(), 2)


def joint_law(tree: RowTree) -> Any:
    """The law of the first ``depth`` tokens, [V ** depth]."""
    law = np.ones(1)
    for level in tree.levels:
        law = (law[:, None] * level).reshape(-1)
    return law


def chi_square(samples: Sequence[Sequence[int]], law: Any, vocab: int) -> float:
    """p-value of the joint counts against a law; bins below 5 expected are merged beforehand."""
    depth = len(samples[0])
    index = np.array(samples) @ vocab ** np.arange(depth - 1, -1, -1)
    counts = np.bincount(index, minlength=len(law)).astype(float)
    expected = law * len(samples)
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    return float(stats.chisquare(counts[keep], expected[keep]).pvalue)


def redraw_from_p(log_p: Any, log_q: Any, drafts: Any, uniforms: Any, *rest: Any) -> Verdict:
    """A faulty token rule: after a rejection it draws from p instead of the residual."""
    verdict = VERIFIERS["token"].verify(log_p, log_q, drafts, uniforms, *rest)
    rows = torch.arange(len(log_p))
    cumulative = log_p[rows, 0, verdict.accepted].exp().cumsum(-1)
    token = (cumulative <= uniforms[:, -1:] * cumulative[:, -1:]).sum(-1)
    return verdict._replace(token=token)


class Faulty(Forced):
    def slots(self, gamma: int, num_drafts: int) -> int:
        return gamma + 1


def sampled(verifier: Any, num_drafts: int, requests: int) -> list[list[int]]:
    target, draft = pair(vocab=3)
    got = decode(
        target,
        draft,
        [PROMPT] * requests,
        verifier=verifier,
        gamma=2,
        num_drafts=num_drafts,
        max_new_tokens=4,
        seeds=11,
    )
    return [generation.tokens for generation in got]


@pytest.mark.parametrize(("verifier", "num_drafts"), CASES)
def test_sampled_texts_follow_the_joint_law(verifier: str, num_drafts: int) -> None:
    law = joint_law(enumerate_rows(pair(vocab=3)[0], PROMPT, Processor(), 4))
    assert chi_square(sampled(verifier, num_drafts, 3000), law, 3) > LEVEL


def test_the_law_test_finds_a_wrong_residual() -> None:
    """Negative control, with its power: the exact law of the first token gives lambda."""
    target, draft = pair(vocab=3)
    p = enumerate_rows(target, PROMPT, Processor(), 1).levels[0][0]
    q = enumerate_rows(draft, PROMPT, Processor(), 1).levels[0][0]
    faulty = np.minimum(p, q) + (1 - np.minimum(p, q).sum()) * p
    noncentrality = 3000 * ((faulty - p) ** 2 / p).sum()
    power = stats.ncx2.sf(stats.chi2.isf(LEVEL, 2), 2, noncentrality)
    assert power > 0.999
    samples = sampled(Faulty(redraw_from_p, multi_draft=False), 1, 3000)
    assert chi_square([[text[0]] for text in samples], p, 3) < LEVEL
    law = joint_law(enumerate_rows(target, PROMPT, Processor(), 4))
    assert chi_square(samples, law, 3) < LEVEL
