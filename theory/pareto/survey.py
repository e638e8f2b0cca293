"""All relaxed rules on one picture: at one context, or at equal target calls over whole texts.

Every rule is swept over its knob, from exact (or nearly) to all it can give; the static ensemble
is one of the curves. Knobs are not comparable between rules; acceptance and calls are. The best
any rule can do is ``one_context.best`` and, against calls, ``calls.calls_frontier``.

Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from theory.declared import Declared, predict
from theory.fields import Array
from theory.generation import autoregressive, distance
from theory.models import Model
from theory.pareto.frontier import Frontier, Point, Quality
from theory.pareto.one_context import best, sweep


@dataclass(frozen=True)
class Curve:
    """One rule and the knob that is swept.

    Attributes:
        label: name on the picture.
        rule: name in the catalogue.
        knob: the parameter that runs over [low, high].
        fixed: its other parameters.
    """

    label: str
    rule: str
    knob: str
    low: Fraction
    high: Fraction
    fixed: dict[str, Any] = field(default_factory=dict)

    def values(self, steps: int) -> list[Fraction]:
        """``steps + 1`` equally spaced knobs."""
        return [self.low + (self.high - self.low) * k / steps for k in range(steps + 1)]


def _curves() -> tuple[Curve, ...]:
    zero, one, tiny = Fraction(0), Fraction(1), Fraction(1, 100)
    curves = [Curve("ensemble", "ensemble", "w", one, zero)]
    for residual in ("stock", "scaled", "target"):
        kept = {"residual": residual}
        curves.append(Curve(f"lenience, {residual}", "lenience", "lenience", one, tiny, kept))
    curves.append(Curve("mentored", "mentored", "hi", one, Fraction(8)))
    ranges = {
        "chow": (-tiny, one),
        "diff": (-one, one),
        "opt": (-1 - tiny, 1 + tiny),
        "token_v1": (-one, one),
        "token_v2": (-tiny, one),
        "token_v3": (-tiny, one),
    }
    for name, (low, high) in ranges.items():
        curves.append(Curve(f"cascade, {name}", "cascade", "knob", low, high, {"rule": name}))
    for correction in ("argmax", "target"):
        fixed = {"delta": 1, "correction": correction}
        curves.append(Curve(f"typical, {correction}", "typical", "eps", one, zero, fixed))
    return tuple(curves)


CURVES = _curves()
"""Every rule, with the range of its knob."""


def at_one_context(
    p: Array, q: Array, steps: int = 16, measure: Quality = "tv"
) -> tuple[Frontier, ...]:
    """(acceptance, divergence) of every rule at one context, and first the best of all rules."""
    rules = [
        sweep(c.rule, p, q, c.knob, c.values(steps), measure, c.label, **c.fixed) for c in CURVES
    ]
    return best(p, q, steps, measure), *rules


def by_calls(
    target: Model, draft: Model, gamma: int, horizon: int, steps: int = 8
) -> tuple[Frontier, ...]:
    """(expected target calls, text TV) of every rule over the first ``horizon`` tokens, exactly.

    The bonus comes from the target, as in engines. Cost: V**horizon states a point.
    """
    truth = autoregressive(target, horizon)
    curves = []
    for c in CURVES:
        points = []
        for setting in c.values(steps):
            model = Declared(c.rule, target, draft, {**c.fixed, c.knob: setting})
            told = predict(model, gamma, horizon)
            points.append(Point(told.calls, distance(told.tokens, truth), setting, c.label))
        curves.append(Frontier(c.label, "calls", "tv", tuple(points)))
    return tuple(curves)
