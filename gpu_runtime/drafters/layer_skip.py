"""Self-drafting: the target itself, with some of its layers left out.

The draft model is the target's own embedding, chosen layers, final norm and output layer; weights
are shared, nothing is trained. Keeping the first k layers is early exit (LayerSkip, 2404.16710);
leaving out layers in the middle is Draft & Verify (2309.08168). Rows are those of the shortened
network, drafts are drawn from them, and verification makes the text exact whatever was skipped.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import nn

from gpu_runtime.drafters.model import ModelDrafter
from gpu_runtime.models import LanguageModel


class LayerSkipDrafter(ModelDrafter):
    """Draft with the target's first ``layers`` layers, or with the listed ones.

    Raises:
        ValueError: no layer, one that does not exist, or a model whose layers cannot be found.
    """

    name = "layer_skip"

    def __init__(self, target: LanguageModel, layers: int | Sequence[int]) -> None:
        kept = range(layers) if isinstance(layers, int) else sorted(set(layers))
        super().__init__(shortened(target, list(kept)))


def shortened(model: LanguageModel, kept: Sequence[int]) -> LanguageModel:
    """The same network with the layers ``kept`` only, on the same weights.

    Raises:
        ValueError: as ``LayerSkipDrafter``.
    """
    body = getattr(model.model, model.model.base_model_prefix, None)
    layers = getattr(body, "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise ValueError(f"{model.name}: its layers cannot be found; use a drafter of its own")
    if not kept or not 0 <= kept[0] <= kept[-1] < len(layers):
        raise ValueError(
            f"layers {list(kept)} of {model.name} asked for; keep some of 0 to {len(layers) - 1}"
        )
    short = _shallow(model.model)
    inner = _shallow(body)
    inner.layers = nn.ModuleList(_renumbered(layers[i], place) for place, i in enumerate(kept))
    inner.config = short.config = _config(model.model.config, kept)
    setattr(short, model.model.base_model_prefix, inner)
    name = f"{model.name} ({len(kept)} of {len(layers)} layers)"
    return LanguageModel(short, model.tokenizer, model.vocab_size, name=name)


def _shallow(module: Any) -> Any:
    """A copy that shares parameters and submodules but can have others put in their place."""
    copied = copy.copy(module)
    copied.__dict__ = {**module.__dict__, "_modules": dict(module._modules)}
    return copied


def _renumbered(layer: Any, place: int) -> Any:
    """The layer as number ``place``, which is where its keys and values are cached."""
    copied = _shallow(layer)
    for name, part in layer._modules.items():
        if hasattr(part, "layer_idx"):
            copied._modules[name] = _shallow(part)
            copied._modules[name].layer_idx = place
    if hasattr(copied, "layer_idx"):
        copied.layer_idx = place
    return copied


def _config(config: Any, kept: Sequence[int]) -> Any:
    shorter = copy.copy(config)
    types = getattr(config, "layer_types", None)
    if types is not None:
        shorter.layer_types = [types[i] for i in kept]
    shorter.num_hidden_layers = len(kept)
    return shorter
