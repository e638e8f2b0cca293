"""Self-drafting by skipped layers, and the hybrid of suffix cache and model."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from gpu_runtime.drafters.hybrid import HybridDrafter
from gpu_runtime.drafters.layer_skip import LayerSkipDrafter, shortened
from gpu_runtime.drafters.model import ModelDrafter
from gpu_runtime.drafters.suffix import SuffixDrafter
from gpu_runtime.drafters.suffix_cache import SuffixCache
from gpu_runtime.drafters.suffix_draft import Limits
from gpu_runtime.engine import decode
from gpu_runtime.models import LanguageModel
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Round
from tests.runtime.exact import PROMPT, VOCAB, compare, rows_of, runs, trees
from tests.runtime.tools import PROMPTS, pair
from theory.effects import Effects
from theory.models import Prefix, rows_after
from theory.verifiers.common import Round as Outcome
from theory.verifiers.common import load_program

COPYING = [0, 1, 2, 3, 0, 1, 2]


def test_skipped_layers_leave_the_target_alone() -> None:
    target = pair()[0]
    before = [layer.self_attn.layer_idx for layer in target.model.model.layers]
    tokens = torch.tensor([PROMPT])
    with torch.no_grad():
        whole = target.model(tokens, output_hidden_states=True)
        short = shortened(target, [0]).model(tokens).logits
        all_layers = shortened(target, [0, 1]).model(tokens).logits
        body = target.model.model
        exit_early = target.model.lm_head(body.norm(whole.hidden_states[1]))
    torch.testing.assert_close(short, exit_early, atol=1e-12, rtol=0)
    torch.testing.assert_close(all_layers, whole.logits, atol=1e-12, rtol=0)
    assert [layer.self_attn.layer_idx for layer in target.model.model.layers] == before
    assert shortened(target, [1]).model.model.layers[0].self_attn.layer_idx == 0
    shared = shortened(target, [1]).model.model.layers[0].mlp.gate_proj.weight
    assert shared is target.model.model.layers[1].mlp.gate_proj.weight


def test_layers_are_checked() -> None:
    target = pair()[0]
    for kept in (0, 3, [-1], [0, 2], []):
        with pytest.raises(ValueError, match="keep some of 0 to 1"):
            LayerSkipDrafter(target, kept)
    config = GPT2Config(vocab_size=4, n_positions=16, n_embd=8, n_layer=1, n_head=1)
    with pytest.raises(ValueError, match="layers cannot be found"):
        LayerSkipDrafter(LanguageModel(GPT2LMHeadModel(config), name="gpt2"), 1)


def test_self_drafted_runs_follow_the_exact_law() -> None:
    """False alarm 1e-9; total variation 0.16 is found with power 0.999."""
    target = pair(vocab=VOCAB)[0]
    drafter = LayerSkipDrafter(target, 1)
    program, tree = load_program("block"), rows_of(drafter.model, PROMPT)

    def step(fx: Effects, prefix: Prefix, _: Any, cap: int) -> tuple[Outcome, int]:
        p, q = rows_after(trees()[0], prefix), rows_after(tree, prefix)
        path: Prefix = ()
        for i in range(min(cap, 2)):
            path = (*path, fx.choose(q(path), ("draft", 0, i)))
        return program(fx, p, q, (path,)), len(path)

    got = decode(target, drafter, [PROMPT] * 5000, gamma=2, max_new_tokens=4, seeds=41)
    result = compare(got, runs(step))
    assert result.detectable_tv < 0.16
    assert not result.rejected, result


def suffix_of(text: list[int], most: int) -> tuple[list[int], float]:
    cache = SuffixCache()
    draft = cache.speculate(cache.start(text), text, Limits(most=most))
    return draft.tokens, draft.score


def test_the_score_decides_where_a_draft_comes_from() -> None:
    target, draft = pair()
    rounds: list[Round] = []
    drafter = HybridDrafter(draft, model_tokens=2, threshold=1.5)
    decode(
        target,
        drafter,
        [COPYING, [3], [3, 0, 3, 1, 3]],
        gamma=6,
        max_new_tokens=40,
        seeds=4,
        observer=rounds.append,
    )
    origins = set()
    for done in rounds:
        for row, request in enumerate(done.requests):
            text = request.sequence[: done.positions[row]]
            room = 40 - (len(text) - request.prompt_length) - 1
            path, score = suffix_of(text, min(6, room)) if room else ([], 0.0)
            drafted = done.proposal.drafts[row, 0, : done.proposal.lengths[row]].tolist()
            cached = score >= min(1.5, room) > 0
            origins.add(cached)
            if cached:
                assert drafted == path
                assert (done.proposal.log_q[row, 0, : len(path)].exp().amax(-1) == 1).all()
            else:
                assert len(drafted) == min(2, room)
                assert (done.proposal.log_q[row, 0, : len(drafted)].exp().amax(-1) < 1).all()
    assert origins == {True, False}


def test_runs_of_the_hybrid_follow_the_exact_law() -> None:
    """False alarm 1e-9; total variation 0.16 is found with power 0.999."""
    target, draft = pair(vocab=VOCAB)
    prompt = (0, 2, 1, 0, 2)
    program = load_program("token")

    def step(fx: Effects, prefix: Prefix, _: Any, cap: int) -> tuple[Outcome, int]:
        p, q = (rows_after(tree, prefix) for tree in trees(prompt))
        looked_up, score = suffix_of([*prompt, *prefix], min(cap, 3)) if cap else ([], 0.0)
        if looked_up and score >= min(0.9, cap, 3):
            path = tuple(looked_up)

            def certain(so_far: Prefix) -> Any:
                return np.eye(VOCAB)[path[len(so_far)]]

            return program(fx, p, certain, (path,)), len(path)
        path = ()
        for i in range(min(cap, 1)):
            path = (*path, fx.choose(q(path), ("draft", 0, i)))
        return program(fx, p, q, (path,)), len(path)

    got = decode(
        target,
        HybridDrafter(draft, model_tokens=1, threshold=0.9),
        [prompt] * 5000,
        verifier="token",
        gamma=3,
        max_new_tokens=4,
        seeds=42,
    )
    law = runs(step)
    assert {drafted for _, rounds in law for drafted, _ in rounds} >= {0, 1, 2}
    result = compare(got, law)
    assert result.detectable_tv < 0.16
    assert not result.rejected, result


def test_the_model_catches_up_after_rounds_of_the_cache() -> None:
    """Its rows after a stretch of cache rounds are those of a fresh cache over the same text."""
    target, draft = pair()
    greedy = Processor(temperature=0)
    rounds: list[Round] = []
    drafter = HybridDrafter(draft, model_tokens=3, threshold=3.5)
    settings: dict[str, Any] = {"processor": greedy, "gamma": 8, "max_new_tokens": 60}
    got = decode(target, drafter, [COPYING, [3, 3]], observer=rounds.append, **settings)
    plain = decode(target, None, [COPYING, [3, 3]], processor=greedy, max_new_tokens=60)
    assert [g.tokens for g in got] == [g.tokens for g in plain]
    compared, stretch = 0, {0: 0, 1: 0}
    for done in rounds:
        for row, request in enumerate(done.requests):
            length = int(done.proposal.lengths[row])
            if length > 3:
                stretch[request.index] += 1
                continue
            if stretch[request.index] and length:
                text = request.sequence[: done.positions[row]]
                with torch.no_grad():
                    expected = draft.model(torch.tensor([text])).logits[0, -1].argmax()
                assert int(done.proposal.drafts[row, 0, 0]) == int(expected)
                compared += 1
            stretch[request.index] = 0
    assert compared > 0


def test_a_shared_suffix_cache_and_a_window_reach_the_hybrid() -> None:
    target, draft = pair()
    cache = SuffixCache(requests=None)
    drafter = HybridDrafter(ModelDrafter(draft), SuffixDrafter(cache), model_tokens=2)
    decode(target, drafter, PROMPTS, max_new_tokens=10)
    assert len(cache.held) == 3
    assert cache.active == 0
    with pytest.raises(ValueError, match="model_tokens 0"):
        HybridDrafter(draft, model_tokens=0)
