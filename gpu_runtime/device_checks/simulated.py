"""Generations simulated on the device of a kernel, from tables of rows, millions at a time.

The same rounds as ``sim.rounds``, with everything in tensors: a stateless rule drafts at most
``remaining - 1`` tokens, a stateful one always gamma, the surplus being cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sim.rows import RowTable
from sim.verifiers import ArrayVerifier, Verdict


class Table(NamedTuple):
    """A row table on a device: log_rows [S, V] float32, cumulative [S, V] float64, step [S, V]."""

    log_rows: Tensor
    cumulative: Tensor
    step: Tensor


class Simulated(NamedTuple):
    """tokens: [n, horizon]. accepted: [n] of the first rounds. rounds: how many were verified."""

    tokens: Tensor
    accepted: Tensor
    rounds: int


class Setup(NamedTuple):
    """How generations are run: ``verify`` stands for the rule's array function."""

    rule: ArrayVerifier
    verify: Callable[..., Verdict]
    gamma: int
    num_drafts: int
    horizon: int


def to_device(table: RowTable, device: torch.device) -> Table:
    """The table's float32 log rows, and the cumulative rows of those very laws."""
    log_rows = torch.from_numpy(table.log_rows).to(device, torch.float32)
    law = torch.softmax(log_rows.double(), dim=-1)
    cumulative = law.cumsum(-1)
    last = (law > 0).long().cumsum(-1).argmax(-1, keepdim=True)
    places = torch.arange(law.shape[1], device=device)
    cumulative = cumulative.masked_fill(places >= last, 1.0)
    return Table(log_rows, cumulative, torch.from_numpy(table.step).to(device))


def generations(
    tables: tuple[Table, Table], setup: Setup, count: int, generator: torch.Generator
) -> Simulated:
    """``count`` independent generations of ``setup.horizon`` tokens from the empty context.

    Args:
        tables: of the target and of the draft.
    """
    device, horizon = generator.device, setup.horizon
    tokens = torch.full((count, horizon + setup.gamma + 1), -1, device=device)
    ids = torch.arange(count, device=device)
    at = torch.zeros_like(ids)
    states: tuple[Tensor, ...] = at, at
    carry: Any = None
    rounds, first = 0, at
    while ids.numel():
        drafts, along = _draft(tables, states, setup, generator)
        slots = setup.rule.slots(setup.gamma, setup.num_drafts)
        shape = (ids.numel(), slots)
        tape = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        room = (horizon - at - 1).clamp(max=setup.gamma)
        lengths = None if setup.rule.stateful else room
        rows = tables[0].log_rows[along[0]], tables[1].log_rows[along[1][:, :, :-1]]
        verdict = setup.verify(*rows, drafts, tape, lengths, carry, validate=False)
        first = verdict.accepted if rounds == 0 else first
        rounds += ids.numel()
        _emit(tokens, ids, at, drafts, verdict)
        index = torch.arange(ids.numel(), device=device)
        kept = (index, verdict.branch, verdict.accepted)
        states = tuple(
            table.step[path[kept], verdict.token] for table, path in zip(tables, along, strict=True)
        )
        at = at + verdict.accepted + 1
        going = at < horizon
        ids, at, states = ids[going], at[going], tuple(part[going] for part in states)
        carry = _kept(verdict.carry, going)
    return Simulated(tokens[:, :horizon], first, rounds)


def _kept(carry: Any, rows: Tensor) -> Any:
    """The rows of a carry: a tensor, a named tuple of carries, or nothing."""
    if carry is None or isinstance(carry, Tensor):
        return carry if carry is None else carry[rows]
    return type(carry)(*(_kept(part, rows) for part in carry))


def _draft(
    tables: tuple[Table, Table],
    states: tuple[Tensor, ...],
    setup: Setup,
    generator: torch.Generator,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Drafts [n, K, g] and the states [n, K, g+1] of both models along them."""
    target, draft = tables
    p_state, q_state = (part[:, None].expand(-1, setup.num_drafts) for part in states)
    tokens, p_along, q_along = [], [p_state], [q_state]
    for _ in range(setup.gamma):
        shape = (*q_state.shape, 1)
        noise = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
        token = (draft.cumulative[q_state] <= noise).sum(-1)
        p_state, q_state = target.step[p_state, token], draft.step[q_state, token]
        tokens.append(token)
        p_along.append(p_state)
        q_along.append(q_state)
    return torch.stack(tokens, 2), (torch.stack(p_along, 2), torch.stack(q_along, 2))


def _emit(tokens: Tensor, ids: Tensor, at: Tensor, drafts: Tensor, verdict: Verdict) -> None:
    """Write the emitted tokens of one round; what lies beyond the horizon is cut off later."""
    gamma = drafts.shape[2]
    index = torch.arange(ids.numel(), device=ids.device)
    for i in range(gamma + 1):
        value = drafts[index, verdict.branch, i] if i < gamma else verdict.token
        value = torch.where(i < verdict.accepted, value, verdict.token)
        inside = i <= verdict.accepted
        tokens[ids[inside], (at + i)[inside]] = value[inside]
