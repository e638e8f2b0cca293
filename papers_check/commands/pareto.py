"""``specproof pareto``: acceptance bought with faithfulness, at one context, exactly."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from papers_check.numbers import Json, dumps, encode, show
from papers_check.pictures import curves
from theory.laws import as_row, overlap, total_variation
from theory.pareto import Frontier
from theory.pareto.frontier import Quality
from theory.pareto.one_context import best, sweep

MEASURES = ("tv", "kl", "reverse_kl", "chi2", "hellinger", "js")

SWEEPS: dict[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "static ensemble": ("ensemble", "w", tuple(Fraction(n, 8) for n in range(8, -1, -1)), {}),
    "lenience": ("lenience", "lenience", tuple(Fraction(n, 8) for n in range(8, 0, -1)), {}),
    "cascade, TokenV3": (
        "cascade",
        "knob",
        tuple(Fraction(n, 8) for n in range(9)),
        {"rule": "token_v3"},
    ),
    "typical acceptance": (
        "typical",
        "eps",
        tuple(Fraction(n, 16) for n in (16, 8, 4, 2, 1)),
        {},
    ),
}
"""Rule, knob, settings and fixed parameters of each curve."""


def pareto(
    *,
    target: str,
    draft: str,
    measure: str = "tv",
    steps: int = 16,
    field: str = "exact",
    picture: Path | None = None,
    json: bool = False,
) -> None:
    """Acceptance against distance from the target, for lossy rules at one context.

    The curve "best" is the frontier of all rules (clip laws, optimal for every f-divergence).

    Parameters
    ----------
    target:
        The target's row, such as 1/2,1/3,1/6.
    draft:
        The draft's row.
    measure:
        tv, kl, reverse_kl, chi2, hellinger or js (the last five in floats).
    steps:
        Points of the best frontier.
    field:
        exact (rationals) or float.
    picture:
        PNG or SVG file for the curves.
    json:
        Print JSON instead of a table.
    """
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}; choose one of {', '.join(MEASURES)}")
    kind = cast(Quality, measure)
    p, q = as_row(target, field, "target"), as_row(draft, field, "draft")
    if len(p) != len(q):
        raise ValueError(f"target has {len(p)} tokens, draft has {len(q)}; use one vocabulary")
    frontiers = [best(p, q, steps, kind)]
    for label, (rule, knob, settings, fixed) in SWEEPS.items():
        frontiers.append(sweep(rule, p, q, knob, settings, kind, label, **fixed))
    if picture is not None:
        lines = {
            frontier.rule: [(float(x.acceptance), float(x.quality)) for x in frontier.points]
            for frontier in frontiers
        }
        curves(picture, lines, "acceptance probability", f"{measure} from target", "Lossy rules")
    if json:
        print(dumps({"measure": measure, "curves": [_document(curve) for curve in frontiers]}))
        return
    console = Console()
    console.print(f"overlap {show(overlap(p, q))}, total variation {show(total_variation(p, q))}")
    table = Table("rule", "knob", "acceptance", measure)
    for frontier in frontiers:
        for point in frontier.points:
            cells = (show(point.knob), show(point.acceptance), show(point.quality))
            table.add_row(frontier.rule, *cells)
    console.print(table)


def _document(frontier: Frontier) -> Json:
    return {
        "rule": frontier.rule,
        "points": [
            {
                "knob": encode(point.knob),
                "acceptance": encode(point.acceptance),
                "acceptance_float": float(point.acceptance),
                "quality": encode(point.quality),
                "quality_float": float(point.quality),
            }
            for point in frontier.points
        ],
    }
