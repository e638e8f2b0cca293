"""What an audit keeps of each sampled token: a few numbers about its place in the target's row.

A token x with target row p is summarised by p(x) and by its *place in the sorted row*: with
U = the mass of strictly likelier tokens and T = the mass of the tokens as likely as x, it owns the
share p(x)/T of the interval [U, U + T] of the unit interval. Sets and tilts of the sorted row are
then numbers without another look at the row: the set of the likeliest tokens of mass tau has
target probability exactly tau, whatever the row.

Only the ``HEAD`` likeliest tokens of a row are sorted (a partial selection); rows are read a
second time only for a token outside of them. With the draft's rows the summary also holds the
densities of q, of norm(min(p, q)) and of norm((p - q)_+) against p at the token.

Derived here. Rows are float32 or float64; sums are float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

HEAD = 64
"""Tokens of a row that are sorted."""
EDGES = (1, 4, 16, 64)
"""The rank sets: the k likeliest tokens, for these k."""
EXPONENTS = (0.5, 0.75, 1.25, 1.5)
"""Powers of p that stand for other temperatures."""
UNKNOWN = -1
"""A round place that the samples do not tell."""
BLOCK = 2**18
"""Row entries handled at once."""
SMALL = 4096
"""Vocabularies whose rows are selected from together."""


class Tokens(NamedTuple):
    """A chunk of n sampled tokens with what was known before each of them.

    log_rows: [n, V] log target rows; -inf = 0. tokens: [n] ids. context: [n] fingerprint of
    everything before the token (:func:`fingerprints`). position: [n] place in the output, from 0.
    sequence: [n] number of the sample. place: [n] tokens of the same round before it, or UNKNOWN.
    before: [n] how the round before ended (1 everything accepted, 0 a rejection) where ``place``
    is 0 and there was one, else UNKNOWN. log_draft: [n, V] log draft rows, or None.
    """

    log_rows: NDArray[np.floating]
    tokens: Ints
    context: Keys
    position: Ints
    sequence: Ints
    place: Ints
    before: Ints
    log_draft: NDArray[np.floating] | None = None


class Summary(NamedTuple):
    """Tokens without their rows, [n] each.

    p: target probability. above: U. tie: T. rank: strictly likelier tokens. ties: tokens as likely
    as x. heads: [n, EDGES] target mass of the k likeliest tokens. powers: [n, EXPONENTS] densities
    against p of the laws ~ p^e on the ``HEAD`` likeliest tokens, flat beyond. likelihood: [n, 3]
    densities of the three draft laws, or None. wins: [n, 2] whether q(x) > p(x), and the target's
    mass of such tokens, or None. vocab: length of a row. rounding: relative error of the rows'
    sums.
    """

    p: Floats
    above: Floats
    tie: Floats
    rank: Ints
    ties: Ints
    heads: Floats
    powers: Floats
    likelihood: Floats | None
    wins: Floats | None
    vocab: int
    rounding: float


def summarise(chunk: Tokens) -> Summary:
    """Summaries of a chunk.

    Tokens of target probability 0 get p = 0; the caller reports them and leaves them out.

    Raises:
        ValueError: a token outside the row, or a row that is not a law.
    """
    log_rows, tokens = chunk.log_rows, chunk.tokens
    n, vocab = log_rows.shape
    outside = (tokens < 0) | (tokens >= vocab)
    if outside.any():
        worst = int(np.argmax(outside))
        raise ValueError(
            f"sample {chunk.sequence[worst]}, position {chunk.position[worst]}: token "
            f"{tokens[worst]} is outside the target's vocabulary of {vocab}; were the samples "
            "made with another tokenizer?"
        )
    step = max(1, BLOCK // vocab)
    starts = range(0, n, step)
    parts = [_block(log_rows[i : i + step], tokens[i : i + step]) for i in starts]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    p, above, tie, rank, ties, heads, powers, mass = columns or _nothing()
    _check_rows(chunk, mass, p)
    likelihood = wins = None
    if chunk.log_draft is not None:
        drafts = [
            _draft_block(
                log_rows[i : i + step], chunk.log_draft[i : i + step], tokens[i : i + step]
            )
            for i in starts
        ]
        likelihood = np.concatenate([part[0] for part in drafts])
        wins = np.concatenate([part[1] for part in drafts])
    rounding = 2.0**-17 if log_rows.dtype == np.float32 else 2.0**-44
    return Summary(p, above, tie, rank, ties, heads, powers, likelihood, wins, vocab, rounding)


def merge(summaries: Sequence[Summary]) -> Summary:
    """The summaries of consecutive chunks as one."""
    if len(summaries) == 1:
        return summaries[0]
    first = summaries[0]
    joined: dict[str, Any] = {}
    for name in Summary._fields[:-2]:
        column = [getattr(summary, name) for summary in summaries]
        joined[name] = None if column[0] is None else np.concatenate(column)
    rounding = max(summary.rounding for summary in summaries)
    return Summary(**joined, vocab=first.vocab, rounding=rounding)


def inside(summary: Summary) -> Floats:
    """Whether each token is one of the k likeliest, [n, EDGES]; a share where a tie straddles k."""
    left = np.array(EDGES) - summary.rank[:, None]
    return np.asarray(np.clip(left / summary.ties[:, None], 0.0, 1.0), dtype=np.float64)


def covered(summary: Summary, masses: tuple[float, ...]) -> Floats:
    """The share of each token's interval below each mass, [n, masses]; its target mean is that."""
    left = np.array(masses) - summary.above[:, None]
    return np.asarray(np.clip(left / summary.tie[:, None], 0.0, 1.0), dtype=np.float64)


def _block(log_p: NDArray[np.floating], tokens: Ints) -> tuple[NDArray[Any], ...]:
    count, vocab = log_p.shape
    size = min(HEAD, vocab)
    top = np.exp(_largest(log_p, size).astype(np.float64))
    log_x = log_p[np.arange(count), tokens]
    p = np.exp(log_x.astype(np.float64))
    larger, equal = top > p[:, None], top == p[:, None]
    above = (top * larger).sum(axis=1)
    rank, ties = larger.sum(axis=1), equal.sum(axis=1)
    for i in np.flatnonzero((p <= top[:, -1]) & (p > 0)) if vocab > size else ():
        row = log_p[i]
        more = row > log_x[i]
        rank[i], ties[i] = np.count_nonzero(more), np.count_nonzero(row == log_x[i])
        above[i] = np.exp(row[more].astype(np.float64)).sum()
    ties = np.maximum(ties, 1)
    heads = np.minimum(np.cumsum(top, axis=1)[:, np.minimum(EDGES, size) - 1], 1.0)
    powers = _powers(top, p, vocab > size)
    return p, above, p * ties, rank, ties, heads, powers, top.sum(axis=1)


def _largest(log_p: NDArray[np.floating], size: int) -> NDArray[np.floating]:
    """The ``size`` largest entries of every row, descending, [b, size].

    Filtered rows are mostly -inf, on which a selection is slow; these are left out first.
    """
    count, vocab = log_p.shape
    if vocab <= SMALL:
        largest = np.partition(log_p, vocab - size, axis=1)[:, vocab - size :]
    else:
        largest = np.full((count, size), -np.inf, dtype=log_p.dtype)
        for i, row in enumerate(log_p):
            alive = row > -np.inf
            values = row if (number := np.count_nonzero(alive)) > vocab // 2 else row[alive]
            kept = min(size, max(number, 1), values.size)
            largest[i, size - kept :] = np.partition(values, values.size - kept)[-kept:]
    return np.sort(largest, axis=1)[:, ::-1]


def _powers(top: Floats, p: Floats, more: bool) -> Floats:
    """Densities against p of the laws ~ p^e on the sorted tokens, flat beyond, [b, EXPONENTS].

    ``more``: there are tokens beyond the sorted ones.
    """
    positive = top > 0
    last = top[np.arange(len(top)), np.maximum(positive.sum(axis=1) - 1, 0)]
    beyond = positive.all(axis=1) & more
    rest = np.where(beyond, np.maximum(1 - top.sum(axis=1), 0.0), 0.0)
    logs = np.log(np.where(positive, top, 1.0))
    log_last = np.log(np.maximum(last, 1e-300))
    log_x = np.maximum(np.log(np.maximum(p, 1e-300)), log_last)
    columns = []
    for exponent in EXPONENTS:
        head = np.where(positive, np.exp(exponent * logs), 0.0).sum(axis=1)
        total = head + rest * np.exp((exponent - 1) * log_last)
        columns.append(np.exp((exponent - 1) * log_x) / total)
    return np.stack(columns, axis=1)


def _draft_block(
    log_p: NDArray[np.floating], log_q: NDArray[np.floating], tokens: Ints
) -> tuple[Floats, Floats]:
    """Densities [b, 3] of q, norm(min(p, q)) and norm((p - q)_+) at the tokens; wins [b, 2]."""
    p, q = np.exp(log_p), np.exp(log_q)
    here = np.arange(len(tokens))
    px, qx = p[here, tokens].astype(np.float64), q[here, tokens].astype(np.float64)
    alpha = np.minimum(p, q).sum(axis=1).astype(np.float64)
    larger = np.einsum("bv,bv->b", p, (q > p).astype(p.dtype)).astype(np.float64)
    ratio = np.divide(qx, px, out=np.ones_like(qx), where=px > 0)
    over = np.where(alpha > 0, np.minimum(1.0, ratio) / np.maximum(alpha, 1e-300), 1.0)
    lack = 1.0 - alpha
    under = np.where(lack > 1e-4, np.maximum(1.0 - ratio, 0.0) / np.maximum(lack, 1e-4), 1.0)
    return np.stack([ratio, over, under], axis=1), np.stack([qx > px, larger], axis=1)


def _check_rows(chunk: Tokens, mass: Floats, p: Floats) -> None:
    """``mass`` [n] is that of the sorted tokens, all of them in a small vocabulary."""
    complete = chunk.log_rows.shape[1] <= HEAD
    wrong = ~(mass <= 1 + 1e-4) | (complete & ~(mass >= 1 - 1e-4)) | ~(p >= 0) | (mass <= 0)
    if wrong.any():
        worst = int(np.argmax(wrong))
        raise ValueError(
            f"the target's row at sample {chunk.sequence[worst]}, position "
            f"{chunk.position[worst]} is no law (its head has mass {mass[worst]:.6g}); give "
            "normalised log probabilities"
        )


def _nothing() -> tuple[NDArray[Any], ...]:
    empty, none = np.zeros(0), np.zeros(0, dtype=np.int64)
    tables = np.zeros((0, len(EDGES))), np.zeros((0, len(EXPONENTS)))
    return empty, empty, empty, none, none, *tables, empty


_MULTIPLIER, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def mix(keys: Keys, values: NDArray[np.integer]) -> Keys:
    """New 64-bit keys from keys and integers, element by element."""
    z = keys * _MULTIPLIER + values.astype(np.uint64) + np.uint64(1)
    z = (z ^ (z >> np.uint64(30))) * _MIX
    return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)


def fingerprints(prompt: Keys, outputs: Ints) -> Keys:
    """Keys [B, L] of everything before each output token; ``outputs`` [B, L], ``prompt`` [B]."""
    keys = np.empty(outputs.shape, dtype=np.uint64)
    state = prompt
    for i in range(outputs.shape[1]):
        keys[:, i] = state
        state = mix(state, outputs[:, i])
    return keys


def prompt_key(prompt: NDArray[np.integer] | list[int]) -> np.uint64:
    """A fingerprint of a prompt."""
    key = np.zeros(1, dtype=np.uint64)
    for token in prompt:
        key = mix(key, np.array([token], dtype=np.int64))
    return np.uint64(key[0])
