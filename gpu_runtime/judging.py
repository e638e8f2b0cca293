"""From the target's rows to a decision: rules of ``sim.verifiers`` on the drafts of a round.

Everything is padded to gamma before a rule sees it, so that the slots of the tape, and with them
the text of a request, never depend on the other requests of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.drafters.proposals import (
    LateProposal,
    Outcome,
    Proposal,
    TreeProposal,
    pad_round,
)
from gpu_runtime.random_streams import Stream, tape
from gpu_runtime.requests import Request
from gpu_runtime.sampling import draw


class Verifier(Protocol):
    """What the engine needs of an entry of ``sim.verifiers.VERIFIERS``, or of ``tree_rules``."""

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
class Judged:
    """The decision of a round.

    Attributes:
        outcome: what was kept.
        blocks: the tokens that each request emits: those kept and the correction, the bonus or
            the drafted token in its place.
        carry: of a stateful verifier.
    """

    outcome: Outcome
    blocks: list[list[int]]
    carry: Any = None


def branch_laws(rows: Tensor, num_drafts: int) -> Tensor:
    """Rows of the root and the nodes, [B, 1 + K g, V], as [B, K, g + 1, V]."""
    batch, nodes, vocab = rows.shape
    g = (nodes - 1) // num_drafts
    if num_drafts == 1 or g == 0:
        return rows.unsqueeze(1).expand(-1, num_drafts, -1, -1)
    branches = rows[:, 1:].reshape(batch, g, num_drafts, vocab).transpose(1, 2)
    first = rows[:, :1].unsqueeze(1).expand(-1, num_drafts, -1, -1)
    return torch.cat([first, branches], dim=2)


def uniforms(requests: Sequence[Request], slots: int, device: torch.device) -> Tensor:
    """The tape of a round, [B, slots]."""
    keys = [request.key for request in requests]
    positions = [len(request.sequence) for request in requests]
    return torch.from_numpy(tape(keys, Stream.VERIFY, positions, slots)).to(device)


def judge_plain(requests: Sequence[Request], rows: Tensor) -> Judged:
    """No drafts: a draw from the target's row."""
    uniform = uniforms(requests, 1, rows.device)[:, 0]
    tokens = draw(rows[:, 0], uniform).cpu().numpy()
    nothing = np.zeros(len(requests), dtype=np.int64)
    log_p = branch_laws(rows, 1)
    outcome = Outcome(nothing, nothing[:, None][:, :0], nothing, log_p, nothing > 0)
    return Judged(outcome, [[int(token)] for token in tokens])


def judge_drafts(
    rules: Rules,
    requests: Sequence[Request],
    rows: Tensor,
    proposal: Proposal,
    gamma: int,
    carry: Any,
) -> Judged:
    """Verify K drafts of each request."""
    verifier, num_drafts = rules.verifier, proposal.drafts.shape[1]
    assert verifier is not None
    log_p = branch_laws(rows, num_drafts)
    proposal.settle()
    late = isinstance(proposal, LateProposal) and proposal.drafts.shape[2] > 0
    if late:  # no bonus is drawn, so its row is never used
        log_p = torch.cat([log_p, log_p[:, :, -1:]], dim=2)
    tape_row = uniforms(requests, verifier.slots(gamma, num_drafts), rows.device)
    full = bool((proposal.lengths == gamma).all())
    lengths = None if full else torch.from_numpy(proposal.lengths).to(rows.device)
    padded_p, log_q, drafts = pad_round(log_p, proposal, gamma)
    verdict = verifier.verify(padded_p, log_q, drafts, tape_row, lengths, carry, **rules.params)
    decided = torch.stack([verdict.accepted, verdict.branch, verdict.token]).cpu().numpy()
    accepted, branch, token = decided.astype(np.int64)
    whole = (accepted == proposal.lengths) & (accepted > 0) & late
    path = np.arange(proposal.drafts.shape[2]) * num_drafts + branch[:, None]
    ids = proposal.drafts.cpu().numpy()
    blocks = [
        [
            *ids[row, branch[row], : accepted[row]].tolist(),
            *([] if whole[row] else [int(token[row])]),
        ]
        for row in range(len(requests))
    ]
    kept = np.minimum(accepted, proposal.counted)
    return Judged(Outcome(kept, path, branch, log_p, whole), blocks, verdict.carry)


def judge_tree(
    rule: Verifier, requests: Sequence[Request], rows: Tensor, proposal: TreeProposal
) -> Judged:
    """Verify the tree of each request; the deepest decides how much of the tape is read."""
    slots = rule.slots(int(proposal.depth.max(initial=0)), 1)
    verdict = rule.verify(rows, proposal, uniforms(requests, slots, rows.device))
    accepted, path = verdict.accepted.cpu().numpy(), verdict.path.cpu().numpy()
    ids, tokens = proposal.ids.cpu().numpy(), verdict.token.cpu().numpy()
    blocks = [
        [*ids[row, path[row, : accepted[row]]].tolist(), int(tokens[row])]
        for row in range(len(requests))
    ]
    branch = np.zeros_like(accepted)
    return Judged(Outcome(accepted, path, branch, rows, branch > 0), blocks)
