"""One batch being decoded: rounds of draft, one target call, verify, emit.

The target's cache holds all committed tokens of a request but the newest. A round feeds the newest
one and the drafts as a tree (the root, then K branches that are hidden from each other), so that
one call gives every row that verification needs. Requests advance by different lengths; those that
end leave the batch. If anything raises, both caches are back where the round began.

Per round and request, with L committed tokens, g drafted a branch and tau accepted:

    target entries before the rewind: L + K g;    kept: L + tau;    committed: L + tau + 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.drafters import DraftSession, Proposal, Setting, nothing
from gpu_runtime.finish import cut_at_text, cut_block
from gpu_runtime.kv_cache import Ints
from gpu_runtime.models import LanguageModel
from gpu_runtime.random_streams import Stream, tape
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import draw, fit_vocabulary, require_laws


class Verifier(Protocol):
    """What the engine needs of an entry of ``sim.verifiers.VERIFIERS``."""

    @property
    def name(self) -> str: ...

    @property
    def stateful(self) -> bool: ...

    @property
    def multi_draft(self) -> bool: ...

    @property
    def slots(self) -> Any: ...

    @property
    def verify(self) -> Any: ...


@dataclass(frozen=True)
class Rules:
    """How a batch is decoded: ``verifier`` None is plain (autoregressive) decoding."""

    verifier: Verifier | None
    params: Mapping[str, Any] = field(default_factory=dict)
    max_new_tokens: int = 64
    eos: frozenset[int] = frozenset()
    stop: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Round:
    """What one round did to the batch, for traces: arrays over the active requests."""

    requests: Sequence[Request]
    positions: Ints
    log_p: Tensor
    proposal: Proposal
    accepted: Ints
    branch: Ints
    draft_seconds: float
    verify_seconds: float


class Session:
    """A batch of requests, their caches, and the round that advances them."""

    def __init__(
        self,
        target: LanguageModel,
        drafting: DraftSession | None,
        requests: Sequence[Request],
        setting: Setting,
        rules: Rules,
    ) -> None:
        self.target, self.drafting = target, drafting
        self.setting, self.rules = setting, rules
        self.active = list(requests)
        self.carry: Any = None
        self.cache = target.new_cache(len(requests), setting.capacity)
        target.read(self.cache, [request.sequence[:-1] for request in requests])

    def round(self) -> Round:
        """Advance every active request by at least one token."""
        lengths = self.cache.lengths.copy()
        mark = self.drafting.mark() if self.drafting else None
        try:
            return self._round()
        except BaseException:
            self.cache.restore(lengths)
            if self.drafting:
                self.drafting.rewind(mark)
            raise

    def _round(self) -> Round:
        start = perf_counter()
        proposal = self._propose()
        drafted = perf_counter()
        log_p = self._target_laws(proposal)
        accepted, branch, tokens, carry = self._judge(log_p, proposal)
        drafts = proposal.drafts.cpu().numpy()
        verified = perf_counter()
        self._rewind(proposal, accepted, branch)
        done = Round(
            list(self.active),
            np.array([len(request.sequence) for request in self.active], dtype=np.int64),
            log_p,
            proposal,
            accepted,
            branch,
            drafted - start,
            verified - drafted,
        )
        for row, request in enumerate(self.active):
            kept = drafts[row, branch[row], : accepted[row]].tolist()
            self._emit(request, [*kept, int(tokens[row])], int(proposal.lengths[row]))
        self.setting.window.observe(self.active)
        self._drop_finished(carry)
        return done

    def _propose(self) -> Proposal:
        batch, maximum = len(self.active), self.setting.window.maximum
        room = np.array([self._remaining(request) - 1 for request in self.active], dtype=np.int64)
        stateful = self.rules.verifier is not None and self.rules.verifier.stateful
        limits = np.minimum(self.setting.window.limits(self.active), maximum)
        if not stateful:
            limits = np.minimum(limits, room)
        if self.drafting is None:
            return nothing(self.setting, batch, np.zeros(batch, dtype=np.int64))
        return self.drafting.propose(self.active, limits)

    def _remaining(self, request: Request) -> int:
        return self.rules.max_new_tokens - request.written

    def _target_laws(self, proposal: Proposal) -> Tensor:
        """Log target rows [B, K, g+1, V] from one call."""
        batch, num_drafts, g = proposal.drafts.shape
        root = torch.tensor([[request.sequence[-1]] for request in self.active])
        nodes = proposal.drafts.clamp(min=0).transpose(1, 2).reshape(batch, g * num_drafts)
        tokens = torch.cat([root.to(nodes.device), nodes], dim=1)
        logits = self.target.extend(self.cache, tokens, draft_tree(num_drafts, g))
        logits = fit_vocabulary(logits, self.target.vocab_size, self.setting.width)
        context = None
        if self.setting.processor.needs_context:
            before = drafted_before(proposal.drafts)
            context = contexts(self.active, before, self.setting.stop)
        rows = self.setting.processor(logits, context)
        if num_drafts == 1 or g == 0:
            laws = rows.unsqueeze(1).expand(-1, num_drafts, -1, -1)
        else:
            branches = rows[:, 1:].reshape(batch, g, num_drafts, -1).transpose(1, 2)
            first = rows[:, :1].unsqueeze(1).expand(-1, num_drafts, -1, -1)
            laws = torch.cat([first, branches], dim=2)
        self._check_laws(laws, proposal.lengths)
        return laws

    def _check_laws(self, laws: Tensor, lengths: Ints) -> None:
        bad = laws[..., 0].isnan().any(dim=1)
        if not bool(bad.any()):
            return
        for row, position in bad.nonzero().tolist():
            if position <= lengths[row]:
                request = self.active[row]
                require_laws(
                    laws[row, :, position],
                    f"{self.target.name} (target), request {request.index}, position "
                    f"{len(request.sequence) + position}, row [draft]",
                )

    def _judge(self, log_p: Tensor, proposal: Proposal) -> tuple[Ints, Ints, Ints, Any]:
        """Verify the round: accepted, branch and token [B] on the host, and the new carry."""
        keys = [request.key for request in self.active]
        positions = [len(request.sequence) for request in self.active]
        verifier, gamma = self.rules.verifier, self.setting.window.maximum
        if verifier is None:
            uniform = torch.from_numpy(tape(keys, Stream.VERIFY, positions, 1)[:, 0])
            token = draw(log_p[:, 0, 0], uniform.to(log_p.device)).cpu().numpy()
            return np.zeros_like(token), np.zeros_like(token), token, None
        slots = verifier.slots(gamma, self.setting.num_drafts)
        uniforms = torch.from_numpy(tape(keys, Stream.VERIFY, positions, slots)).to(log_p.device)
        full = bool((proposal.lengths == gamma).all())
        lengths = None if full else torch.from_numpy(proposal.lengths).to(log_p.device)
        log_p, log_q, drafts = pad_round(log_p, proposal, gamma)
        verdict = verifier.verify(
            log_p, log_q, drafts, uniforms, lengths, self.carry, **self.rules.params
        )
        decided = torch.stack([verdict.accepted, verdict.branch, verdict.token]).cpu().numpy()
        accepted, branch, token = decided.astype(np.int64)
        return accepted, branch, token, verdict.carry

    def _rewind(self, proposal: Proposal, accepted: Ints, branch: Ints) -> None:
        """Cut both caches back to the committed tokens (all but the newest of each request)."""
        _, num_drafts, g = proposal.drafts.shape
        nodes = 1 + np.arange(g) * num_drafts + branch[:, None]
        path = np.concatenate([np.zeros((len(branch), 1), dtype=np.int64), nodes], axis=1)
        self.cache.commit(path, accepted + 1)
        if self.drafting:
            self.drafting.accept(branch, accepted)

    def _emit(self, request: Request, block: list[int], drafted: int) -> None:
        """Append the block to a request, up to the point where it ends."""
        rules = self.rules
        kept, finish = cut_block(block, self._remaining(request), rules.eos, rules.stop)
        request.sequence.extend(block[:kept])
        if rules.stop_strings:
            found = cut_at_text(request.output, kept, rules.stop_strings, self.target.decode)
            if found is not None:
                surplus = request.written - found[0]
                del request.sequence[len(request.sequence) - surplus :]
                kept, finish, request.text = kept - surplus, "stop", found[1]
        request.drafted.append(drafted)
        request.accepted.append(len(block) - 1)
        request.emitted.append(kept)
        request.finish = finish

    def _drop_finished(self, carry: Any) -> None:
        rows = np.array(
            [r for r, req in enumerate(self.active) if req.finish is None], dtype=np.int64
        )
        if len(rows) < len(self.active):
            self.active = [self.active[row] for row in rows]
            carry = select_rows(carry, rows)
            self.cache.select(rows)
            if self.drafting:
                self.drafting.select(rows)
        self.carry = carry


def draft_tree(num_drafts: int, g: int) -> list[int]:
    """Parents of the root and of K branches of g nodes; branch k's node at depth i + 1 is
    1 + i K + k."""
    first = [0] * num_drafts if g else []
    return [-1, *first, *range(1, 1 + (g - 1) * num_drafts)]


def drafted_before(drafts: Tensor) -> Tensor:
    """The drafted tokens before each row of the tree, [B, 1 + K g, g], padded with -1."""
    batch, num_drafts, g = drafts.shape
    steps = torch.arange(g, device=drafts.device)
    seen = steps <= steps[:, None]
    branches = drafts[:, None].where(seen[None, :, None, :], -1).reshape(batch, g * num_drafts, g)
    return torch.cat([drafts.new_full((batch, 1, g), -1), branches], dim=1)


def pad_round(log_p: Tensor, proposal: Proposal, gamma: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and drafts padded to gamma, so that the tape's slots never depend on the batch."""
    missing = gamma - proposal.drafts.shape[2]
    if missing == 0:
        return log_p, proposal.log_q, proposal.drafts
    rows = log_p[:, :, -1:].expand(-1, -1, missing, -1)
    ids = proposal.drafts.new_full((*proposal.drafts.shape[:2], missing), -1)
    return (
        torch.cat([log_p, rows], dim=2),
        torch.cat([proposal.log_q, rows], dim=2),
        torch.cat([proposal.drafts, ids], dim=2),
    )


def select_rows(carry: Any, rows: Ints) -> Any:
    """The rows of a verifier's carry: a tensor, or a named tuple of carries, or None."""
    if carry is None:
        return None
    if isinstance(carry, Tensor):
        return carry[torch.from_numpy(rows).to(carry.device)]
    return type(carry)(*(select_rows(part, rows) for part in carry))
