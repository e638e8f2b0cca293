"""A smaller language model as drafter: K independent drafts, drawn token by token.

The K drafts of a request are branches of one tree in the draft model's cache: they share the
committed entries and are hidden from each other. Step i feeds the K tokens of step i - 1; the last
drafted token is never fed, so after full acceptance the cache lacks it, and after rounds without
drafts it lacks more. Every round therefore starts by feeding whatever committed tokens are missing.

    entries before the rewind: L + K (gamma - 1);    kept: L + min(tau, gamma - 1)

with L committed tokens when the round starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.drafters import Proposal, Setting, nothing
from gpu_runtime.kv_cache import Bools, Ints
from gpu_runtime.models import LanguageModel, chain_path, check_vocabularies, pad_rows
from gpu_runtime.random_streams import Stream, tape
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import draw, fit_vocabulary, require_laws
from gpu_runtime.windows import DraftView

CATCH_UP = 4
"""A cache that is further behind reads without computing logits first."""


class ModelDrafter:
    """Drafts from a language model that shares the target's vocabulary, or the first part of it.

    A token that the draft does not know is fed as its last one: it guesses worse after it, but
    from a law that it reports, so the output law is untouched.
    """

    name = "model"

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def check(self, target: LanguageModel, length: int) -> None:
        """Vocabularies must match and ``length`` tokens fit the context.

        Raises:
            ValueError: they do not.
        """
        check_vocabularies(target, self.model)
        if length > self.model.context:
            raise ValueError(
                f"{length} tokens exceed the context of {self.model.name} ({self.model.context}); "
                "shorten the prompt or max_new_tokens"
            )

    def open(self, requests: Sequence[Request], setting: Setting) -> ModelDraftSession:
        return ModelDraftSession(self.model, requests, setting)


class ModelDraftSession:
    """The draft model's cache and the drafting loop for one batch."""

    def __init__(self, model: LanguageModel, requests: Sequence[Request], setting: Setting) -> None:
        self.model = model
        self.setting = setting
        self.cache = model.new_cache(len(requests), setting.capacity)
        model.read(self.cache, [sequence[:-1] for sequence in self._known(requests)])

    def propose(self, requests: Sequence[Request], limits: Ints) -> Proposal:
        """K drafts per request, [B, K, g]; stops early where the window says so."""
        setting, longest = self.setting, int(limits.max(initial=0))
        lengths = np.zeros(len(requests), dtype=np.int64)
        if longest == 0:
            return nothing(setting, len(requests), lengths)
        noise = self._noise(requests, longest)
        drafts = torch.zeros((len(requests), setting.num_drafts, 0), dtype=torch.long)
        drafts = drafts.to(setting.device)
        logits = self._catch_up(requests).unsqueeze(1)
        rows: list[Tensor] = []
        while True:
            rows.append(self._laws(logits, requests, drafts))
            going = self._going(DraftView(requests, rows, drafts), limits, lengths)
            if not going.any():
                rows.pop()
                break
            drafts = torch.cat([drafts, draw(rows[-1], noise[:, len(rows) - 1])[..., None]], dim=-1)
            lengths = lengths + going
            if len(rows) == longest:
                break
            logits = self._feed(drafts[..., -1])
        if not rows:
            return nothing(setting, len(requests), lengths)
        log_q = torch.stack(rows, dim=2)
        require_laws(log_q, f"{self.model.name} (draft), row [request, draft, position]")
        real = torch.arange(len(rows)) < torch.from_numpy(lengths)[:, None, None]
        return Proposal(drafts.masked_fill(~real.to(drafts.device), -1), log_q, lengths)

    def accept(self, branch: Ints, accepted: Ints) -> None:
        """Keep the entries of the accepted tokens; the last drafted token was never fed."""
        fed = self.cache.pending // self.setting.num_drafts
        path = np.arange(fed) * self.setting.num_drafts + branch[:, None]
        self.cache.commit(path, np.minimum(accepted, fed))

    def select(self, rows: Ints) -> None:
        self.cache.select(rows)

    def mark(self) -> Ints:
        return self.cache.lengths.copy()

    def rewind(self, mark: Ints) -> None:
        self.cache.restore(mark)

    def _noise(self, requests: Sequence[Request], longest: int) -> Tensor:
        drafts = self.setting.num_drafts
        uniforms = tape(
            [request.key for request in requests],
            Stream.DRAFT,
            [len(request.sequence) for request in requests],
            longest * drafts,
        )
        noise = torch.from_numpy(uniforms.reshape(len(requests), longest, drafts))
        return noise.to(self.setting.device)

    def _known(self, requests: Sequence[Request]) -> list[list[int]]:
        """The committed tokens, as far as the draft's vocabulary goes."""
        sequences = [request.sequence for request in requests]
        last = self.model.vocab_size - 1
        if last + 1 >= self.setting.width:
            return sequences
        return [[min(token, last) for token in sequence] for sequence in sequences]

    def _catch_up(self, requests: Sequence[Request]) -> Tensor:
        """Feed the committed tokens that the cache lacks; logits of the last one, [B, width]."""
        sequences = self._known(requests)
        totals = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        if int((totals - self.cache.lengths).max()) > CATCH_UP:
            self.model.read(self.cache, [sequence[:-1] for sequence in sequences])
        missing = totals - self.cache.lengths
        tokens, chain = pad_rows(
            [s[n:] for s, n in zip(sequences, self.cache.lengths.tolist(), strict=True)]
        )
        logits = self.model.extend(self.cache, tokens, chain)
        self.cache.commit(chain_path(len(requests), len(chain)), missing)
        last = torch.from_numpy(missing - 1).to(logits.device)
        return logits[torch.arange(len(requests), device=logits.device), last]

    def _feed(self, tokens: Tensor) -> Tensor:
        """One more token on each branch, [B, K]; the logits after it, [B, K, width]."""
        drafts, before = self.setting.num_drafts, self.cache.pending
        first = before - drafts if before else -1
        parents = [first + k if before else -1 for k in range(drafts)]
        return self.model.extend(self.cache, tokens, parents)

    def _laws(self, logits: Tensor, requests: Sequence[Request], drafts: Tensor) -> Tensor:
        """The processed laws [B, K, V] after the tokens so far."""
        setting = self.setting
        logits = fit_vocabulary(logits, self.model.vocab_size, setting.width).to(setting.device)
        context = None
        if setting.processor.needs_context:
            logits = logits.expand(-1, setting.num_drafts, -1)
            context = contexts(requests, drafts, setting.stop)
        rows = setting.processor(logits.to(setting.dtype), context)
        return rows.expand(-1, setting.num_drafts, -1)

    def _going(self, view: DraftView, limits: Ints, lengths: Ints) -> Bools:
        """Which requests draw another token: those still drafting, below their limit, willing."""
        step = len(view.rows) - 1
        going: Bools = (lengths == step) & (limits > step)
        willing = self.setting.window.wants(view) if going.any() else None
        if willing is not None:
            going &= willing
        return going
