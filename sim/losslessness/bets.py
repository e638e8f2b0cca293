"""The bets of the audit: for each alternative b of the target's row p the factor b(x)/p(x).

Under a correct engine every factor has mean 1 given the past (at most 1 where mass is wasted), so
products of them are test martingales. Families, each over a small grid of strengths:

* ``sharp``: mass moved along the sorted row. With U, T as in ``observations`` any distribution
  function G of [0, 1] gives b(x) = (G(U + T) - G(U)) p/T. Here G(u) = u^a: a < 1 favours the head
  (a temperature too low, greedy decoding), a > 1 the tail.
* ``nucleus``: a share of the text is drawn from the likeliest tokens of mass tau (top-p).
* ``tail``: a share is drawn from the other tokens.
* ``temperature``: b ~ p^e on the ``HEAD`` likeliest tokens, flat beyond.
* ``rank``: the k likeliest tokens are over- or under-weighted (top-k mismatch, head and tail).
* ``leak``: a share is uniform over the vocabulary (clamped residuals).
* ``draft``: a share follows q, norm(min(p, q)) or norm((p - q)_+): what always accepting, drawing
  corrections from p and losing corrections lead to. Only with the draft's rows.
* ``memory``: what followed the same context before (``sim.losslessness.memory``), on the first
  one, two or all positions.
* ``place``: some of the above, on the tokens of one place in the round only, and what followed
  the same context at the same place. Places are known before the token is: how many tokens of its
  round precede it, and how the round before ended.

Derived here; betting: Shafer 2021, Ramdas et al. 2023.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.losslessness import memory
from sim.losslessness.observations import EDGES, EXPONENTS, Floats, Ints, Summary, inside

POWERS = (0.6, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.6)
CUTS = (0.5, 0.8, 0.9, 0.95, 0.99)
NUCLEUS_SHARES = (0.1, 0.5, 0.95)
TAIL_SHARES = (0.02, 0.1, 0.5)
EXPONENT_SHARES = (0.05, 0.2, 1.0)
WEIGHTS = (0.25, 0.67, 0.9, 1.1, 1.5, 4.0)
LEAKS = (0.001, 0.01, 0.1)
DRAFT_LAWS = ("q", "min(p, q)", "(p - q)+")
DRAFT_SHARES = (0.02, 0.1, 0.3, 0.9)
DEPTHS = (1, 2, 2**62)
PLACES = ("first", "second", "third", "later", "after a rejection", "after a full acceptance")


class Bet(NamedTuple):
    """One bet: its family and what it says, in words."""

    family: str
    label: str


class Round(NamedTuple):
    """What is known of each token's round before it is drawn, [n] each (see ``Tokens``)."""

    position: Ints
    place: Ints
    before: Ints


@cache
def bets(draft: bool, places: bool) -> tuple[Bet, ...]:
    """All bets, in the order of the columns of :func:`factors`."""
    listed = _global_bets(draft)
    for depth in DEPTHS:
        where = "any position" if depth == DEPTHS[-1] else f"position below {depth}"
        listed += [Bet("memory", f"{where}, c = {c:g}") for c in memory.CONCENTRATIONS]
    if places:
        local = [bet for bet in _global_bets(draft) if _is_local(bet)]
        listed += [Bet("place", f"{p}: {b.family}, {b.label}") for p in PLACES for b in local]
        listed += [Bet("place", f"memory, c = {c:g}") for c in memory.CONCENTRATIONS]
    return tuple(listed)


@cache
def prior(draft: bool, places: bool) -> Floats:
    """Weights of the bets: equal for every family, then equal within it, [bets]."""
    families = [bet.family for bet in bets(draft, places)]
    sizes = {family: families.count(family) for family in families}
    return np.array([1 / (len(sizes) * sizes[family]) for family in families])


def factors(
    summary: Summary,
    where: Round,
    recalled: tuple[Ints, Ints],
    placed: tuple[Ints, Ints] | None = None,
) -> Floats:
    """The factors [n, bets] of the tokens.

    Args:
        recalled: what ``Memory.recall`` gave for the tokens.
        placed: the same for contexts told apart by place; None without bets on places.
    """
    draft = summary.likelihood is not None
    columns = [*_sorted_row(summary), *_tilts(summary)]
    if summary.likelihood is not None:
        columns.append(_shares(DRAFT_SHARES, summary.likelihood))
    everywhere = np.concatenate(columns, axis=1)
    remembered = memory.factors(*recalled, summary.p)
    parts = [everywhere]
    for depth in DEPTHS:
        parts.append(np.where((where.position < depth)[:, None], remembered, 1.0))
    if placed is not None:
        local = everywhere[:, [_is_local(bet) for bet in _global_bets(draft)]]
        parts += [np.where(at_place(where, place)[:, None], local, 1.0) for place in PLACES]
        parts.append(memory.factors(*placed, summary.p))
    return np.concatenate(parts, axis=1)


def at_place(where: Round, place: str) -> NDArray[np.bool_]:
    """Which tokens are at one of ``PLACES``, [n]."""
    index = PLACES.index(place)
    if index < 3:
        return np.asarray(where.place == index)
    if index == 3:
        return np.asarray(where.place >= 3)
    return np.asarray((where.place == 0) & (where.before == index - 4))


def _global_bets(draft: bool) -> list[Bet]:
    listed = [Bet("sharp", f"a = {a:g}") for a in POWERS]
    listed += [Bet("nucleus", f"{_percent(s)} of mass {c:g}") for c in CUTS for s in NUCLEUS_SHARES]
    listed += [Bet("tail", f"{_percent(s)} beyond mass {c:g}") for c in CUTS for s in TAIL_SHARES]
    listed += [
        Bet("temperature", f"{_percent(s)} of p^{e:g}") for e in EXPONENTS for s in EXPONENT_SHARES
    ]
    listed += [Bet("rank", f"top {k} times {w:g}") for k in EDGES for w in WEIGHTS]
    listed += [Bet("leak", f"{_percent(s)} uniform") for s in LEAKS]
    if draft:
        listed += [Bet("draft", f"{_percent(s)} of {d}") for d in DRAFT_LAWS for s in DRAFT_SHARES]
    return listed


def _is_local(bet: Bet) -> bool:
    """Whether a bet is also made at single places."""
    if bet.family == "sharp":
        return bet.label in ("a = 0.8", "a = 0.95", "a = 1.05", "a = 1.25")
    return bet.family == "draft" and bet.label.startswith(("10 %", "90 %"))


def _sorted_row(s: Summary) -> list[Floats]:
    """``sharp``, ``nucleus`` and ``tail``."""
    low, high = np.minimum(s.above, 1.0)[:, None], np.minimum(s.above + s.tie, 1.0)[:, None]
    tie, a, cut = s.tie[:, None], np.array(POWERS), np.array(CUTS)
    middle = (low + high) / 2
    sharp = np.where(tie > 1e-7 * high, (high**a - low**a) / tie, a * middle ** (a - 1))
    kept = (np.minimum(high, cut) - np.minimum(low, cut)) / tie / cut
    dropped = (np.maximum(high, cut) - np.maximum(low, cut)) / tie / (1 - cut)
    return [sharp, _shares(NUCLEUS_SHARES, kept), _shares(TAIL_SHARES, dropped)]


def _tilts(s: Summary) -> list[Floats]:
    """``temperature``, ``rank`` and ``leak``."""
    extra, n = np.array(WEIGHTS) - 1, len(s.p)
    rank = (1 + inside(s)[:, :, None] * extra) / (1 + s.heads[:, :, None] * extra)
    uniform = (1 / (s.vocab * s.p))[:, None]
    return [_shares(EXPONENT_SHARES, s.powers), rank.reshape(n, -1), _shares(LEAKS, uniform)]


def _shares(shares: tuple[float, ...], densities: Floats) -> Floats:
    """The mixtures (1 - share) p + share b as densities against p, [n, laws * shares]."""
    share = np.array(shares)
    mixed = 1 - share + share * densities[:, :, None]
    return np.asarray(mixed.reshape(len(densities), -1), dtype=np.float64)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
