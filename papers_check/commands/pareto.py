"""``specproof pareto``: what lossy rules pay in faithfulness, and what it buys, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from papers_check.numbers import Json, dumps, encode, show
from papers_check.options import Count, number_field
from papers_check.pictures import check_picture, curves
from theory.inputs import whole
from theory.laws import overlap, total_variation
from theory.models import Model, check_pair, load_model
from theory.pareto import Frontier
from theory.pareto.calls import calls_frontier
from theory.pareto.frontier import Quality
from theory.pareto.rounds import Kind
from theory.pareto.survey import at_one_context, by_calls
from theory.pareto.texts import Texts

MEASURES = ("tv", "kl", "reverse_kl", "chi2", "hellinger", "js")

STRINGS = 2048
"""Largest number of texts that are weighed against target calls."""

CLASSES: dict[str, Kind] = {"best in the box": "box", "best of all rules": "free"}
"""The classes of rules whose optimum is drawn against target calls (``theory.pareto.rounds``)."""


def pareto(
    *,
    target: str,
    draft: str,
    measure: str = "tv",
    steps: Count = 8,
    horizon: Count | None = None,
    gamma: Count = 2,
    field: str = "exact",
    picture: Path | None = None,
    json: bool = False,
) -> None:
    """Every lossy rule: distance from the target against acceptance, or against target calls.

    At one context (the first), unless a horizon is given; then whole texts are compared, with
    token verification's bonus from the target. The first curves are the best of all rules.

    Parameters
    ----------
    target:
        A row such as 1/2,1/3,1/6, or a model file.
    draft:
        The draft, likewise.
    measure:
        tv, kl, reverse_kl, chi2, hellinger or js (the last five in floats); tv for whole texts.
    steps:
        Settings of each knob, less one.
    horizon:
        Tokens of a text: compare whole texts at equal expected target calls.
    gamma:
        Draft length of a round of such a text.
    field:
        exact (rationals) or float.
    picture:
        PNG or SVG file for the curves.
    json:
        Print JSON instead of a table, with every point.
    """
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}; choose one of {', '.join(MEASURES)}")
    steps = whole(steps, "steps")
    if picture is not None:
        check_picture(picture)
    p, q = load_model(target, number_field(field)), load_model(draft, field)
    check_pair(p, q)
    if horizon is not None:
        if measure != "tv":
            raise ValueError(f"measure {measure!r} is for one token; texts take tv")
        frontiers = _over_texts(p, q, whole(gamma, "gamma"), whole(horizon, "horizon"), steps)
        title, x_label = f"{horizon} tokens, gamma {gamma}", "expected target calls"
    else:
        frontiers = at_one_context(p.row(()), q.row(()), steps, cast(Quality, measure))
        alpha, gap = overlap(p.row(()), q.row(())), total_variation(p.row(()), q.row(()))
        title = f"overlap {show(alpha)}, total variation {show(gap)}"
        x_label = "acceptance probability"
    if picture is not None:
        lines = {
            frontier.rule: [(float(x.acceptance), float(x.quality)) for x in frontier.points]
            for frontier in frontiers
        }
        curves(picture, lines, x_label, f"{measure} from target", "Lossy rules")
    if json:
        print(dumps({"measure": measure, "curves": [_document(curve) for curve in frontiers]}))
        return
    _print(frontiers, title, measure)


def _over_texts(
    target: Model, draft: Model, gamma: int, horizon: int, steps: int
) -> tuple[Frontier, ...]:
    """Curves of (expected calls, text TV): the optima of two classes, then every rule.

    Raises:
        ValueError: too many texts.
    """
    if target.vocab**horizon > STRINGS:
        raise ValueError(
            f"{horizon} tokens from a vocabulary of {target.vocab} make more than {STRINGS} texts; "
            "lower the horizon"
        )
    rules = by_calls(target, draft, gamma, horizon, steps)
    texts = Texts.of(target, draft, horizon, lambda text: 0)
    strict = float(rules[0].points[0].acceptance)
    fewest = -(-horizon // (gamma + 1))
    budgets = [strict + (fewest - strict) * step / steps for step in range(steps + 1)]
    best = []
    for label, kind in CLASSES.items():
        found = calls_frontier(texts, gamma, kind, budgets, "tv")
        best.append(Frontier(label, "calls", "tv", found.points))
    return *best, *rules


def _print(frontiers: tuple[Frontier, ...], title: str, measure: str) -> None:
    speed = frontiers[0].speed
    table = Table("rule", "knob", speed, measure, title=title)
    for frontier in frontiers:
        points = frontier.points
        shown = points if frontier.rule.startswith("best") else (*points[:: len(points) // 2],)
        for point in shown:
            cells = (show(point.knob), show(point.acceptance), show(point.quality))
            table.add_row(frontier.rule, *cells)
        table.add_section()
    console = Console()
    console.print(table)
    console.print("Knobs at their ends and in the middle; --json and --picture have every point.")


def _document(frontier: Frontier) -> Json:
    return {
        "rule": frontier.rule,
        "points": [
            {
                "knob": encode(point.knob),
                frontier.speed: encode(point.acceptance),
                f"{frontier.speed}_float": float(point.acceptance),
                "quality": encode(point.quality),
                "quality_float": float(point.quality),
            }
            for point in frontier.points
        ],
    }
