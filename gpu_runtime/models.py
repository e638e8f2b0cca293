"""Hugging Face causal language models as the runtime sees them: tokens and a tree in, logits out.

Everything that depends on the transformers release or on the architecture is here: the name of the
cache argument (``past_key_values`` up to 5.23, ``cache`` from 5.24), the form of an attention mask
(one 4D tensor, or one per layer type), the argument that limits the rows of logits. Cropping is
not among it: the cache is our own (``gpu_runtime.kv_cache``), whose rollback is an integer.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.kv_cache import Ints, Parents, Plan, RowCache

PREFILL = 512
"""Prompt tokens per call while a prompt is read; bounds the size of the mask."""


class LanguageModel:
    """A causal LM with explicit positions and masks.

    Args:
        model: a transformers causal LM with attention layers only, in ``sdpa`` or ``eager`` mode.
        tokenizer: optional; used by ``encode``, ``decode`` and to compare vocabularies.
        vocab_size: the number of real token ids; ids from there on are padding. Default: the
            tokenizer's length, else the configuration's ``vocab_size``.
        name: how error messages call the model.

    Raises:
        ValueError: an architecture or attention mode that hides its cache or its mask.
    """

    def __init__(
        self, model: Any, tokenizer: Any = None, vocab_size: int | None = None, name: str = "model"
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.name = name
        config = model.config.get_text_config()
        arguments = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in arguments else "past_key_values"
        self._limits_logits = "logits_to_keep" in arguments
        self._check(config, arguments)
        self.width = int(config.vocab_size)
        known = vocab_size or (len(tokenizer) if tokenizer is not None else self.width)
        self.vocab_size = min(int(known), self.width)
        self.context = int(getattr(config, "max_position_embeddings", None) or 2**31)
        self._window = _sliding_window(config)
        self._layer_types = set(getattr(config, "layer_types", None) or ())
        self._additive = config._attn_implementation == "eager"

    def _check(self, config: Any, arguments: Any) -> None:
        supported = {"full_attention", "sliding_attention"}
        foreign = set(getattr(config, "layer_types", None) or ()) - supported
        if foreign:
            raise ValueError(
                f"{self.name}: layers of type {sorted(foreign)} keep a state that cannot be rolled "
                "back; use a model with attention layers only"
            )
        if "position_ids" not in arguments or self._cache_argument not in arguments:
            raise ValueError(f"{self.name}: forward() takes no positions or cache; not supported")
        if config._attn_implementation not in ("sdpa", "eager"):
            raise ValueError(
                f"{self.name}: attention {config._attn_implementation!r} takes no explicit mask; "
                "load the model with attn_implementation='sdpa' or 'eager'"
            )

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.device)

    @property
    def law_dtype(self) -> torch.dtype:
        """The dtype of the laws made from its logits: float64, or float32 for anything smaller."""
        return torch.float64 if self.model.dtype == torch.float64 else torch.float32

    @property
    def eos(self) -> tuple[int, ...]:
        """The ids that end a text, as the model's own configuration names them."""
        generation = getattr(self.model, "generation_config", None)
        named = getattr(generation or self.model.config, "eos_token_id", None)
        return () if named is None else tuple([named] if isinstance(named, int) else named)

    def new_cache(self, rows: int, capacity: int) -> RowCache:
        return RowCache(rows, capacity)

    @torch.no_grad()
    def extend(
        self, cache: RowCache, tokens: Tensor, parents: Parents, keep: int | None = None
    ) -> Tensor:
        """Append ``tokens`` [B, n] to the pending tree of each row; logits [B, n, width].

        ``parents`` are the nodes that the new ones follow, for all rows or [B, n] (-1: the
        committed end). ``keep`` limits the logits to those of the last ``keep`` tokens. On failure
        the cache is as before.
        """
        plan = cache.plan(parents)
        arguments: dict[str, Any] = {self._cache_argument: cache}
        if keep is not None and self._limits_logits:
            arguments["logits_to_keep"] = keep
        try:
            logits: Tensor = self.model(
                input_ids=tokens.to(self.device),
                position_ids=torch.from_numpy(plan.positions).to(self.device),
                attention_mask=self._mask(plan),
                use_cache=True,
                **arguments,
            ).logits
        except BaseException:
            cache.abandon()
            raise
        return logits if keep is None else logits[:, -keep:]

    def extend_with_hidden(
        self, cache: RowCache, tokens: Tensor, parents: Parents
    ) -> tuple[Tensor, Tensor]:
        """As ``extend``, and the last hidden states (what the output layer reads), [B, n, d]."""
        kept: list[Tensor] = []
        head = self.model.get_output_embeddings()
        hook = head.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0]))
        try:
            logits = self.extend(cache, tokens, parents)
        finally:
            hook.remove()
        return logits, kept[0]

    def read(self, cache: RowCache, sequences: Sequence[Sequence[int]]) -> None:
        """Commit the part of each row's sequence that its cache lacks; no logits are returned."""
        behind = np.array([len(s) for s in sequences], dtype=np.int64) - cache.lengths
        while int(behind.max(initial=0)) > 0:
            counts = np.clip(behind, 0, PREFILL)
            tokens, chain = pad_rows(
                [s[n : n + c] for s, n, c in zip(sequences, cache.lengths, counts, strict=True)]
            )
            self.extend(cache, tokens, chain, keep=1)
            cache.commit(chain_path(len(sequences), len(chain)), counts)
            behind = behind - counts

    def _mask(self, plan: Plan) -> Tensor | dict[str, Tensor]:
        if self._window is None:
            return self._tensor(plan.visible)
        sliding = self._tensor(plan.within(self._window))
        if "sliding_attention" not in self._layer_types:
            return sliding
        return {"full_attention": self._tensor(plan.visible), "sliding_attention": sliding}

    def _tensor(self, visible: np.ndarray[Any, np.dtype[np.bool_]]) -> Tensor:
        mask = torch.from_numpy(visible).to(self.device).unsqueeze(1)
        if not self._additive:
            return mask
        hidden = torch.finfo(self.model.dtype).min
        return torch.zeros_like(mask, dtype=self.model.dtype).masked_fill_(~mask, hidden)

    def encode(self, text: str) -> list[int]:
        """Token ids of a prompt, with the tokenizer's own special tokens."""
        return [int(token) for token in self._need_tokenizer().encode(text)]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of generated tokens."""
        return str(self._need_tokenizer().decode(list(tokens)))

    def _need_tokenizer(self) -> Any:
        if self.tokenizer is None:
            raise ValueError(f"{self.name} has no tokenizer; pass token ids instead of text")
        return self.tokenizer


def pad_rows(rows: Sequence[Sequence[int]]) -> tuple[Tensor, list[int]]:
    """Ragged rows as ids [B, n], padded with 0 at the end, and the parents of a chain of n."""
    n = max(len(row) for row in rows)
    tokens = torch.tensor([list(row) + [0] * (n - len(row)) for row in rows], dtype=torch.long)
    return tokens, list(range(-1, n - 1))


def chain_path(rows: int, n: int) -> Ints:
    """The path of nodes 0..n-1 for every row, [rows, n]."""
    return np.tile(np.arange(n, dtype=np.int64), (rows, 1))


def check_vocabularies(target: LanguageModel, draft: LanguageModel) -> None:
    """Check that a draft's token ids mean the same to the target.

    A draft may know fewer ids than the target; its laws are then extended with zeros.

    Raises:
        ValueError: the draft knows more real ids, or an id stands for different tokens.
    """
    if draft.vocab_size > target.vocab_size:
        raise ValueError(
            f"{draft.name} has {draft.vocab_size} tokens, {target.name} only {target.vocab_size}; "
            "use a draft with the target's vocabulary (or pass the real vocab_size if it is padded)"
        )
    if None in (target.tokenizer, draft.tokenizer) or target.tokenizer is draft.tokenizer:
        return
    ours = {index: token for token, index in target.tokenizer.get_vocab().items()}
    for token, index in draft.tokenizer.get_vocab().items():
        if ours.get(index) != token:
            raise ValueError(
                f"token id {index} is {token!r} for {draft.name} and {ours.get(index)!r} for "
                f"{target.name}; a draft must share the target's vocabulary"
            )


def _sliding_window(config: Any) -> int | None:
    """The window of the sliding layers, if the configuration has any."""
    types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if window is None or (types is not None and "sliding_attention" not in types):
        return None
    return int(window)
