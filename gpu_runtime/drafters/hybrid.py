"""The rule-based hybrid: a suffix draft where its score promises enough, else the model's draft.

Each round and request, the suffix cache drafts first (it costs no model step). Its score estimates
E[tau]; if that reaches ``threshold`` the suffix draft is verified as a point mass, else the model
drafts. The choice uses the text, the cache and the drafted tokens only, never a target sample, so
every verifier stays lossless. When all requests of a round draft from the cache the model does not
run at all; tokens that were committed meanwhile are fed to its cache before it drafts again, as
part of its next call, without which its acceptance would collapse.

Source: snowflakedb/ArcticInference (suffix draft iff its score is at least the model's draft
length, the default here).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gpu_runtime.drafters import Drafter, Setting
from gpu_runtime.drafters.model import ModelDrafter, ModelDraftSession
from gpu_runtime.drafters.proposals import Outcome, Proposal
from gpu_runtime.drafters.sources import point_masses
from gpu_runtime.drafters.suffix import SuffixDrafter, SuffixSource
from gpu_runtime.kv_cache import Bools, Ints
from gpu_runtime.models import LanguageModel
from gpu_runtime.requests import Request


class HybridDrafter(Drafter):
    """Suffix drafts of up to the window's maximum, model drafts of up to ``model_tokens``.

    Args:
        threshold: least score of a suffix draft; None for ``model_tokens``. Near the end of the
            budget, the number of tokens still wanted is enough.

    Raises:
        ValueError: model_tokens below 1.
    """

    name = "hybrid"

    def __init__(
        self,
        model: LanguageModel | ModelDrafter,
        suffix: SuffixDrafter | None = None,
        model_tokens: int = 4,
        threshold: float | None = None,
    ) -> None:
        if model_tokens < 1:
            raise ValueError(f"model_tokens {model_tokens} must be 1 or more")
        self.model = model if isinstance(model, ModelDrafter) else ModelDrafter(model)
        self.suffix = suffix or SuffixDrafter()
        self.model_tokens = model_tokens
        self.threshold = float(model_tokens) if threshold is None else threshold

    def check(self, target: Any, length: int) -> None:
        """As the model drafter's.

        Raises:
            ValueError: vocabularies that do not match, or a context that is too short.
        """
        self.model.check(target, length)

    def open(self, requests: Sequence[Request], setting: Setting) -> HybridSession:
        return HybridSession(self, requests, setting)


class HybridSession:
    """Both drafters at work on a batch."""

    def __init__(
        self, drafter: HybridDrafter, requests: Sequence[Request], setting: Setting
    ) -> None:
        self._drafter, self._setting = drafter, setting
        self.model: ModelDraftSession = drafter.model.open(requests, setting)
        self._suffixes = drafter.suffix.open(requests, setting)
        self._cached: Bools = np.zeros(len(requests), dtype=np.bool_)

    def propose(self, requests: Sequence[Request], limits: Ints) -> Proposal:
        paths: list[list[int]] = []
        for source, request, most in zip(
            self._suffixes.sources, requests, limits.tolist(), strict=True
        ):
            paths.append(self._suffix_path(source, request, most))
        self._cached = np.array([bool(path) for path in paths])
        wanted = np.where(self._cached, 0, np.minimum(limits, self._drafter.model_tokens))
        drawn = self.model.propose(requests, wanted)
        return self._merged(drawn, point_masses(paths, self._setting))

    def accept(self, outcome: Outcome) -> None:
        drawn = np.where(self._cached, 0, outcome.accepted)
        self.model.accept(replace(outcome, accepted=drawn))

    def select(self, rows: Ints) -> None:
        self.model.select(rows)
        self._suffixes.select(rows)

    def mark(self) -> Ints:
        return self.model.mark()

    def rewind(self, mark: Ints) -> None:
        self.model.rewind(mark)

    def close(self) -> None:
        self._suffixes.close()

    def _suffix_path(self, source: SuffixSource, request: Request, most: int) -> list[int]:
        if most == 0:
            return []
        draft = source.best(request.sequence, most)
        return draft.tokens if draft.score >= min(self._drafter.threshold, most) else []

    def _merged(self, drawn: Proposal, looked_up: Proposal) -> Proposal:
        """Each request's draft from where it came."""
        longest = max(drawn.drafts.shape[-1], looked_up.drafts.shape[-1])
        cached = torch.from_numpy(self._cached).to(drawn.drafts.device)[:, None, None]
        drawn, looked_up = (_padded(proposal, longest) for proposal in (drawn, looked_up))
        return Proposal(
            torch.where(cached, looked_up.drafts, drawn.drafts),
            torch.where(cached[..., None], looked_up.log_q, drawn.log_q),
            np.where(self._cached, looked_up.lengths, drawn.lengths),
        )


def _padded(proposal: Proposal, longest: int) -> Proposal:
    """The proposal with columns for ``longest`` tokens."""
    missing = longest - proposal.drafts.shape[-1]
    if missing == 0:
        return proposal
    shape = (*proposal.drafts.shape[:2], missing)
    drafts = torch.cat([proposal.drafts, proposal.drafts.new_full(shape, -1)], dim=-1)
    rows = proposal.log_q.new_zeros((*shape, proposal.log_q.shape[-1]))
    return Proposal(drafts, torch.cat([proposal.log_q, rows], dim=2), proposal.lengths)
