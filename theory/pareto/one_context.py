"""The trade-off at one context: how much bias does acceptance cost?

For ANY rule that judges one drafted token, alpha <= sum min(q, nu) = 1 - TV(q, nu) (coupling) and
TV(p, nu) >= TV(p, q) - TV(q, nu), hence

    bias = TV(p, nu) >= alpha - (1 - TV(p, q)),

a frontier of slope exactly 1 and length TV(p, q). Equality holds iff the coupling is maximal and
nu lies in the box min(p, q) <= nu <= max(p, q): static mixtures are optimal but not unique (clip
laws, lenience with the stock residual, any switch between p and q are optimal as well). For other
divergences the optimum is the clip law (``theory.clip``) and mixtures miss it.

With the acceptances b(x) fixed, the least bias over all corrections is sum (b q - p)_+.

Derived here; the last statement is the loss of Yin et al. (arXiv 2411.00841).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from theory import clip
from theory.fields import Array, Number, field_of, maximum, minimum, positive_part
from theory.laws import overlap, total_variation
from theory.pareto.divergences import measure as divergence
from theory.pareto.frontier import Frontier, Point, Quality
from theory.pareto.linear import Program, Terms, value
from theory.verifiers.relaxed import load_rule


def least_bias(p: Array, q: Array, alpha: Number) -> Number:
    """The least TV(p, nu) of any rule with acceptance probability ``alpha``.

    Raises:
        ValueError: alpha above 1.
    """
    if alpha > 1:
        raise ValueError(f"acceptance {alpha} is above 1; no rule accepts more than everything")
    return positive_part(alpha - overlap(p, q))


def least_bias_given(p: Array, q: Array, accept: Array) -> Number:
    """The least bias over all corrections, when x is accepted with probability ``accept[x]``."""
    return positive_part(accept * q - p).sum()


def in_box(p: Array, q: Array, nu: Array) -> bool:
    """Whether nu lies between p and q at every token."""
    return bool(np.all(minimum(p, q) <= nu) and np.all(nu <= maximum(p, q)))


def excess_bias(rule: str, p: Array, q: Array, /, **params: Any) -> Number:
    """Bias of a rule above the frontier at its own acceptance: 0 exactly on the frontier.

    A rule that accepts less than 1 - TV(p, q) pays for what it wastes as well.
    """
    here = load_rule(rule).position(p, q, **params)
    return total_variation(p, here.law(q)) - (here.alpha(q) - overlap(p, q))


def least_bias_lp(p: Array, q: Array, alpha: float) -> float:
    """The same least bias from a linear program over (nu, kept mass), in float64.

    Over nu, k, e >= 0: min sum e with e >= nu - p, k <= min(q, nu), sum nu = 1, sum k >= alpha.

    Raises:
        ValueError: no rule accepts that much.
    """
    program = Program()
    law, kept, excess = (program.variables(len(p)) for _ in range(3))
    for x in range(len(p)):
        program.at_most([(law[x], 1.0), (excess[x], -1.0)], float(p[x]))
        program.at_most([(kept[x], 1.0)], float(q[x]))
        program.at_most([(kept[x], 1.0), (law[x], -1.0)], 0.0)
    program.equal([(x, 1.0) for x in law], 1.0)
    program.at_least([(x, 1.0) for x in kept], alpha)
    bias: Terms = [(x, 1.0) for x in excess]
    return value(bias, program.minimise(bias))


def sweep(
    rule: str,
    p: Array,
    q: Array,
    knob: str,
    values: Iterable[Number | str],
    /,
    measure: Quality = "tv",
    label: str | None = None,
    **params: Any,
) -> Frontier:
    """The curve of a lossy rule as its parameter ``knob`` takes ``values``; the rest is fixed."""
    module, name, points = load_rule(rule), label or rule, []
    for setting in values:
        settings = {**params, knob: setting}
        here = module.position(p, q, **settings)
        quality = divergence(measure, p, module.declared(p, q, **settings))
        points.append(Point(here.alpha(q), quality, setting, name))
    return Frontier(name, "acceptance", measure, tuple(points))


def best(p: Array, q: Array, steps: int = 32, measure: Quality = "tv") -> Frontier:
    """The frontier of all rules: clip laws at equal steps of acceptance, from p towards q.

    It ends at the mass of q on the support of p; what accepts more must emit tokens of p = 0.
    """
    field = field_of(p)
    low, high = overlap(p, q), sum(q[x] for x in range(len(p)) if p[x] > 0)
    points = []
    for step in range(steps + 1):
        alpha = low + (high - low) * field.number(step) / steps
        hi = clip.upper_for_acceptance(p, q, minimum(alpha, high))
        nu = clip.clip_law(p, q, hi)
        points.append(Point(overlap(q, nu), divergence(measure, p, nu), hi, "best"))
    return Frontier("best", "acceptance", measure, tuple(points))
