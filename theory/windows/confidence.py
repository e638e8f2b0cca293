"""Confidence threshold: stop after a drafted token of low draft probability; the token is kept.

The rule of transformers (``assistant_confidence_threshold``) and, on greedy drafts, of llama.cpp
(``p_min``). At least one token is drafted, so every round brings evidence and no phase of bad
drafts is absorbing.
"""

from __future__ import annotations

from collections.abc import Sequence

from theory.fields import Number
from theory.models import Prefix, Rows
from theory.windows.rule import Rule
from theory.windows.scalars import below, probability

FALSE_STOP_WEIGHT = 3
"""Weight of a good token that is stopped at, against a bad one that is let through."""

ENOUGH = 5
"""The threshold is refitted once more than this many labelled tokens are known."""


def rule(threshold: Number = "2/5") -> Rule:
    """Stop after a token x with q(x) < ``threshold``.

    Raises:
        ValueError: threshold outside [0, 1].
    """
    limit = probability(threshold, "threshold")

    def stop(path: Prefix, draft: Rows) -> bool:
        return bool(path) and below(draft(path[:-1])[path[-1]], limit)

    return stop


def refit(threshold: float, labelled: Sequence[tuple[float, bool]]) -> float:
    """The threshold after a round, from pairs (q(x), whether the target agreed).

    Minimises (bad tokens let through) + 3 (good tokens stopped at), each as a share of its kind,
    over the observed q (a token passes if q >= threshold; the largest minimiser wins). Only tokens
    up to the first mismatch of a round may be labelled: later ones were never judged. The old
    threshold stays until more than five labels of both kinds are known.
    """
    good = [q for q, agreed in labelled if agreed]
    bad = [q for q, agreed in labelled if not agreed]
    if len(labelled) <= ENOUGH or not good or not bad:
        return threshold

    def loss(limit: float) -> float:
        through = sum(q >= limit for q in bad) / len(bad)
        stopped = sum(q < limit for q in good) / len(good)
        return through + FALSE_STOP_WEIGHT * stopped

    return min(sorted({q for q, _ in labelled}, reverse=True), key=loss)
