"""PEARL: the draft model writes the next block while the target verifies the pending one.

    round:  in parallel, draft gamma tokens y after committed + pending | the target reads pending
            pending and y_1 are verified together; y_1 is judged by the row after pending, which
            is the row that a bonus would have been drawn from, so it takes the bonus's place
      all kept   -> y_2 .. y_gamma are pending ("post-verify")
      a refusal  -> the correction is emitted, y is dropped, nothing is pending ("pre-verify")

The target's call does not wait for y, so on CUDA both run at once on two streams (on a CPU one
after the other, which gains nothing: ``theory.windows.iid.pearl``). A round counts its pending
tokens as drafted. Any stateless rule for one draft keeps the text exact: whether y survives depends
on tokens before y_2 and on coins that the later ones have no part in.

Source: Liu et al. 2024 (2408.11850) and its code, which runs two processes, greedy or by the token
rule; the form above and block verification in it are derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_runtime.drafters import Setting
from gpu_runtime.drafters.model import ModelDrafter, ModelDraftSession
from gpu_runtime.drafters.proposals import LateProposal, Outcome
from gpu_runtime.kv_cache import Bools, Ints
from gpu_runtime.requests import Request
from gpu_runtime.windows import Window


class PearlDrafter(ModelDrafter):
    """Blocks of gamma (the window's maximum) tokens, one ahead of the target."""

    name = "pearl"
    fills = False

    def fits(self, window: Window, num_drafts: int) -> None:
        """Blocks have one length, and there is one draft.

        Raises:
            ValueError: an adaptive window, or several drafts.
        """
        if num_drafts > 1 or not window.full:
            raise ValueError(
                f"pearl drafts one block of fixed length ahead; use window fixed and num_drafts 1, "
                f"not {window.name} and {num_drafts}"
            )

    def overhang(self, gamma: int) -> int:
        return 2 * gamma

    def open(self, requests: Sequence[Request], setting: Setting) -> PearlSession:  # type: ignore[override]
        return PearlSession(super().open(requests, setting), len(requests), setting)


@dataclass(frozen=True)
class _Pending:
    """Drafted tokens that the target has not read, and the laws [p, V] they were drawn from."""

    tokens: tuple[int, ...] = ()
    rows: Tensor | None = None


class PearlSession:
    """The draft model, one block ahead."""

    def __init__(self, model: ModelDraftSession, batch: int, setting: Setting) -> None:
        self._model, self._setting = model, setting
        self._pending = [_Pending()] * batch
        self._stream: Any = None
        if setting.device.type == "cuda":
            self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def propose(self, requests: Sequence[Request], limits: Ints) -> LateProposal:
        """The pending tokens and the first of the next block."""
        pending = [
            replace(p, tokens=p.tokens[:most])
            for p, most in zip(self._pending, limits.tolist(), strict=True)
        ]
        counts = np.array([len(p.tokens) for p in pending], dtype=np.int64)
        ahead: Bools = counts < limits
        known = self._known(pending, int((counts + ahead).max()) - 1)
        texts = [
            replace(request, sequence=[*request.sequence, *p.tokens])
            for request, p in zip(requests, self._pending, strict=True)
        ]
        self._before = np.array([len(request.sequence) for request in requests], dtype=np.int64)
        positions = [len(request.sequence) for request in requests]
        with torch.cuda.stream(self._stream) if self._stream else nullcontext():
            whole = np.where(ahead, self._setting.window.maximum, 0)
            self._block = self._model.draw(texts, whole, positions)
            drafts, log_q = self._tested(pending, counts + ahead)
        return LateProposal(drafts, log_q, counts + ahead, known, self._wait)

    def accept(self, outcome: Outcome) -> None:
        """Keep the new block where everything was kept, else go back to what was."""
        cache, whole = self._model.cache, outcome.whole & (self._block.lengths > 0)
        fed = cache.pending
        path = np.tile(np.arange(fed), (len(whole), 1))
        kept = np.where(whole, np.minimum(fed, self._block.lengths), 0)
        cache.commit(path, kept)
        cache.cut_back(np.where(whole, cache.lengths, self._before + outcome.accepted))
        ids = self._block.drafts[:, 0].cpu().tolist()
        self._pending = [
            _Pending(tuple(ids[row][1:]), self._block.log_q[row, 0, 1:]) if good else _Pending()
            for row, good in enumerate(whole.tolist())
        ]

    def select(self, rows: Ints) -> None:
        self._model.select(rows)
        self._pending = [self._pending[row] for row in rows]

    def mark(self) -> Any:
        return self._model.mark(), list(self._pending)

    def rewind(self, mark: Any) -> None:
        lengths, self._pending = mark
        self._model.rewind(lengths)

    def close(self) -> None:
        """Nothing outlives the session."""

    def _known(self, pending: Sequence[_Pending], width: int) -> Tensor:
        """The pending tokens [B, width], padded with 0, without waiting for the new block."""
        padded = [[*p.tokens, *[0] * (width - len(p.tokens))][: max(width, 0)] for p in pending]
        return torch.tensor(padded, dtype=torch.long, device=self._setting.device)

    def _tested(self, pending: Sequence[_Pending], lengths: Ints) -> tuple[Tensor, Tensor]:
        """What is verified: pending tokens and the first new one, [B, 1, g] and its rows."""
        setting, g = self._setting, int(lengths.max(initial=0))
        shape, device = (len(pending), 1, g), setting.device
        drafts = torch.full(shape, -1, dtype=torch.long, device=device)
        log_q = torch.zeros((*shape, setting.width), dtype=setting.dtype, device=device)
        for row, p in enumerate(pending):
            count = len(p.tokens)
            if p.rows is not None and count:
                drafts[row, 0, :count] = torch.tensor(p.tokens, device=device)
                log_q[row, 0, :count] = p.rows[:count]
            if lengths[row] > count:
                drafts[row, 0, count] = self._block.drafts[row, 0, 0]
                log_q[row, 0, count] = self._block.log_q[row, 0, 0]
        return drafts, log_q

    def _wait(self) -> None:
        """The verifier's stream goes on once the block is drafted; its rows are checked then."""
        if self._stream:
            current = torch.cuda.current_stream()
            current.wait_stream(self._stream)
            for tensor in (self._block.drafts, self._block.log_q):
                tensor.record_stream(current)
        self._model.check_laws(self._block)
