"""``specproof window``: what each kind of knowledge about acceptance is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from papers_check.numbers import Json, dumps, show, with_floats
from papers_check.options import Count, number_field
from papers_check.pictures import bars, check_picture
from theory.fields import FLOAT
from theory.models import load_model
from theory.windows import Costs, Ladder, ladder, load_rule


def window(
    *,
    target: str,
    draft: str,
    draft_cost: str,
    verify_cost: str = "0",
    overhead: str = "0",
    block: Count = 1,
    horizon: Count | None = None,
    rules: list[str] | None = None,
    field: str = "exact",
    picture: Path | None = None,
    json: bool = False,
) -> None:
    """The ladder of draft windows: from plain decoding to the clairvoyant oracle.

    Speeds are tokens per plain target call, for token verification.

    Parameters
    ----------
    target:
        A model file, or a row such as 1/3,2/3 used at every position.
    draft:
        The draft model, likewise.
    draft_cost:
        One draft step, in target calls, such as 1/10.
    verify_cost:
        Extra cost of each verified token.
    overhead:
        Cost of one check of an adaptive rule.
    block:
        Tokens drafted between checks.
    horizon:
        Length of a text; default the long run (Markov models).
    rules:
        Stopping rules to place on the ladder, by name, with their default settings.
    field:
        exact (rationals) or float.
    picture:
        PNG or SVG file for the ladder.
    json:
        Print JSON instead of a table.
    """
    if picture is not None:
        check_picture(picture)
    numbers: list[Any] = [draft_cost, verify_cost, overhead]
    if number_field(field) == "float":
        numbers = [FLOAT.number(number) for number in numbers]
    known = {name: load_rule(name) for name in rules or ()}
    result = ladder(
        load_model(target, field),
        load_model(draft, field),
        Costs(numbers[0], numbers[1], numbers[2], block),
        horizon=horizon,
        rules=known,
    )
    if picture is not None:
        speeds = {name: float(speed) for name, speed in _steps(result)}
        bars(picture, speeds, "tokens per plain target call", "What a window can earn")
    if json:
        print(dumps(_document(result)))
        return
    table = Table("window", "speed", "over best fixed", title="tokens per plain target call")
    for name, speed in _steps(result):
        over = float(speed) / float(result.fixed)
        table.add_row(escape(name), show(speed), f"{over:.4f}")
    console = Console()
    console.print(table)
    share = 100 * float(result.reachable)
    console.print(f"reachable without foresight: {share:.1f} % of the way from fixed to oracle")


def _steps(result: Ladder) -> list[tuple[str, Any]]:
    return [*result.rungs(), *((f"rule {name}", speed) for name, speed in result.rules.items())]


def _document(result: Ladder) -> Json:
    return {
        **with_floats(
            {
                "overlap": result.overlap,
                "autoregressive": result.autoregressive,
                "fixed": result.fixed,
                "optimal": result.optimal,
                "visible": result.visible,
                "oracle": result.oracle,
                "reachable": result.reachable,
            }
        ),
        "gamma": result.gamma,
        "rules": with_floats(dict(result.rules)),
    }
