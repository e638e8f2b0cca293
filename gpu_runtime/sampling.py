"""From logits to the one law that is both sampled from and handed to the verifier.

``Processor`` maps logits to a log-law: penalties and other rules of the context, allow-list,
temperature, top-k, top-p, min-p, in this order, each filter renormalising. Target and draft go
through the same operator, and the row that a token was drawn from is the row that its ratio is
taken with. Temperature 0 is the point mass at the first largest logit. Filters keep tokens in order
of decreasing probability, ties in token order; top-p keeps the smallest such set whose mass is at
least ``top_p``. Laws are float32, and float64 where the logits are float64; a zero probability is
``-inf``.

``draw`` inverts the cumulative sum in float64: token = first index with cumulative > u * total.

Source: Holtzman et al. 2020 (top-p); Nguyen et al. 2024 (min-p); the tie rules are stated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gpu_runtime.penalties import Context, hold_back_stops, penalise

HEAD = 512
"""How many of the likeliest tokens top-p looks at before it sorts a whole row."""


@dataclass(frozen=True)
class Processor:
    """Sampling settings, the same for target and draft.

    ``temperature`` 0 is greedy; ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 are off; ``allowed`` lists
    the token ids that may occur at all. The penalties and ``min_new_tokens`` are explained in
    ``gpu_runtime.penalties`` and need a ``Context``, as does ``rule``: any function of logits and
    context, such as a grammar, that is applied to every row before temperature.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    allowed: tuple[int, ...] | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    rule: Callable[[Tensor, Context], Tensor] | None = None

    def __post_init__(self) -> None:
        checks = (
            ("temperature", self.temperature, 0 <= self.temperature < math.inf, "0 (greedy) or up"),
            ("top_k", self.top_k, self.top_k >= 0, "0 (off) or more"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "a mass in (0, 1]"),
            ("min_p", self.min_p, 0 <= self.min_p <= 1, "a ratio in [0, 1]"),
            ("repetition_penalty", self.repetition_penalty, self.repetition_penalty > 0, "above 0"),
            ("min_new_tokens", self.min_new_tokens, self.min_new_tokens >= 0, "0 or more"),
        )
        for name, value, valid, remedy in checks:
            if not valid:
                raise ValueError(f"{name} {value} is not valid; use {remedy}")
        if self.allowed is not None:
            if not self.allowed or min(self.allowed) < 0:
                raise ValueError(f"allowed {self.allowed} must list token ids, at least one")
            object.__setattr__(self, "allowed", tuple(self.allowed))

    @property
    def plain(self) -> Processor:
        """The same operator without temperature and filters (allow-list and penalties stay)."""
        return replace(self, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)

    @property
    def needs_context(self) -> bool:
        """Whether rows depend on what was written before them beyond the model itself."""
        return self.min_new_tokens > 0 or self.rule is not None or self._penalised

    @property
    def _penalised(self) -> bool:
        settings = (self.frequency_penalty, self.presence_penalty, self.repetition_penalty)
        return settings != (0.0, 0.0, 1.0)

    def __call__(self, logits: Tensor, context: Context | None = None) -> Tensor:
        """The processed log-law of each row of ``logits`` [..., V], same shape.

        A row that holds a NaN, or in which no token is left, is NaN throughout: ``require_laws``
        raises for it, where the caller can say which request and position it is.
        """
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.needs_context:
            if context is None:
                raise ValueError("penalties, min_new_tokens and rule need a Context; pass one")
            logits = self._apply_context(logits, context)
        if self.allowed is not None:
            barred = logits.new_full(logits.shape[-1:], -torch.inf)
            barred[[token for token in self.allowed if token < logits.shape[-1]]] = 0
            logits = logits + barred
        if self.temperature == 0:
            return point_mass_at_argmax(logits)
        if self.temperature != 1:
            logits = logits / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            logits = keep_top_k(logits, self.top_k)
        if self.top_p < 1:
            logits = keep_top_p(logits, self.top_p, self.top_k)
        if self.min_p > 0:
            logits = keep_min_p(logits, self.min_p)
        return torch.log_softmax(logits, dim=-1)

    def _apply_context(self, logits: Tensor, context: Context) -> Tensor:
        if self._penalised:
            logits = penalise(
                logits,
                context,
                frequency=self.frequency_penalty,
                presence=self.presence_penalty,
                repetition=self.repetition_penalty,
            )
        if self.rule is not None:
            logits = self.rule(logits, context)
        return hold_back_stops(logits, context, self.min_new_tokens)


def point_mass_at_argmax(logits: Tensor) -> Tensor:
    """0 at the first largest logit of each row, -inf elsewhere; NaN where the row has a NaN."""
    token = logits.argmax(dim=-1, keepdim=True)
    best = logits.gather(-1, token)
    return torch.full_like(logits, -torch.inf).scatter_(-1, token, 0.0) + (best - best)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Logits with all but the ``k`` largest of each row at -inf, ties in token order."""
    largest = logits.topk(k, dim=-1).values
    kept = torch.full_like(largest[..., :1], k, dtype=torch.long)
    return _keep_first(logits, largest, kept)


def keep_top_p(logits: Tensor, top_p: float, top_k: int = 0) -> Tensor:
    """Logits with all but the nucleus of each row at -inf; ``top_k`` bounds the finite entries."""
    width = logits.shape[-1]
    total = torch.logsumexp(logits, dim=-1, keepdim=True)
    needed = top_p - max(4 * torch.finfo(logits.dtype).eps, 1e-12)
    head = min(width, top_k or HEAD)
    largest, mass = _head_mass(logits, total, head)
    if head < width and bool((mass[..., -1] < needed).any()):
        largest, mass = _head_mass(logits, total, width)
    before = mass.roll(1, dims=-1)
    before[..., 0] = 0
    return _keep_first(logits, largest, (before < needed).sum(-1, keepdim=True))


def keep_min_p(logits: Tensor, min_p: float) -> Tensor:
    """Logits with tokens below ``min_p`` times the largest probability of the row at -inf."""
    ratio = (logits - logits.amax(dim=-1, keepdim=True)).exp()
    kept = ratio >= min_p * (1 - 16 * torch.finfo(logits.dtype).eps)
    return logits.masked_fill(~kept & ~logits.isnan(), -torch.inf)


def draw(log_rows: Tensor, uniform: Tensor) -> Tensor:
    """Tokens [...] from log-laws [..., V] with one uniform in [0, 1) each (float64)."""
    mass = log_rows.double().exp().cumsum(-1)
    total = mass[..., -1:]
    wanted = uniform.to(mass.dtype).unsqueeze(-1) * total
    last = torch.searchsorted(mass, total.contiguous()).clamp(max=log_rows.shape[-1] - 1)
    return torch.minimum(torch.searchsorted(mass, wanted, right=True), last).squeeze(-1)


def fit_vocabulary(logits: Tensor, real: int, width: int) -> Tensor:
    """Logits [..., width] in which ids from ``real`` on (padding, or unknown here) are -inf."""
    known = min(real, width, logits.shape[-1])
    if known == width == logits.shape[-1]:
        return logits
    fitted = logits.new_full((*logits.shape[:-1], width), -torch.inf)
    fitted[..., :known] = logits[..., :known]
    return fitted


def require_laws(log_rows: Tensor, describe: str) -> None:
    """Check that no row is NaN.

    Raises:
        ValueError: naming ``describe`` and the index of the first bad row.
    """
    bad = log_rows[..., 0].isnan()
    if bool(bad.any()):
        where = tuple(int(i) for i in bad.nonzero()[0])
        raise ValueError(
            f"{describe}: row {where} is not a law (its logits hold a NaN, or the filters leave no "
            "token); check the model's weights and the allow-list"
        )


def _head_mass(logits: Tensor, total: Tensor, head: int) -> tuple[Tensor, Tensor]:
    largest = logits.topk(head, dim=-1).values
    return largest, (largest - total).double().exp().cumsum(-1)


def _keep_first(logits: Tensor, largest: Tensor, kept: Tensor) -> Tensor:
    """Keep the first ``kept`` [..., 1] tokens of each row; ``largest`` is sorted, long enough."""
    threshold = largest.gather(-1, kept - 1)
    ties = kept - (largest > threshold).sum(-1, keepdim=True)
    tied = logits == threshold
    keep = (logits > threshold) | (tied & (tied.cumsum(-1) <= ties))
    return logits.masked_fill(~keep & ~logits.isnan(), -torch.inf)
