"""Trace rows of real runs, one per request and round, in the schema of ``sim.traces``.

The seconds of a round are those of the whole batch, shared equally among its active requests, so
that sums over rows are wall-clock times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runtime.drafters.proposals import Proposal
from gpu_runtime.session import Round


@dataclass
class TraceRecorder:
    """An observer of ``decode`` that collects trace rows.

    Attributes:
        run: name of the run. drafter, verifier, window: what the columns of these names say.
        num_drafts: drafts a round.
        overlaps: also record sum min(p, q) at every drafted position of separate drafts (a pass
            over the rows); trees leave it out.
    """

    run: str
    drafter: str
    verifier: str
    window: str
    num_drafts: int = 1
    overlaps: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, done: Round) -> None:
        """Record one round of the batch."""
        chains = isinstance(done.proposal, Proposal)
        overlaps = round_overlaps(done) if self.overlaps and chains else None
        share = len(done.requests)
        for row, request in enumerate(done.requests):
            drafted, accepted = request.drafted[-1], request.accepted[-1]
            kept = request.emitted[-1]
            self.rows.append(
                {
                    "run": self.run,
                    "request": request.index,
                    "round": len(request.drafted) - 1,
                    "position": int(done.positions[row]) - request.prompt_length,
                    "drafter": self.drafter,
                    "verifier": self.verifier,
                    "window": self.window,
                    "num_drafts": self.num_drafts,
                    "drafted": drafted,
                    "accepted": accepted,
                    "emitted": kept,
                    "bonus": 0 < drafted == accepted == kept - 1,
                    "finish": request.finish,
                    "overlap": None if overlaps is None else overlaps[row][:drafted],
                    "draft_seconds": done.draft_seconds / share,
                    "verify_seconds": done.verify_seconds / share,
                }
            )


def round_overlaps(done: Round) -> list[list[float]]:
    """sum min(p, q) at each position of the kept branch, one list a request.

    Raises:
        ValueError: drafts that form a tree.
    """
    if not isinstance(done.proposal, Proposal):
        raise ValueError("a tree has no single branch to report overlaps of")
    g = done.proposal.drafts.shape[2]
    rows = torch.arange(len(done.branch), device=done.log_p.device)
    branch = torch.from_numpy(done.branch).to(rows.device)
    p = done.log_p[rows, branch, :g].double().exp()
    q = done.proposal.log_q[rows, branch].double().exp()
    overlaps: list[list[float]] = torch.minimum(p, q).sum(-1).clamp(max=1.0).tolist()
    return overlaps
