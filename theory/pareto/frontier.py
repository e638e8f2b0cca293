"""Trade-offs between speed and faithfulness as data: points, and curves of them for plots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from theory.fields import Number

Speed = Literal["acceptance", "calls"]
"""What is bought: acceptance (more is better) or target calls (fewer are better)."""

Quality = Literal["tv", "kl", "reverse_kl", "chi2", "hellinger", "js", "reward"]
"""What is paid with: a divergence from the target (less is better) or a reward (more is)."""


@dataclass(frozen=True)
class Point:
    """One setting of one rule.

    Attributes:
        acceptance: acceptance probability, mean acceptance, or expected calls (see the curve).
        quality: divergence or reward.
        knob: the setting, as its rule understands it.
        rule: name of the rule or class of rules.
    """

    acceptance: Number
    quality: Number
    knob: Number | str | None
    rule: str


@dataclass(frozen=True)
class Frontier:
    """A curve of points.

    Attributes:
        rule: name of the rule or class of rules.
        speed: meaning of ``Point.acceptance``.
        measure: meaning of ``Point.quality``.
        points: in the order of the knob.
    """

    rule: str
    speed: Speed
    measure: Quality
    points: tuple[Point, ...]


def undominated(points: Iterable[Point], speed: Speed, measure: Quality) -> tuple[Point, ...]:
    """The points that no other point beats in both respects, fastest first.

    Of equal points the first is kept.
    """
    fast = -1 if speed == "acceptance" else 1
    good = -1 if measure == "reward" else 1
    ranked = sorted(points, key=lambda point: (fast * point.acceptance, good * point.quality))
    kept: list[Point] = []
    for point in ranked:
        if not kept or good * point.quality < good * kept[-1].quality:
            kept.append(point)
    return tuple(kept)
