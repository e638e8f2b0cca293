"""The clip law: one position's best law for every f-divergence at once.

For bounds lo <= 1 <= hi tied by normalisation,

    nu*(x) = clip(q(x), lo p(x), hi p(x)) = max{lo p, min{q, hi p}},    alpha = sum min(q, hi p),

minimises EVERY D_f(nu, p) = sum p f(nu/p) with f convex (both KL directions, chi2, Hellinger, JS,
hockey-stick, TV) among the laws that a rule with acceptance probability >= alpha can emit.
Proof: lam = f'(hi) - f'(lo) >= 0; g_x(nu) = p f(nu/p) - lam min(nu, q) - f'(lo) nu is convex and
0 is in its subdifferential at nu*(x) in each of the three regimes; summed over x,

    D_f(nu) - D_f(nu*) >= lam (alpha(nu) - alpha(nu*))    for every law nu.

So there is one acceptance path, from p (hi = 1) to q restricted to the support of p.

Exact at a given ``hi`` or acceptance (both maps are piecewise linear); a KL budget needs floats.
Sources: mentored decoding (Tran-Thien 2023; Tran-Thien and Nock, arXiv 2609.30474); the universal
optimality is derived here.
"""

from __future__ import annotations

from theory.fields import FLOAT, Array, Number, field_of, maximum, minimum
from theory.laws import kl, overlap

HALVINGS = 100
"""Bisection steps for a KL budget; the bracket then is below the float spacing."""


def lower(p: Array, q: Array, hi: Number) -> Number:
    """The lo that normalises clip(q, lo p, hi p): 1 at hi = 1, falling in hi.

    sum max(lo p, min(q, hi p)) is piecewise linear and increasing in lo; the tokens raised to
    lo p are those of smallest min(q, hi p)/p, so they are added in that order until consistent.

    Raises:
        ValueError: hi below 1 (no law fits under hi p).
    """
    if hi < 1:
        raise ValueError(f"hi = {hi} is below 1; no law is everywhere at most hi p")
    capped = minimum(q, hi * p)
    order = sorted((x for x in range(len(p)) if p[x] > 0), key=lambda x: capped[x] / p[x])
    missing, mass = 1 - capped.sum(), 0 * p[0]
    for place, x in enumerate(order):
        mass = mass + p[x]
        missing = missing + capped[x]
        lo = missing / mass
        if place + 1 == len(order) or lo * p[order[place + 1]] <= capped[order[place + 1]]:
            return minimum(lo, field_of(p).one)
    raise ValueError("p has no mass; give a law")


def clip_law(p: Array, q: Array, hi: Number) -> Array:
    """nu* at a given upper bound."""
    return maximum(lower(p, q, hi) * p, minimum(q, hi * p))  # type: ignore[no-any-return]


def largest_ratio(p: Array, q: Array) -> Number:
    """The hi beyond which nothing changes: max q/p on the support of p, at least 1."""
    ratios = [q[x] / p[x] for x in range(len(p)) if p[x] > 0]
    return max([*ratios, field_of(p).one])


def upper_for_acceptance(p: Array, q: Array, alpha: Number) -> Number:
    """The least hi >= 1 with sum min(q, hi p) >= alpha, exactly.

    Raises:
        ValueError: alpha above the mass of q on the support of p.
    """
    if overlap(p, q) >= alpha:
        return field_of(p).one
    ratios = sorted((q[x] / p[x], x) for x in range(len(p)) if p[x] > 0 and q[x] > p[x])
    full = sum((q[x] for x in range(len(p)) if p[x] > 0 and q[x] <= p[x]), start=0 * p[0])
    rising = sum((p[x] for _, x in ratios), start=0 * p[0])
    for ratio, x in ratios:
        if full + ratio * rising >= alpha:
            return (alpha - full) / rising
        full, rising = full + q[x], rising - p[x]
    raise ValueError(f"acceptance {alpha} is above {full}, the mass that q has where p is positive")


def upper_for_kl(p: Array, q: Array, budget: float) -> float:
    """The largest hi whose law has KL(p || nu*) <= budget (nats), by bisection.

    Raises:
        ValueError: a negative budget, or exact rows (logarithms are irrational).
    """
    if field_of(p) is not FLOAT:
        raise ValueError("a KL budget is irrational; use field='float', or give hi")
    if budget < 0:
        raise ValueError(f"budget = {budget} is negative; use 0 (lossless) or more")
    low, high = 1.0, float(largest_ratio(p, q))
    if kl(p, clip_law(p, q, high)) <= budget:
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(p, clip_law(p, q, middle)) <= budget else (low, middle)
    return low
