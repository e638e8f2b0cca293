"""One batch being decoded: rounds of draft, one target call, verify, emit.

The target's cache holds all committed tokens of a request but the newest. A round feeds the newest
one and the drafts as a tree (the root, then K branches that are hidden from each other, or a
drafted tree), so that one call gives every row that verification needs. Requests advance by
different lengths; those that end leave the batch. If anything raises, both caches are back where
the round began.

Per round and request, with L committed tokens, n drafted nodes and tau accepted:

    target entries before the rewind: L + n;    kept: L + tau;    committed: L + tau + 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.drafters import DraftSession, Setting, nothing
from gpu_runtime.drafters.proposals import Proposal, TreeProposal
from gpu_runtime.finish import cut_at_text, cut_block
from gpu_runtime.judging import Judged, Rules, judge_drafts, judge_plain, judge_tree
from gpu_runtime.kv_cache import Ints
from gpu_runtime.models import LanguageModel
from gpu_runtime.requests import Request, contexts
from gpu_runtime.sampling import fit_vocabulary, require_laws


@dataclass(frozen=True)
class Round:
    """What one round did to the batch, for traces: arrays over the active requests.

    ``log_p`` are the target's laws: [B, K, g + 1, V] of drafts, [B, 1 + n, V] of a tree.
    """

    requests: Sequence[Request]
    positions: Ints
    log_p: Tensor
    proposal: Proposal | TreeProposal
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
        judged = self._judge(proposal, self._target_laws(proposal))
        verified = perf_counter()
        outcome = judged.outcome
        self._rewind(outcome.path, outcome.accepted)
        if self.drafting:
            self.drafting.accept(outcome)
        done = Round(
            list(self.active),
            np.array([len(request.sequence) for request in self.active], dtype=np.int64),
            outcome.log_p,
            proposal,
            outcome.accepted,
            outcome.branch,
            drafted - start,
            verified - drafted,
        )
        for request, block, length in zip(
            self.active, judged.blocks, proposal.counted.tolist(), strict=True
        ):
            self._emit(request, block, length)
        self.setting.window.observe(self.active)
        self._drop_finished(judged.carry)
        return done

    def _propose(self) -> Proposal | TreeProposal:
        batch, maximum = len(self.active), self.setting.window.maximum
        if self.drafting is None:
            return nothing(self.setting, batch, np.zeros(batch, dtype=np.int64))
        room = np.array([self._remaining(request) - 1 for request in self.active], dtype=np.int64)
        stateful = self.rules.verifier is not None and self.rules.verifier.stateful
        limits = np.minimum(self.setting.window.limits(self.active), maximum)
        if not stateful:
            limits = np.minimum(limits, room)
        return self.drafting.propose(self.active, limits)

    def _remaining(self, request: Request) -> int:
        return self.rules.max_new_tokens - request.written

    def _target_laws(self, proposal: Proposal | TreeProposal) -> Tensor:
        """Log target rows of the root and the nodes [B, 1 + n, V], from one call."""
        root = torch.tensor([[request.sequence[-1]] for request in self.active])
        nodes = proposal.tokens
        tokens = torch.cat([root.to(nodes.device), nodes], dim=1)
        above = np.asarray(proposal.parents, dtype=np.int64)
        parents = np.concatenate([np.full((*above.shape[:-1], 1), -1), above], axis=-1)
        logits = self.target.extend(self.cache, tokens, parents)
        logits = fit_vocabulary(logits, self.target.vocab_size, self.setting.width)
        context = None
        if self.setting.processor.needs_context:
            context = contexts(self.active, proposal.before, self.setting.stop)
        rows = self.setting.processor(logits, context)
        self._check_laws(rows, proposal)
        return rows

    def _check_laws(self, rows: Tensor, proposal: Proposal | TreeProposal) -> None:
        bad = rows[..., 0].isnan()
        if not bool(bad.any()):
            return
        always = np.ones((len(rows), 1), dtype=np.bool_)
        real = np.concatenate([always, proposal.real], axis=1)
        depth = np.broadcast_to(proposal.depth, proposal.real.shape)
        for row, node in bad.nonzero().tolist():
            if real[row, node]:
                request = self.active[row]
                position = len(request.sequence) + (int(depth[row, node - 1]) if node else 0)
                require_laws(
                    rows[row, node : node + 1],
                    f"{self.target.name} (target), request {request.index}, position {position}",
                )

    def _judge(self, proposal: Proposal | TreeProposal, rows: Tensor) -> Judged:
        rule = self.rules.verifier
        if rule is None:
            return judge_plain(self.active, rows)
        if isinstance(proposal, TreeProposal):
            return judge_tree(rule, self.active, rows, proposal)
        gamma = self.setting.window.maximum
        return judge_drafts(self.rules, self.active, rows, proposal, gamma, self.carry)

    def _rewind(self, path: Ints, accepted: Ints) -> None:
        """Cut the target's cache back to the committed tokens (all but the newest of each)."""
        root = np.zeros((len(path), 1), dtype=np.int64)
        self.cache.commit(np.concatenate([root, path + 1], axis=1), accepted + 1)

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


def select_rows(carry: Any, rows: Ints) -> Any:
    """The rows of a verifier's carry: a tensor, or a named tuple of carries, or None."""
    if carry is None:
        return None
    if isinstance(carry, Tensor):
        return carry[torch.from_numpy(rows).to(carry.device)]
    return type(carry)(*(select_rows(part, rows) for part in carry))
