"""Random-weight pairs of the cost of real models, whose next-token law depends on one token alone.

The attention output of every layer is multiplied by zero: all of it is computed, none of it counts,
so a model of any size is a Markov chain of order 1 whose transition matrix is one forward pass over
the vocabulary. The draft is the first layers of the target with the same embedding and head; the
later layers add ``SPREAD`` of noise to what it knows.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gpu_runtime.models import LanguageModel

SHARPNESS, SPREAD = 2.0, 0.35
"""Standard deviation of logits within a row; of the later layers' part of the hidden state, over
that of the embedding."""
MLP_GAIN = 0.35
"""Standard deviation of what one layer adds, before its own factor."""


class Size(NamedTuple):
    """Dimensions of the target; the draft has its first ``draft_layers`` layers."""

    hidden: int
    layers: int
    draft_layers: int
    heads: int
    dtype: torch.dtype


LARGE = Size(2048, 24, 2, 16, torch.bfloat16)
SMALL = Size(64, 4, 1, 4, torch.float32)


def random_pair(
    size: Size, vocab: int, device: torch.device, context: int = 1024, seed: int = 0
) -> tuple[LanguageModel, LanguageModel]:
    """The target and its draft, on the device."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=size.hidden,
        intermediate_size=4 * size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    with device:
        target: Any = LlamaForCausalLM(config)
    target.to(size.dtype)
    _randomise(target, size, torch.Generator(device).manual_seed(seed))
    draft = copy.copy(target)
    draft._modules = dict(target._modules)
    draft.model = copy.copy(target.model)
    draft.model._modules = dict(target.model._modules)
    draft.model.layers = nn.ModuleList(target.model.layers[: size.draft_layers])
    draft.config = draft.model.config = copy.deepcopy(target.config)
    draft.config.num_hidden_layers = size.draft_layers
    draft.generation_config = copy.deepcopy(target.generation_config)
    models = (target, "random target"), (draft, "random draft")
    pair = [LanguageModel(model, None, vocab, name=name) for model, name in models]
    return pair[0], pair[1]


@torch.no_grad()
def _randomise(model: Any, size: Size, generator: torch.Generator) -> None:
    def fill(weight: Tensor, scale: float) -> None:
        weight.normal_(0.0, scale, generator=generator)

    later = size.layers - size.draft_layers
    fill(model.model.embed_tokens.weight, 1.0)
    fill(model.lm_head.weight, SHARPNESS / size.hidden**0.5)
    for number, layer in enumerate(model.model.layers):
        for part in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            fill(part.weight, size.hidden**-0.5)
        layer.self_attn.o_proj.weight.zero_()
        for part in (layer.mlp.gate_proj, layer.mlp.up_proj):
            fill(part.weight, size.hidden**-0.5)
        gain = 1.0 if number < size.draft_layers else SPREAD / (MLP_GAIN * max(later, 1) ** 0.5)
        fill(layer.mlp.down_proj.weight, gain * (4 * size.hidden) ** -0.5)


def transitions(model: LanguageModel) -> NDArray[np.float64]:
    """The next-token law after every token, [V, V]."""
    tokens = torch.arange(model.vocab_size)[:, None]
    cache = model.new_cache(model.vocab_size, 1)
    logits = model.extend(cache, tokens, [-1])[:, 0]
    rows = torch.softmax(logits.double(), dim=-1).cpu().numpy()
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))
