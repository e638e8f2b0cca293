"""The i.i.d. formula against the truth: which mean acceptance is plugged in, and what it costs.

1 + alpha + ... + alpha^gamma is convex in alpha and treats all positions alike. Plugging in

* the mean over block starts under-estimates when acceptance varies between blocks but not within
  one (Jensen): half the blocks at 0, half at 1 give 1 + gamma/2 tokens per call against
  2 (1 - 2^(-gamma - 1)), a ratio without bound;
* the rate per verified token, accepted/(accepted + refused), over-estimates there: refusals end a
  block early, so hard stretches are verified less often than they are met;
* the mean over output tokens is exact if acceptance is independent from token to token, too high
  if it is persistent and too low if it alternates.

Whatever the order of a 0/1 stream of acceptances with mean f over output tokens,

    1/((1 - f) + f/(gamma + 1))  <=  tokens per call  <=  min(gamma + 1, 1/(1 - f)) .

Always exact: tokens per call = 1 + gamma * accepted/proposed. Derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from theory.accepted_length.calls import Flows, block_chain, stationary
from theory.accepted_length.iid import tokens_per_call
from theory.fields import Array, Number


@dataclass(frozen=True)
class PlugIn:
    """One mean acceptance and what the i.i.d. formula makes of it.

    Attributes:
        alpha: the mean.
        predicted: 1 + alpha + ... + alpha^gamma.
        error: predicted minus true tokens per call.
    """

    alpha: Number
    predicted: Number
    error: Number


def plug_ins(flows: Flows, gamma: int) -> dict[str, PlugIn]:
    """The long-run i.i.d. predictions by the mean they use: "block_start", "verified", "token".

    Raises:
        ValueError: several recurrent classes.
    """
    moves, tokens = block_chain(flows, gamma)
    starts = stationary(moves)
    rate = (starts * tokens).sum()
    alpha: Array = flows.kept.sum(axis=-1)
    kept = flows.matrix(flows.kept)
    visits = here = starts
    for _ in range(gamma):
        here = here @ kept
        visits = visits + here
    refused = 1 - here.sum()
    means = {
        "block_start": (starts * alpha).sum(),
        "verified": (rate - 1) / (rate - 1 + refused),
        "token": (visits * alpha).sum() / rate,
    }
    predictions = {name: tokens_per_call(mean, gamma) for name, mean in means.items()}
    return {
        name: PlugIn(mean, predictions[name], predictions[name] - rate)
        for name, mean in means.items()
    }


def stream_bounds(f: Number, gamma: int) -> tuple[Number, Number]:
    """Least and largest tokens per call of 0/1 acceptance streams with mean ``f``."""
    least = 1 / ((1 - f) + f / (gamma + 1))
    return least, (gamma + 1 if f == 1 else min(gamma + 1 + 0 * f, 1 / (1 - f)))


def stream_rate(stream: Sequence[int], gamma: int, start: int = 0) -> tuple[int, int]:
    """(tokens, calls) of one cycle on a periodic 0/1 stream, entered with a block at ``start``."""
    period, place, tokens = len(stream), start % len(stream), 0
    seen: dict[int, tuple[int, int]] = {}
    calls = 0
    while place not in seen:
        seen[place] = (tokens, calls)
        kept = 0
        while kept < gamma and stream[(place + kept) % period]:
            kept += 1
        tokens, calls = tokens + kept + 1, calls + 1
        place = (place + kept + 1) % period
    return tokens - seen[place][0], calls - seen[place][1]
