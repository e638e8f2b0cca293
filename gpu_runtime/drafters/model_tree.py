"""A tree of the draft model's likeliest tokens, grown level by level, one draft call a level.

The shape is a list of *choices*: paths of ranks, where (0, 2) is the third likeliest token after
the likeliest first one (Medusa, 2401.10774; EAGLE's fixed trees). ``branching`` b1, b2, .. is the
full tree with b_i children at every node of depth i - 1. The tree is a function of the text, so
its nodes are point masses; ranks go by the rows before temperature and filters (at temperature 0
a row would have one candidate), ties to the lower token, and tokens that may not occur at all are
left out with what would hang below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.drafters import Drafter, Setting
from gpu_runtime.drafters.model import ModelDrafter, ModelDraftSession
from gpu_runtime.drafters.proposals import Outcome, TreeProposal
from gpu_runtime.kv_cache import Ints
from gpu_runtime.models import LanguageModel
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import fit_vocabulary, require_laws
from gpu_runtime.tree_rules import bad_choices


class ModelTreeDrafter(Drafter):
    """Draft the tree of the given ``choices``, or the full one of ``branching``.

    Raises:
        ValueError: no choices, or one that cannot be drafted.
    """

    name = "model_tree"
    trees = True

    def __init__(
        self,
        model: LanguageModel,
        branching: Sequence[int] = (3, 2, 1),
        choices: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.model = model
        listed = full_tree(branching) if choices is None else [tuple(path) for path in choices]
        self.choices = sorted(set(listed), key=lambda path: (len(path), path))
        if not self.choices:
            raise ValueError(f"branching {branching}, choices {choices}: the tree has no node")
        outside, orphans = bad_choices(self.choices, len(self.choices), model.vocab_size)
        if outside or orphans:
            raise ValueError(
                f"choices {outside} name no candidate, {orphans} lack their parent; list every "
                f"prefix of a path, with ranks from 0 to {model.vocab_size - 1}"
            )

    def check(self, target: Any, length: int) -> None:
        """As the model drafter's.

        Raises:
            ValueError: vocabularies that do not match, or a context that is too short.
        """
        ModelDrafter(self.model).check(target, length)

    def nodes(self, gamma: int, num_drafts: int) -> int:
        return len(self.choices)

    def open(self, requests: Sequence[Request], setting: Setting) -> ModelTreeSession:
        return ModelTreeSession(self, requests, setting)


def full_tree(branching: Sequence[int]) -> list[tuple[int, ...]]:
    """The choices of the tree with ``branching[i]`` children at every node of depth i."""
    ranks = [range(width) for width in branching]
    return [path for depth in range(len(ranks)) for path in product(*ranks[: depth + 1])]


class ModelTreeSession(ModelDraftSession):
    """The draft model's cache and the growing tree."""

    def __init__(
        self, drafter: ModelTreeDrafter, requests: Sequence[Request], setting: Setting
    ) -> None:
        super().__init__(drafter.model, requests, setting)
        self._choices = drafter.choices
        self._number = {path: i for i, path in enumerate(drafter.choices)}

    def propose(self, requests: Sequence[Request], limits: Ints) -> TreeProposal:  # type: ignore[override]
        """The tree, at most ``limits`` [B] levels deep."""
        deepest = min(int(limits.max(initial=0)), len(self._choices[-1]))
        used = [path for path in self._choices if len(path) <= deepest]
        above = np.array([self._number.get(path[:-1], -1) for path in used], dtype=np.int64)
        above = np.tile(above, (len(requests), 1))
        ids = torch.full((len(requests), len(used)), -1, dtype=torch.long, device=self.model.device)
        self._fed = 0
        if not used:
            return TreeProposal(ids, above)
        logits = self._catch_up(requests)[0]
        level: list[tuple[int, ...]] = [()]
        for depth in range(1, deepest + 1):
            ranked = self._ranked(logits, requests, ids, above, level)
            place = {path: i for i, path in enumerate(level)}
            level = [path for path in used if len(path) == depth]
            numbers = [self._number[path] for path in level]
            rows = [place[path[:-1]] for path in level]
            ids[:, numbers] = ranked[:, rows, [path[-1] for path in level]]
            if depth < deepest:
                self._fed = depth
                tokens = ids[:, numbers].clamp(min=0)
                logits = self.model.extend(self.cache, tokens, above[0, numbers].tolist())
        ids = _without_orphans(ids, above)
        deep = np.array([len(path) for path in used]) > limits[:, None]
        ids = ids.masked_fill(torch.from_numpy(deep).to(ids.device), -1)
        return TreeProposal(ids.to(self.setting.device), above)

    def accept(self, outcome: Outcome) -> None:
        """Keep the entries of the accepted path, as far as it was fed."""
        self.cache.commit(outcome.path[:, : self._fed], np.minimum(outcome.accepted, self._fed))

    def _ranked(
        self,
        logits: Tensor,
        requests: Sequence[Request],
        ids: Tensor,
        above: Ints,
        level: Sequence[tuple[int, ...]],
    ) -> Tensor:
        """Tokens [B, nodes of the level, width] by falling probability; -1 where it is 0."""
        setting, processor = self.setting, self.setting.processor.plain
        logits = fit_vocabulary(logits, self.model.vocab_size, setting.width)
        context = None
        if processor.needs_context:
            rows = [self._number.get(path, -1) + 1 for path in level]
            before = TreeProposal(ids, above).before[:, rows]
            context = contexts(requests, before.to(logits.device), setting.stop)
        laws = processor(logits.to(setting.dtype), context)
        require_laws(laws, f"{self.model.name} (draft), row [request, node]")
        width = 1 + max(path[-1] for path in self._choices)
        best = laws.sort(dim=-1, descending=True, stable=True)
        tokens = best.indices[..., :width]
        return tokens.masked_fill(best.values[..., :width] == -torch.inf, -1)


def _without_orphans(ids: Tensor, above: Ints) -> Tensor:
    """``ids`` with the nodes below a missing one missing too."""
    for node in range(ids.shape[1]):
        parent = int(above[0, node])
        if parent >= 0:
            ids[:, node] = torch.where(ids[:, parent] < 0, -1, ids[:, node])
    return ids
