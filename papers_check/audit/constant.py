"""Networks whose every row is one given law: real models for two-line examples.

With one embedding for all tokens every position carries the same values, so attention returns the
same vector whatever the text; the last matrix then fixes the logits. The path through a real
library is the ordinary one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gpu_runtime.models import LanguageModel
from gpu_runtime.zoo import tiny


def constant_model(law: Sequence[float], name: str = "constant") -> LanguageModel:
    """A two-layer Llama in float64 with the row ``law`` after every prefix.

    Raises:
        ValueError: fewer than two tokens, or a law that is not positive.
    """
    p = np.asarray(law, dtype=np.float64)
    if (p <= 0).any() or abs(p.sum() - 1) > 1e-9:
        raise ValueError(f"{list(law)} is not a positive law; give probabilities that sum to 1")
    model = tiny(len(p))
    network = model.model
    with torch.no_grad():
        embedding = network.get_input_embeddings().weight
        embedding.copy_(embedding[:1].expand_as(embedding))
        hidden = network.model(torch.zeros(1, 1, dtype=torch.long)).last_hidden_state[0, 0]
        logits = torch.from_numpy(np.log(p))
        head = network.get_output_embeddings().weight
        head.copy_(logits[:, None] * hidden / hidden.dot(hidden))
    return LanguageModel(network, model.tokenizer, len(p), name=name)
