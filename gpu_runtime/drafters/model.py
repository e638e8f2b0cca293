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
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.drafters import Drafter, Setting, nothing
from gpu_runtime.drafters.proposals import Outcome, Proposal
from gpu_runtime.kv_cache import Bools, Ints
from gpu_runtime.models import LanguageModel, chain_path, check_vocabularies, pad_rows
from gpu_runtime.random_streams import Stream, tape
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import draw, fit_vocabulary, require_laws
from gpu_runtime.windows import DraftView

CATCH_UP = 4
"""A cache that is further behind reads without computing logits first."""

Outputs = tuple[Tensor, Tensor | None]
"""Logits of a call, and its hidden states where the window reads them."""


@dataclass(frozen=True)
class _Seen:
    """What a round has computed so far, by position: see ``DraftView``."""

    rows: list[Tensor] = field(default_factory=list)
    plain: list[Tensor] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)

    def view(self, requests: Sequence[Request], drafts: Tensor) -> DraftView:
        return DraftView(requests, self.rows, self.plain, drafts, self.hidden)


def _answer(willing: Bools | None) -> Bools | np.bool_:
    return np.True_ if willing is None else willing


class ModelDrafter(Drafter):
    """Drafts from a language model that shares the target's vocabulary, or the first part of it.

    A token that the draft does not know is fed as its last one: it guesses worse after it, but
    from a law that it reports, so the output law is untouched.
    """

    name = "model"
    fills = True

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
        proposal = self.draw(requests, limits, [len(request.sequence) for request in requests])
        self.check_laws(proposal)
        return proposal

    def check_laws(self, proposal: Proposal) -> None:
        """Check the rows of a proposal.

        Raises:
            ValueError: one is no law.
        """
        require_laws(proposal.log_q, f"{self.model.name} (draft), row [request, draft, position]")

    def draw(self, requests: Sequence[Request], limits: Ints, positions: Sequence[int]) -> Proposal:
        """The drafts, with the noise of the given positions; their rows are not checked."""
        setting, longest = self.setting, int(limits.max(initial=0))
        lengths = np.zeros(len(requests), dtype=np.int64)
        if longest == 0:
            return nothing(setting, len(requests), lengths)
        noise = self._noise(requests, positions, longest)
        shape = (len(requests), setting.num_drafts, 0)
        drafts = torch.zeros(shape, dtype=torch.long, device=setting.device)
        seen = _Seen()
        going: Bools = limits > 0
        self._look(seen, self._catch_up(requests), requests, drafts)
        while True:
            going &= _answer(setting.window.wants(seen.view(requests, drafts)))
            if not going.any():
                break
            step = len(seen.rows) - 1
            drafts = torch.cat([drafts, draw(seen.rows[step], noise[:, step])[..., None]], dim=-1)
            lengths = lengths + going
            going = going & (limits > lengths)
            if going.any():
                going &= _answer(setting.window.goes_on(seen.view(requests, drafts)))
            if not going.any():
                break
            self._look(seen, self._feed(drafts[..., -1]), requests, drafts)
        if drafts.shape[-1] == 0:
            return nothing(setting, len(requests), lengths)
        log_q = torch.stack(seen.rows[: drafts.shape[-1]], dim=2)
        real = torch.arange(drafts.shape[-1]) < torch.from_numpy(lengths)[:, None, None]
        return Proposal(drafts.masked_fill(~real.to(drafts.device), -1), log_q, lengths)

    def accept(self, outcome: Outcome) -> None:
        """Keep the entries of the accepted tokens; the last drafted token may not have been fed."""
        fed = self.cache.pending // self.setting.num_drafts
        self.cache.commit(outcome.path[:, :fed], np.minimum(outcome.accepted, fed))

    def select(self, rows: Ints) -> None:
        self.cache.select(rows)

    def mark(self) -> Ints:
        return self.cache.lengths.copy()

    def rewind(self, mark: Ints) -> None:
        self.cache.restore(mark)

    def close(self) -> None:
        """Nothing outlives the session."""

    def _noise(self, requests: Sequence[Request], positions: Sequence[int], longest: int) -> Tensor:
        drafts = self.setting.num_drafts
        uniforms = tape(
            [request.key for request in requests],
            Stream.DRAFT,
            positions,
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

    def _catch_up(self, requests: Sequence[Request]) -> Outputs:
        """Feed the committed tokens that the cache lacks; outputs of the last one, [B, 1, ...]."""
        sequences = self._known(requests)
        totals = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        if int((totals - self.cache.lengths).max()) > CATCH_UP:
            self.model.read(self.cache, [sequence[:-1] for sequence in sequences])
        missing = totals - self.cache.lengths
        tokens, chain = pad_rows(
            [s[n:] for s, n in zip(sequences, self.cache.lengths.tolist(), strict=True)]
        )
        logits, hidden = self._extend(tokens, chain)
        self.cache.commit(chain_path(len(requests), len(chain)), missing)
        last = torch.from_numpy(missing - 1).to(logits.device)
        place = torch.arange(len(requests), device=logits.device), last
        return logits[place].unsqueeze(1), None if hidden is None else hidden[place].unsqueeze(1)

    def _feed(self, tokens: Tensor) -> Outputs:
        """One more token on each branch, [B, K]; the outputs after it, [B, K, ...]."""
        drafts, before = self.setting.num_drafts, self.cache.pending
        first = before - drafts if before else -1
        parents = [first + k if before else -1 for k in range(drafts)]
        return self._extend(tokens, parents)

    def _extend(self, tokens: Tensor, parents: Sequence[int]) -> Outputs:
        if self.setting.window.reads_hidden:
            return self.model.extend_with_hidden(self.cache, tokens, parents)
        return self.model.extend(self.cache, tokens, parents), None

    def _look(
        self, seen: _Seen, outputs: Outputs, requests: Sequence[Request], drafts: Tensor
    ) -> None:
        """Add the laws [B, K, V] after the tokens so far to what was seen."""
        setting, processor = self.setting, self.setting.processor
        logits, hidden = outputs
        logits = fit_vocabulary(logits, self.model.vocab_size, setting.width).to(setting.device)
        context = None
        if processor.needs_context:
            logits = logits.expand(-1, setting.num_drafts, -1)
            context = contexts(requests, drafts, setting.stop)
        logits = logits.to(setting.dtype)
        rows = processor(logits, context).expand(-1, setting.num_drafts, -1)
        seen.rows.append(rows)
        if setting.window.reads_plain:
            same = processor.plain == processor
            plain = rows if same else processor.plain(logits, context).expand(rows.shape)
            seen.plain.append(plain)
        if hidden is not None:
            seen.hidden.append(hidden.expand(-1, setting.num_drafts, -1))
