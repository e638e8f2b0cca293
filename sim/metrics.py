"""Counters of speculative decoding: one definition for each rate and length.

Per round: ``drafted`` tokens were proposed, ``accepted`` (tau) of them kept, tau + 1 emitted. The
numbers that are called "acceptance rate" elsewhere, by the names used here:

* ``per_proposed``: accepted / drafted, over all rounds.
* ``per_verified``: accepted / (accepted + rejections), the probability that a token passes given
  that all before it passed, pooled over positions (maximum likelihood under one common
  probability). A round whose drafts all pass, and a round cut off by EOS or a limit, shows no
  rejection: it is censored, not failed.
* ``mean_overlap``: mean of sum min(p, q) over the contexts that were visited.
* ``unconditional[i]``: the first i+1 drafts pass, among rounds with at least i+1 drafts.
* ``conditional[i]``: draft i+1 passes, among rounds in which the first i passed and that drafted
  it.
* ``tokens_per_call``: mean tau + 1 (block efficiency); ``mean_accepted``: mean tau.

A ratio of 0/0 is None, never NaN or 0. Totals are pooled over rounds; the mean of per-request
means is a different number and is called ``averaged``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Summary:
    """Counters of a set of rounds; see the module for the definitions."""

    rounds: int
    drafted: int
    accepted: int
    emitted: int
    rejections: int
    per_proposed: float | None
    per_verified: float | None
    mean_overlap: float | None
    mean_accepted: float | None
    tokens_per_call: float | None
    unconditional: tuple[float | None, ...]
    conditional: tuple[float | None, ...]


def ratio(numerator: float, denominator: float) -> float | None:
    """numerator / denominator, None for a zero denominator."""
    return numerator / denominator if denominator else None


def summarise(
    accepted: ArrayLike,
    drafted: ArrayLike,
    censored: ArrayLike | None = None,
    emitted: ArrayLike | None = None,
    overlap: ArrayLike | None = None,
) -> Summary:
    """All counters of rounds with ``accepted`` [n] of ``drafted`` [n] tokens.

    Args:
        censored: [n] rounds that EOS or a limit ended before a mismatch was seen.
        emitted: [n] tokens kept of every round; tau + 1 where omitted.
        overlap: overlaps of the contexts that were visited, any number.

    Raises:
        ValueError: shapes that differ, or accepted outside 0..drafted.
    """
    tau, count = _ints(accepted), _ints(drafted)
    cut = np.zeros(tau.shape, dtype=bool) if censored is None else np.asarray(censored, dtype=bool)
    kept = tau + 1 if emitted is None else _ints(emitted)
    if not tau.shape == count.shape == cut.shape == kept.shape:
        raise ValueError(
            f"accepted, drafted, censored and emitted have shapes {tau.shape}, {count.shape}, "
            f"{cut.shape}, {kept.shape}; give one entry a round"
        )
    bad = np.flatnonzero((tau < 0) | (tau > count))
    if bad.size:
        raise ValueError(
            f"round {bad[0]} accepted {tau[bad[0]]} of {count[bad[0]]} drafted tokens; padding "
            "and bonus tokens are not drafts"
        )
    overlaps = np.asarray([] if overlap is None else overlap, dtype=np.float64)
    rejections = int(((tau < count) & ~cut).sum())
    total, rounds = int(tau.sum()), int(tau.size)
    unconditional, conditional = _by_position(tau, count, cut)
    return Summary(
        rounds=rounds,
        drafted=int(count.sum()),
        accepted=total,
        emitted=int(kept.sum()),
        rejections=rejections,
        per_proposed=ratio(total, int(count.sum())),
        per_verified=ratio(total, total + rejections),
        mean_overlap=ratio(float(overlaps.sum()), overlaps.size),
        mean_accepted=ratio(total, rounds),
        tokens_per_call=ratio(total + rounds, rounds),
        unconditional=unconditional,
        conditional=conditional,
    )


def _by_position(
    tau: Ints, count: Ints, cut: NDArray[np.bool_]
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Unconditional and conditional rates; a cut round is not seen beyond what it accepted."""
    positions = range(int(count.max(initial=0)))
    seen = [(count > i) & ~(cut & (tau <= i)) for i in positions]
    passed = [(tau > i) & seen[i] for i in positions]
    unconditional = tuple(ratio(int(passed[i].sum()), int(seen[i].sum())) for i in positions)
    conditional = tuple(
        ratio(int(passed[i].sum()), int((seen[i] & (tau >= i)).sum())) for i in positions
    )
    return unconditional, conditional


def rates_from_counts(
    draft_count: Sequence[int], accept_count: Sequence[int]
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Unconditional rates by index, and conditional ones as ratios of consecutive rates.

    Args:
        draft_count: rounds with at least i+1 drafts. accept_count: rounds in which the first i+1
            drafts all passed.

    Raises:
        ValueError: lists of different length, or more accepted than drafted.
    """
    if len(draft_count) != len(accept_count):
        raise ValueError(f"{len(draft_count)} draft counts, {len(accept_count)} accept counts")
    for i, (drafts, accepts) in enumerate(zip(draft_count, accept_count, strict=True)):
        if not 0 <= accepts <= drafts:
            raise ValueError(f"index {i}: {accepts} accepted of {drafts}; swap the two lists?")
    rates = [ratio(a, d) for a, d in zip(accept_count, draft_count, strict=True)]
    before: list[float | None] = [1.0, *rates[:-1]]
    conditional = [
        None if now is None or last is None else ratio(now, last)
        for now, last in zip(rates, before, strict=True)
    ]
    return tuple(rates), tuple(conditional)


def pooled(totals: Sequence[float], rounds: Sequence[int]) -> float | None:
    """Sum of totals over sum of rounds: every round counts once."""
    return ratio(sum(totals), sum(rounds))


def averaged(totals: Sequence[float], rounds: Sequence[int]) -> float | None:
    """Mean of the per-request means: every request counts once, requests of no rounds do not."""
    means = [total / n for total, n in zip(totals, rounds, strict=True) if n]
    return ratio(sum(means), len(means))


def implied_rounds(tokens: int, accepted: int) -> int:
    """Target calls behind ``tokens`` emitted tokens: each emits one token beside its drafts."""
    return tokens - accepted


def missing_drafts(gamma: int, rounds: int, drafted: int) -> int:
    """Drafts that short rounds lack to a full window of ``gamma``."""
    return gamma * rounds - drafted


def completion_over_calls(accepted: int, rounds: int, prefill_tokens: int = 0) -> float | None:
    """All completion tokens, those of the prefill included, over verification rounds."""
    return ratio(accepted + rounds + prefill_tokens, rounds)


def real_drafts(drafts: ArrayLike, padding: int = -1) -> Ints:
    """Number of real drafts of each row [B] of padded ids [B, g].

    Raises:
        ValueError: a real id after a padding id.
    """
    ids = np.asarray(drafts, dtype=np.int64)
    real = ids != padding
    bad = np.flatnonzero((real[:, 1:] & ~real[:, :-1]).any(axis=1))
    if bad.size:
        raise ValueError(f"row {bad[0]} is {ids[bad[0]].tolist()}; put paddings at the end")
    return np.asarray(real.sum(axis=1), dtype=np.int64)


def flattened_rows(drafts: Sequence[int]) -> tuple[Ints, Ints, int]:
    """First row, bonus row [B] and number of rows when each request adds drafts + 1 rows."""
    ends = np.cumsum(np.asarray(drafts, dtype=np.int64) + 1)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    return starts, ends - 1, int(ends[-1]) if ends.size else 0


def _ints(values: ArrayLike) -> Ints:
    return np.asarray(values, dtype=np.int64).reshape(-1)
