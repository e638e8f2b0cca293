"""Engines under audit: our runtime, and the installed transformers as it is.

What transformers does is stated exactly where theory predicts it; its sampling step is called
directly for large samples, whole generations are sampled in small numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from gpu_runtime.sampling import Processor
from papers_check.audit.constant import constant_model
from papers_check.audit.engines import METHODS, VLLM, Specproof, Transformers
from papers_check.audit.run import Plan, judge, judge_greedy
from papers_check.audit.targets import ModelTarget
from sim.losslessness.joint import joint_test
from tests.runtime.tools import pair
from theory.declared import Declared, predict
from theory.generation import autoregressive
from theory.models import MarkovModel

P, Q = (1 / 3, 2 / 3), (2 / 3, 1 / 3)
STEPS = 12_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sampling_steps(weight: float | None, n: int, gamma: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Texts [n, gamma + 1] (-1 beyond the round) and accepted lengths of transformers' own step."""
    from transformers.generation.utils import _speculative_sampling

    torch.manual_seed(0)
    q, p = torch.tensor(Q).log(), torch.tensor(P).log()
    drafts = torch.multinomial(torch.tensor(Q), n * gamma, replacement=True).reshape(n, 1, gamma)
    texts, lengths = np.full((n, gamma + 1), -1), np.zeros(n, dtype=np.int64)
    for i in range(n):
        tokens, kept = _speculative_sampling(
            drafts[i],
            q.expand(1, gamma, 2),
            gamma,
            p.expand(1, gamma + 1, 2),
            assistant_ensemble_weight=weight,
        )
        texts[i, : tokens.shape[1]], lengths[i] = tokens[0].numpy(), int(kept)
    return texts, lengths


def test_transformers_sampling_step_is_lossless() -> None:
    """First tokens and bonus tokens of the step follow p; detectable TV 0.05 at level 1e-9."""
    texts, lengths = sampling_steps(None, STEPS)
    for column in (texts[:, 0], texts[lengths == 2, 2]):
        result = joint_test(np.bincount(column, minlength=2), np.array(P))
        assert result.detectable_tv < 0.08
        assert not result.rejected
    assert lengths.mean() == pytest.approx(2 / 3 + 4 / 9, abs=0.04)


def test_transformers_static_ensemble_takes_its_bonus_from_p() -> None:
    """w = 1/2: positions 1 and 2 follow (1/2, 1/2), the bonus (1/3, 2/3); E[tau] = 55/36."""
    texts, lengths = sampling_steps(0.5, STEPS)
    full = texts[lengths == 2, 2]
    half = np.array([0.5, 0.5])
    assert not joint_test(np.bincount(texts[:, 0], minlength=2), half).rejected
    assert not joint_test(np.bincount(texts[lengths >= 1, 1], minlength=2), half).rejected
    assert not joint_test(np.bincount(full, minlength=2), np.array(P)).rejected
    assert joint_test(np.bincount(full, minlength=2), half).rejected  # control: not the mixture
    assert joint_test(np.bincount(texts[:, 0], minlength=2), np.array(P)).rejected
    assert lengths.mean() == pytest.approx(55 / 36, abs=0.04)


def test_transformers_generations_follow_the_prediction() -> None:
    """The static ensemble end to end, against the exact law of the first three tokens."""
    target, draft = constant_model(P), constant_model(Q)
    p, q = MarkovModel(P, field="float"), MarkovModel(Q, field="float")
    engine = Transformers(
        target, draft, [(0,)], Processor(top_k=50), "ensemble", gamma=2, max_new_tokens=3
    )
    samples = engine(range(150))
    law = predict(Declared("ensemble", p, q, {"w": 0.5}), 2, 3).tokens
    counts = dict.fromkeys(law, 0)
    for sample in samples:
        counts[sample.output] += 1
        assert sum(sample.emitted) == 3
    assert not joint_test(counts, law).rejected
    assert joint_test(counts, autoregressive(p, 3), level=1e-3).p_value < 0.05


def test_constant_models_are_constant() -> None:
    model = constant_model([0.2, 0.5, 0.3])
    logits = model.model(torch.tensor([[0, 2, 1, 1]])).logits
    law = torch.softmax(logits, -1).detach().numpy()
    np.testing.assert_allclose(law, np.broadcast_to([0.2, 0.5, 0.3], law.shape), atol=1e-12)
    with pytest.raises(ValueError, match="is not a positive law"):
        constant_model([1.0, 0.0])


@pytest.mark.parametrize("method", [m for m in METHODS if m != "ensemble"])
def test_transformers_methods_pass_a_short_audit(method: str) -> None:
    target, draft = pair()
    engine = Transformers(
        target,
        draft if method == "assisted" else None,
        [(0, 1, 2, 0, 1)],
        Processor(top_k=50),
        method,
        gamma=2,
        max_new_tokens=6,
    )
    assert engine(range(3, 5)) == engine(range(5))[3:]
    law = ModelTarget(target, Processor(), target.width)
    found = judge([engine(range(20))], Plan(law, level=1e-6), {})
    assert found.lossless, found.verdict
    assert found.tokens == 120


def test_our_runtime_passes_and_a_wrong_setting_is_found() -> None:
    target, draft = pair()
    law = ModelTarget(target, Processor(), target.width)
    beside = ModelTarget(draft, Processor(), target.width)
    right = Specproof(target, draft, [(0,), (1, 2)], Processor(), gamma=3, max_new_tokens=8)
    batches = [right(range(n, n + 100)) for n in (0, 100)]
    found = judge(batches, Plan(law, beside, places=True), {})
    assert found.lossless, found.verdict
    assert found.tokens == 1600
    warm = Specproof(target, draft, [(0,)], Processor(temperature=1.8), max_new_tokens=8)
    wrong = judge([warm(range(300))], Plan(law, beside), {})
    assert not wrong.lossless
    assert wrong.mean_tv_lower > 0
    filtered = Specproof(target, draft, [(0,)], Processor(top_k=3), max_new_tokens=8)
    assert not judge([filtered(range(500))], Plan(law), {}).lossless


def test_greedy_engines() -> None:
    target, draft = pair(torch.float32)
    law = ModelTarget(target, Processor(), target.width)
    engine = Specproof(target, draft, [(0,), (2, 1)], Processor(temperature=0), max_new_tokens=12)
    found = judge_greedy([engine(range(2))], law, "float32", 8.0, ())
    assert found.lossless
    assert found.counts["argmax"] == 24
    other = ModelTarget(draft, Processor(), target.width)
    wrong = judge_greedy([engine(range(2))], other, "float32", 8.0, ())
    assert not wrong.lossless
    assert wrong.verdict.startswith("NOT GREEDY: sample ")
    huggingface = Transformers(
        target, draft, [(0,)], Processor(temperature=0), "assisted", gamma=3, max_new_tokens=12
    )
    assert judge_greedy([huggingface(range(1))], law, "float32", 8.0, ()).lossless


def test_settings_that_no_engine_takes() -> None:
    target, draft = pair()
    with pytest.raises(ValueError, match="unknown method 'magic'"):
        Transformers(target, draft, [(0,)], Processor(), "magic")
    with pytest.raises(ValueError, match="needs a draft model"):
        Transformers(target, None, [(0,)], Processor(), "assisted")
    with pytest.raises(ValueError, match="temperature, top-k and top-p only"):
        Transformers(target, draft, [(0,)], Processor(min_p=0.1))
    with pytest.raises(ValueError, match="vLLM is not installed"):
        VLLM("m", [(0,)])(range(1))
