"""The trade-off over several contexts with fixed weights: when do dynamic weights help?

Context c has weight m_c (summing to 1) and rows p_c, q_c; a rule spends acceptance alpha_c there.

* Mean TV against mean acceptance: acceptance - bias = 1 - mean TV(p, q) for EVERY weight map, so
  dynamic ensemble weights can not beat a static one (:func:`mixture_point`).
* A strictly convex measure D: they can, by spending acceptance where it is cheap, i.e. with one
  price lam = dD_c/dalpha_c for all contexts (:func:`best_mixtures`); clip laws with
  lam = f'(hi_c) - f'(lo_c) are better still, and optimal (:func:`best_clips`).
* A reward r_c(x) of the emitted token: acceptance and reward are linear in every w_c, so the
  frontier is a fractional knapsack by harm/TV, harm = E_p r - E_q r (:func:`reward_frontier`).
  Where the draft earns more than the target the harm is negative: no trade-off there.

With weights m = probability that target text visits the prefix, the mean of KL(p || nu) over
positions is KL of the texts, so the same program solves sequence KL. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from theory import clip
from theory.fields import Array, Number, is_zero
from theory.laws import mixture, overlap, total_variation
from theory.pareto.divergences import DIVERGENCES, Divergence, measure
from theory.pareto.frontier import Frontier, Point, Quality

HALVINGS = 60
"""Bisection steps for prices, weights and bounds."""

LARGEST_PRICE = 1e9
"""A price at which every context spends all the acceptance it can, to float64."""


@dataclass(frozen=True)
class Context:
    """A context: how often it is visited, the target row and the draft row."""

    weight: Number
    p: Array
    q: Array


@dataclass(frozen=True)
class Allocation:
    """A setting of a rule in every context.

    Attributes:
        knobs: the weight w, or the bound hi, of each context.
        laws: the emitted law of each context.
        point: mean acceptance and mean divergence.
    """

    knobs: tuple[Number, ...]
    laws: tuple[Array, ...]
    point: Point


def mixture_point(
    contexts: Sequence[Context], weights: Sequence[Number], kind: Quality = "tv"
) -> Point:
    """Mean acceptance 1 - w TV(p, q) and mean divergence of ensemble weights w_c."""
    acceptance: Number = 0
    quality: Number = 0
    for c, w in zip(contexts, weights, strict=True):
        share = c.weight if kind == "tv" else float(c.weight)
        acceptance = acceptance + c.weight * (1 - w * total_variation(c.p, c.q))
        quality = quality + share * measure(kind, c.p, mixture(w, c.p, c.q))
    return Point(acceptance, quality, None, "ensemble")


def best_mixtures(contexts: Sequence[Context], acceptance: float, kind: Quality) -> Allocation:
    """The ensemble weights of least mean divergence at a given mean acceptance (float64).

    Raises:
        ValueError: acceptance outside [1 - mean TV, 1], or an unknown divergence.
    """
    f = _strictly_convex(kind)

    def respond(c: Context, price: float) -> tuple[float, Array]:
        gap = total_variation(c.p, c.q)

        def too_dear(w: float) -> bool:
            return bool(_mixture_slope(f, c, w) + price * gap >= 0)

        w = _bisect(too_dear, 0.0, 1.0)
        return w, mixture(w, c.p, c.q)

    return _allocate(_floats(contexts), acceptance, kind, respond, "ensemble")


def best_clips(contexts: Sequence[Context], acceptance: float, kind: Quality) -> Allocation:
    """The clip bounds of least mean divergence at a given mean acceptance: optimal for all rules.

    Raises:
        ValueError: acceptance above what laws on the support of p can reach, or below 1 - mean TV.
    """
    f = _strictly_convex(kind)

    def respond(c: Context, price: float) -> tuple[float, Array]:
        def too_dear(hi: float) -> bool:
            lo = clip.lower(c.p, c.q, hi)
            slopes = f.derivative(np.array([lo, hi]))
            return bool(slopes[1] - slopes[0] >= price)

        hi = _bisect(too_dear, 1.0, float(clip.largest_ratio(c.p, c.q)))
        return hi, clip.clip_law(c.p, c.q, hi)

    return _allocate(_floats(contexts), acceptance, kind, respond, "mentored")


def _strictly_convex(kind: str) -> Divergence:
    if kind == "tv" or kind not in DIVERGENCES:
        known = ", ".join(name for name in DIVERGENCES if name != "tv")
        raise ValueError(f"{kind!r} has no unique allocation; choose one of {known}")
    return DIVERGENCES[kind]


def _floats(contexts: Sequence[Context]) -> list[Context]:
    def row(values: Array) -> Array:
        return np.array([float(x) for x in values])

    return [Context(float(c.weight), row(c.p), row(c.q)) for c in contexts]


def _mixture_slope(f: Divergence, c: Context, w: float) -> float:
    """d/dw of D(w p + (1 - w) q); where p = 0 the mixture's mass (1 - w) q costs f.slope each."""
    inside = c.p > 0
    ratio = w + (1 - w) * c.q[inside] / c.p[inside]
    slope = (f.derivative(ratio) * (c.p - c.q)[inside]).sum()
    outside = c.q[~inside].sum()
    return float(slope - (f.slope * outside if outside > 0 else 0.0))


def _bisect(passed: Callable[[float], bool], low: float, high: float) -> float:
    """The point where an increasing predicate turns true (``high`` if it never does)."""
    if passed(low):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if passed(middle) else (middle, high)
    return high


def _allocate(
    contexts: list[Context],
    acceptance: float,
    kind: Quality,
    respond: Callable[[Context, float], tuple[float, Array]],
    rule: str,
) -> Allocation:
    """Find the price at which the mean acceptance of the responses is the wanted one."""

    def accepted(price: float) -> float:
        return float(sum(c.weight * overlap(c.q, respond(c, price)[1]) for c in contexts))

    least, most = accepted(0.0), accepted(LARGEST_PRICE)
    if not least - 1e-12 <= acceptance <= most + 1e-12:
        raise ValueError(f"acceptance {acceptance} is outside [{least:.6g}, {most:.6g}]")
    reach = np.exp(
        _bisect(lambda t: accepted(np.exp(t)) >= acceptance, -40.0, np.log(LARGEST_PRICE))
    )
    price = 0.0 if acceptance <= least else float(reach)
    responses = [respond(c, price) for c in contexts]
    laws = tuple(law for _, law in responses)
    quality = sum(c.weight * measure(kind, c.p, nu) for c, nu in zip(contexts, laws, strict=True))
    point = Point(accepted(price), quality, price, rule)
    return Allocation(tuple(knob for knob, _ in responses), laws, point)


def reward_frontier(contexts: Sequence[Context], rewards: Sequence[Array]) -> Frontier:
    """Vertices of (mean acceptance, mean reward) over all weight maps, in the rows' field.

    ``rewards[c][x]`` is earned when context c emits x. From the target everywhere (w = 1) the
    contexts are handed to the draft one by one, least harm per unit of acceptance first; between
    vertices one context is split. ``knob`` counts the contexts handed over.
    """
    items = []
    acceptance = reward = 0 * contexts[0].weight
    for c, r in zip(contexts, rewards, strict=True):
        gain, harm = c.weight * total_variation(c.p, c.q), c.weight * (r * (c.p - c.q)).sum()
        acceptance = acceptance + c.weight - gain
        reward = reward + c.weight * (r * c.p).sum()
        if not is_zero(gain):
            items.append((harm / gain, gain, harm))
    points = [Point(acceptance, reward, 0, "ensemble")]
    for handed, (_, gain, harm) in enumerate(sorted(items, key=lambda item: item[0]), start=1):
        acceptance, reward = acceptance + gain, reward - harm
        points.append(Point(acceptance, reward, handed, "ensemble"))
    return Frontier("ensemble", "acceptance", "reward", tuple(points))
