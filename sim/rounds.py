"""Simulated rounds and whole generations, vectorised over requests.

A round drafts K i.i.d. blocks of gamma tokens from the draft rows, reads the target rows of every
drafted prefix, and hands both with a tape of uniforms to an array verifier. A generation repeats
rounds until ``horizon`` tokens are emitted, as an engine does: a stateless verifier drafts at most
``remaining - 1`` tokens, so that no token is cut off; a stateful one always drafts gamma tokens
and the surplus is cut. Work is split into chunks with a random stream each (spawned from the
given generator), so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from sim.rows import Floats, Ints, OnePrefix, RowSource, RowTable, tabulate
from sim.verifiers import ArrayVerifier, Verdict, get

Source = RowSource | OnePrefix | RowTable
T = TypeVar("T")

CHUNK = 16384
"""Rounds simulated at once: small enough for the cache, large enough to hide Python's cost."""


class Drafted(NamedTuple):
    """Drafts of a batch. tokens: [n, K, g]. target, draft: [n, K, g+1] states along each draft."""

    tokens: Ints
    target: Ints
    draft: Ints


class Generations(NamedTuple):
    """Simulated generations.

    tokens: [n, horizon]. calls: [n] target calls. accepted: [n, horizon] accepted length of every
    round, -1 after the last one.
    """

    tokens: Ints
    calls: Ints
    accepted: Ints


def simulate_rounds(
    target: Source,
    draft: Source,
    verifier: ArrayVerifier | str,
    gamma: int,
    num_drafts: int,
    rounds: int,
    rng: Generator,
    *,
    workers: int = 1,
) -> Ints:
    """Accepted lengths [rounds] of independent first rounds (empty context, no carry).

    Raises:
        ValueError: unknown verifier, several drafts for a single-draft rule, unusable models.
    """
    rule, p, q = _setup(target, draft, verifier, gamma, num_drafts, gamma)

    def chunk(size: int, stream: Generator) -> Ints:
        root = np.zeros(size, dtype=np.int64)
        drafted = draft_blocks(p, q, root, root, gamma, num_drafts, stream)
        uniforms = stream.random((size, rule.slots(gamma, num_drafts)))
        return np.asarray(_verify(rule, p, q, drafted, uniforms).accepted)

    return np.concatenate(_map(chunk, rounds, rng, workers))


def simulate_survival(
    target: Source,
    draft: Source,
    verifier: ArrayVerifier | str,
    gamma: int,
    num_drafts: int,
    rounds: int,
    rng: Generator,
    *,
    workers: int = 1,
) -> Floats:
    """P(tau >= i | drafted tokens) [rounds, gamma] of independent first rounds.

    The mean over rounds of the sum over i is a Rao-Blackwellised estimate of E[tau].

    Raises:
        ValueError: as ``simulate_rounds``, or a rule that offers no survival function.
    """
    rule, p, q = _setup(target, draft, verifier, gamma, num_drafts, gamma)
    if rule.survival is None:
        raise ValueError(f"{rule.name!r} offers no survival function; use simulate_rounds")
    survival = rule.survival

    def chunk(size: int, stream: Generator) -> Floats:
        root = np.zeros(size, dtype=np.int64)
        drafted = draft_blocks(p, q, root, root, gamma, num_drafts, stream)
        rows = p.rows(drafted.target), q.rows(drafted.draft[:, :, :-1])
        return np.asarray(survival(*rows, drafted.tokens))

    return np.concatenate(_map(chunk, rounds, rng, workers))


def simulate_generations(
    target: Source,
    draft: Source,
    verifier: ArrayVerifier | str,
    gamma: int,
    num_drafts: int,
    horizon: int,
    n: int,
    rng: Generator,
    *,
    drawn: Source | None = None,
    workers: int = 1,
) -> Generations:
    """``n`` independent generations of ``horizon`` tokens.

    Args:
        drawn: the rows that drafts are really drawn from, where those handed to the verifier are
            others (a fault; ``sim.mutants``).

    Raises:
        ValueError: as ``simulate_rounds``, or a horizon below 1.
    """
    if horizon < 1:
        raise ValueError(f"horizon is {horizon}; generate at least one token")
    rule = get(verifier) if isinstance(verifier, str) else verifier
    depth = horizon - 1 + (gamma if rule.stateful else 0)
    rule, p, q = _setup(target, draft, rule, gamma, num_drafts, depth)
    source = q if drawn is None else tabulate(drawn, depth)

    def chunk(size: int, stream: Generator) -> Generations:
        return _generate(rule, p, q, source, gamma, num_drafts, horizon, size, stream)

    parts = _map(chunk, n, rng, workers)
    return Generations(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _generate(
    rule: ArrayVerifier,
    p: RowTable,
    q: RowTable,
    source: RowTable,
    gamma: int,
    num_drafts: int,
    horizon: int,
    size: int,
    rng: Generator,
) -> Generations:
    """One chunk of generations; only unfinished requests stay in the arrays."""
    out = Generations(
        np.full((size, horizon), -1), np.zeros(size, dtype=np.int64), np.full((size, horizon), -1)
    )
    ids, at = np.arange(size), np.zeros(size, dtype=np.int64)
    p_state, q_state = np.zeros_like(at), np.zeros_like(at)
    carry: Any = None
    while ids.size:
        drafted = draft_blocks(p, source, p_state, q_state, gamma, num_drafts, rng)
        uniforms = rng.random((ids.size, rule.slots(gamma, num_drafts)))
        lengths = None if rule.stateful else np.minimum(gamma, horizon - at - 1)
        verdict = _verify(rule, p, q, drafted, uniforms, lengths, carry)
        out.accepted[ids, out.calls[ids]] = verdict.accepted
        out.calls[ids] += 1
        _emit(out.tokens, ids, at, drafted, verdict)
        rows = np.arange(ids.size)
        p_state = p.after(drafted.target[rows, verdict.branch, verdict.accepted], verdict.token)
        q_state = q.after(drafted.draft[rows, verdict.branch, verdict.accepted], verdict.token)
        at = at + verdict.accepted + 1
        going = at < horizon
        ids, at, p_state, q_state = ids[going], at[going], p_state[going], q_state[going]
        carry = verdict.carry
        if carry is not None:
            carry = type(carry)(*(part[going] for part in carry))
    return out


def _emit(tokens: Ints, ids: Ints, at: Ints, drafted: Drafted, verdict: Verdict) -> None:
    """Write the emitted tokens of one round that lie within the horizon."""
    rows, gamma = np.arange(ids.size), drafted.tokens.shape[2]
    for i in range(gamma + 1):
        value = verdict.token
        if i < gamma:
            kept = drafted.tokens[rows, verdict.branch, i]
            value = np.where(i < verdict.accepted, kept, value)
        inside = (i <= verdict.accepted) & (at + i < tokens.shape[1])
        tokens[ids[inside], at[inside] + i] = value[inside]


def _setup(
    target: Source,
    draft: Source,
    verifier: ArrayVerifier | str,
    gamma: int,
    num_drafts: int,
    depth: int,
) -> tuple[ArrayVerifier, RowTable, RowTable]:
    rule = get(verifier) if isinstance(verifier, str) else verifier
    if gamma < 0 or num_drafts < 1:
        raise ValueError(f"gamma={gamma}, num_drafts={num_drafts}; use gamma >= 0, num_drafts >= 1")
    if num_drafts > 1 and not rule.multi_draft:
        raise ValueError(f"{rule.name!r} verifies one draft, got num_drafts={num_drafts}")
    p, q = tabulate(target, depth), tabulate(draft, depth)
    if p.vocab != q.vocab:
        raise ValueError(
            f"target has {p.vocab} tokens, draft has {q.vocab}; extend the smaller with zeros"
        )
    return rule, p, q


def draft_blocks(
    p: RowTable,
    q: RowTable,
    p_state: Ints,
    q_state: Ints,
    gamma: int,
    num_drafts: int,
    rng: Generator,
) -> Drafted:
    """K drafts of gamma tokens for every request, with the states along them."""
    shape = (p_state.size, num_drafts)
    out = Drafted(
        np.empty((*shape, gamma), dtype=np.int64),
        np.empty((*shape, gamma + 1), dtype=np.int64),
        np.empty((*shape, gamma + 1), dtype=np.int64),
    )
    out.target[:, :, 0], out.draft[:, :, 0] = p_state[:, None], q_state[:, None]
    for i in range(gamma):
        token = q.draw(out.draft[:, :, i], rng.random(shape))
        out.tokens[:, :, i] = token
        out.target[:, :, i + 1] = p.after(out.target[:, :, i], token)
        out.draft[:, :, i + 1] = q.after(out.draft[:, :, i], token)
    return out


def _verify(
    rule: ArrayVerifier,
    p: RowTable,
    q: RowTable,
    drafted: Drafted,
    uniforms: Floats,
    lengths: Ints | None = None,
    carry: Any = None,
) -> Verdict:
    log_p = p.rows(drafted.target)
    log_q = q.rows(drafted.draft[:, :, :-1])
    return rule.verify(log_p, log_q, drafted.tokens, uniforms, lengths, carry, validate=False)


def _map(chunk: Callable[[int, Generator], T], total: int, rng: Generator, workers: int) -> list[T]:
    """Run ``chunk(size, stream)`` over pieces of ``total``, in order, on ``workers`` threads."""
    sizes = [min(CHUNK, total - start) for start in range(0, total, CHUNK)] or [0]
    streams = rng.spawn(len(sizes))
    if workers <= 1:
        return [chunk(size, stream) for size, stream in zip(sizes, streams, strict=True)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(chunk, sizes, streams))
