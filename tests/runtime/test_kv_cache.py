"""The cache: every row equals its own plain forward pass, whatever the batch and the rollbacks."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from gpu_runtime.kv_cache import RowCache
from gpu_runtime.models import PREFILL, LanguageModel, chain_path, pad_rows

SHAPE: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
    "pad_token_id": 0,
}
SLIDING = ["full_attention", "sliding_attention"]


def llama(**extra: Any) -> Any:
    return LlamaForCausalLM(LlamaConfig(**SHAPE, **extra))


ARCHITECTURES: dict[str, Callable[[], Any]] = {
    "llama": llama,
    "llama-eager": lambda: llama(attn_implementation="eager"),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE)),
    "mistral-sliding": lambda: MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=3)),
    "gemma3-sliding": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(**SHAPE, sliding_window=3, layer_types=SLIDING)
    ),
    "qwen2-sliding": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SHAPE, sliding_window=3, use_sliding_window=True, layer_types=SLIDING)
    ),
}


def build(name: str, dtype: torch.dtype = torch.float64) -> LanguageModel:
    torch.manual_seed(1)
    return LanguageModel(ARCHITECTURES[name]().to(dtype), name=name)


def plain(model: LanguageModel, tokens: Sequence[int]) -> torch.Tensor:
    """Logits of a forward pass without any cache."""
    with torch.no_grad():
        return model.model(torch.tensor([list(tokens)]), use_cache=False).logits[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_branches_of_ragged_rows_equal_plain_passes(name: str, dtype: torch.dtype) -> None:
    model = build(name, dtype)
    tolerance = 1e-11 if dtype == torch.float64 else 2e-4
    sequences = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 10, 1, 2]]
    drafts = torch.tensor([[[3, 4], [5, 6]], [[7, 8], [7, 9]], [[1, 1], [2, 2]]])  # [B, K, g]
    cache = model.new_cache(3, 16)
    model.read(cache, [s[:-1] for s in sequences])
    assert cache.lengths.tolist() == [6, 0, 3]
    nodes = torch.cat([torch.tensor([[7], [8], [2]]), drafts.transpose(1, 2).reshape(3, 4)], dim=1)
    logits = model.extend(cache, nodes, [-1, 0, 0, 1, 2])
    assert cache.entries.tolist() == [11, 5, 8]
    for b, sequence in enumerate(sequences):
        for k in range(2):
            expected = plain(model, [*sequence, *drafts[b, k].tolist()])[len(sequence) - 1 :]
            got = logits[b, [0, 1 + k, 3 + k]]
            torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", ["llama", "gemma3-sliding"])
def test_a_kept_branch_goes_on_as_if_it_had_been_fed_alone(name: str) -> None:
    model = build(name)
    cache = model.new_cache(2, 24)
    sequences = [[1, 2, 3], [4, 5, 6, 7, 8]]
    model.read(cache, [s[:-1] for s in sequences])
    nodes = torch.tensor([[3, 1, 2, 3, 4], [8, 5, 6, 7, 8]])
    model.extend(cache, nodes, [-1, 0, 0, 1, 2])
    cache.commit(np.array([[0, 2, 4], [0, 1, 3]]), np.array([3, 2]))
    assert cache.lengths.tolist() == [5, 6]
    assert cache.pending == 0
    logits = model.extend(cache, torch.tensor([[9, 10], [9, 10]]), [-1, 0])
    for b, history in enumerate(([1, 2, 3, 2, 4], [4, 5, 6, 7, 8, 5])):
        expected = plain(model, [*history, 9, 10])[-2:]
        torch.testing.assert_close(logits[b], expected, atol=1e-11, rtol=1e-11)


def test_rows_can_leave_and_change_places() -> None:
    model = build("llama")
    cache = model.new_cache(3, 12)
    model.read(cache, [[1, 2], [3, 4, 5], [6]])
    cache.select(np.array([2, 1]))
    assert cache.lengths.tolist() == [1, 3]
    logits = model.extend(cache, torch.tensor([[7], [7]]), [-1])
    for b, history in enumerate(([6, 7], [3, 4, 5, 7])):
        torch.testing.assert_close(logits[b], plain(model, history)[-1:], atol=1e-11, rtol=1e-11)


def test_stale_entries_are_invisible_and_cleared_after_a_failure() -> None:
    model = build("llama")
    cache = model.new_cache(2, 8)
    model.read(cache, [[1, 2, 3], [5, 6, 7, 8, 9]])
    model.extend(cache, torch.tensor([[9, 9], [9, 9]]), [-1, 0])
    cache.discard()
    expected = plain(model, [1, 2, 3, 4])[-1:]
    logits = model.extend(cache, torch.tensor([[4], [4]]), [-1])[0]
    torch.testing.assert_close(logits, expected, atol=1e-11, rtol=1e-11)
    for store in (*cache.keys, *cache.values):
        store[0, :, 3:] = torch.nan  # a masked NaN still poisons a sum: 0 * NaN
    cache.restore(np.array([3, 5]))
    logits = model.extend(cache, torch.tensor([[4], [4]]), [-1])[0]
    torch.testing.assert_close(logits, expected, atol=1e-11, rtol=1e-11)


def test_a_rollback_cuts_the_sequence_axis() -> None:
    cache = RowCache(2, 6)
    cache.plan([-1, 0, 1, 2, 3, 4])
    keys = torch.randn(2, 4, 6, 4)
    cache.update(keys, keys, 0)
    cache.commit(chain_path(2, 6), np.array([6, 6]))
    cache.restore(np.array([5, 5]))
    cache.plan([-1])
    kept, _ = cache.update(keys[:, :, :1], keys[:, :, :1], 0)
    assert kept.shape == (2, 4, 6, 4)
    assert (kept[:, :, :5] == keys[:, :, :5]).all()
    assert (kept[:, :, 5] == keys[:, :, 0]).all()


def test_a_failing_forward_leaves_the_tree_as_it_was() -> None:
    model = build("llama")
    cache = model.new_cache(1, 8)
    model.read(cache, [[1, 2]])
    with pytest.raises(IndexError):
        model.extend(cache, torch.tensor([[99]]), [-1])
    assert (cache.pending, cache.lengths.tolist()) == (0, [2])


def test_long_prompts_are_read_in_parts() -> None:
    torch.manual_seed(1)
    shape = SHAPE | {"max_position_embeddings": 2 * PREFILL}
    model = LanguageModel(LlamaForCausalLM(LlamaConfig(**shape)).double())
    prompt = [token % 11 for token in range(PREFILL + 30)]
    cache = model.new_cache(2, PREFILL + 40)
    model.read(cache, [prompt, prompt[:5]])
    assert cache.lengths.tolist() == [PREFILL + 30, 5]
    logits = model.extend(cache, torch.tensor([[1], [1]]), [-1])
    expected = plain(model, [*prompt, 1])[-1:]
    torch.testing.assert_close(logits[0], expected, atol=1e-9, rtol=1e-9)


def test_bad_use_is_refused() -> None:
    cache = RowCache(1, 3)
    with pytest.raises(ValueError, match="capacity of 3"):
        cache.plan([-1, 0, 1, 2])
    with pytest.raises(ValueError, match="parent 1 of node 1"):
        cache.plan([-1, 1])
    cache.plan([-1, -1])
    with pytest.raises(ValueError, match="not a chain"):
        cache.commit(np.array([[0, 1]]), np.array([2]))


def test_unsupported_models_are_refused() -> None:
    model = llama()
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="takes no explicit mask"):
        LanguageModel(model)
    model = llama()
    model.config.layer_types = ["linear_attention", "full_attention"]
    with pytest.raises(ValueError, match="cannot be rolled back"):
        LanguageModel(model)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_both_names_of_the_cache_argument_are_understood(name: str) -> None:
    seen: dict[str, object] = {}

    class Renamed:
        """A model of another transformers release, by its signature."""

        def __init__(self, inner: Any) -> None:
            self.inner, self.config, self.dtype = inner, inner.config, inner.dtype
            self.device = inner.device

        def eval(self) -> "Renamed":
            return self

        def __call__(self, **arguments: Any) -> Any:
            seen.update(arguments)
            own = LanguageModel(self.inner)._cache_argument
            arguments[own] = arguments.pop(name)
            return self.inner(**arguments)

        if name == "cache":

            def forward(self, input_ids: Any, position_ids: Any, cache: Any) -> None: ...

        else:

            def forward(self, input_ids: Any, position_ids: Any, past_key_values: Any) -> None: ...

    torch.manual_seed(1)
    inner = llama().double()
    model = LanguageModel(Renamed(inner))
    cache = model.new_cache(1, 4)
    tokens, chain = pad_rows([[1, 2, 3]])
    logits = model.extend(cache, tokens, chain, keep=1)
    assert seen[name] is cache
    expected = plain(LanguageModel(inner), [1, 2, 3])[-1:]
    torch.testing.assert_close(logits[0], expected, atol=1e-11, rtol=1e-11)
