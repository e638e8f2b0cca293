"""Decision by decision: a kernel beside the float64 array function, on one tape of uniforms.

Rounds are random, with the rows that break verifiers among them: zeros, equal rows, point masses,
drafts that share prefixes, requests that drafted less than others with NaN beyond. Both sides see
the same logits, rounded to the kernel's dtype. They may differ only at a *tie*, where the
reference itself changes its mind when the tape moves by ``TIE``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sim.verifiers import VERIFIERS, Verdict

TIE = 2e-5
"""How far fp32 arithmetic moves a threshold."""
LARGEST = 1.0 - 2.0**-53
KINDS = ("generic", "generic", "sparse", "equal", "point")
"""How p and q of a node are related; each with the same probability."""


class Case(NamedTuple):
    """A rule with its parameters, and the shape of its rounds."""

    rule: str
    vocab: int
    gamma: int = 3
    num_drafts: int = 1
    batch: int = 4
    dtype: torch.dtype = torch.float32
    ragged: bool = True
    rounds: int = 1
    params: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"{self.rule} V={self.vocab} g={self.gamma} K={self.num_drafts} {kind}"


class Rounds(NamedTuple):
    """One batch: logits [B, K, g+1, V] and [B, K, g, V], drafts, tape and lengths."""

    p: Tensor
    q: Tensor
    drafts: Tensor
    uniforms: Tensor
    lengths: Tensor | None


@dataclass(frozen=True)
class Agreement:
    """compared: requests. ties: those left out because the reference is undecided there. wrong:
    those that differ elsewhere."""

    compared: int
    ties: int
    wrong: int


def random_rounds(case: Case, generator: torch.Generator) -> Rounds:
    """A batch of random rounds on the generator's device."""
    device, batch, drafts = generator.device, case.batch, case.num_drafts
    tokens = torch.zeros((batch, drafts, case.gamma), dtype=torch.int64, device=device)
    head = torch.zeros((batch, drafts), dtype=torch.int64, device=device)
    p_rows, q_rows = [], []
    for i in range(case.gamma + 1):
        p, q = (rows.to(case.dtype) for rows in _nodes(case, generator))
        index = head[..., None].expand_as(p)
        p_rows.append(p.gather(1, index))
        q_rows.append(q.gather(1, index))
        if i < case.gamma:
            tokens[..., i] = _drawn(q_rows[-1], generator)
            same = (tokens[:, :, None, : i + 1] == tokens[:, None, :, : i + 1]).all(-1)
            head = same.int().argmax(-1)
    p, q = torch.stack(p_rows, 2), torch.stack(q_rows[:-1], 2)
    slots = VERIFIERS[case.rule].slots(case.gamma, drafts)
    uniforms = torch.rand((batch, slots), generator=generator, device=device, dtype=torch.float64)
    lengths = None
    if case.ragged and not VERIFIERS[case.rule].stateful:
        lengths = torch.randint(case.gamma + 1, (batch,), generator=generator, device=device)
        place = torch.arange(case.gamma + 1, device=device)
        beyond = (place > lengths[:, None])[:, None, :, None]
        undrafted = (place[:-1] >= lengths[:, None])[:, None]
        p = p.masked_fill(beyond, torch.nan)
        q = q.masked_fill(undrafted[..., None], torch.nan)
        tokens = tokens.masked_fill(undrafted, -1)
    return Rounds(p, q, tokens, uniforms, lengths)


def _nodes(case: Case, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Logits [B, K, V] of p and q at independent nodes."""
    device, shape = generator.device, (case.batch, case.num_drafts, case.vocab)

    def normal(scale: float) -> Tensor:
        return scale * torch.randn(shape, generator=generator, device=device)

    def uniform(*size: int) -> Tensor:
        return torch.rand(size, generator=generator, device=device)

    p = normal(2.0)
    q = p + normal(0.8) + 3.0
    kind = (uniform(*shape[:2], 1) * len(KINDS)).long()
    chosen = torch.arange(case.vocab, device=device) == (uniform(*shape[:2], 1) * case.vocab).long()
    sparse, point = (kind == KINDS.index(name) for name in ("sparse", "point"))

    def thinned(row: Tensor) -> Tensor:
        gone = point | (sparse & (uniform(*shape) < 0.4))
        return row.masked_fill(gone & ~chosen, -torch.inf)

    p, q = thinned(p), thinned(q)
    return p, torch.where(kind == KINDS.index("equal"), p, q)


def _drawn(logits: Tensor, generator: torch.Generator) -> Tensor:
    law = torch.softmax(logits.double(), dim=-1)
    noise = torch.rand(law.shape[:-1], generator=generator, device=law.device, dtype=law.dtype)
    total = law.cumsum(-1)
    wanted = (noise * total[..., -1])[..., None]
    found = torch.searchsorted(total, wanted, right=True)[..., 0]
    last = (law > 0).long().cumsum(-1).argmax(-1)
    return torch.minimum(found, last)


def agreement(
    case: Case, verify: Callable[..., Verdict], generator: torch.Generator, **options: Any
) -> Agreement:
    """Run ``case.rounds`` rounds, the carry handed on, and compare all decisions.

    Args:
        verify: what is checked, called on logits.
    """
    reference, params = VERIFIERS[case.rule].verify, dict(case.params)
    alive = torch.ones(case.batch, dtype=torch.bool, device=generator.device)
    carry: Any = None
    own: Any = None
    ties = wrong = compared = 0
    for _ in range(case.rounds):
        p, q, drafts, uniforms, lengths = random_rounds(case, generator)
        laws = [torch.log_softmax(part.double(), dim=-1) for part in (p, q)]
        found = verify(p, q, drafts, uniforms, lengths, own, **params, **options)
        expected = reference(*laws, drafts, uniforms, lengths, carry, **params)
        firm = torch.ones_like(alive)
        for shift in (-TIE, TIE):
            moved = (uniforms + shift).clamp(0.0, LARGEST)
            firm &= same(expected, reference(*laws, drafts, moved, lengths, carry, **params))
        equal = same(expected, found)
        compared += int(alive.sum())
        ties += int((alive & ~firm).sum())
        wrong += int((alive & firm & ~equal).sum())
        alive = alive & equal
        carry, own = expected.carry, found.carry
    return Agreement(compared, ties, wrong)


def same(a: Verdict, b: Verdict) -> Tensor:
    """Where two verdicts agree, [B]."""
    equal: Tensor = (a.accepted == b.accepted) & (a.branch == b.branch) & (a.token == b.token)
    return equal
