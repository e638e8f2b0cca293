"""``specproof bench``: paired benchmarks, reported as ratios."""

from __future__ import annotations

from dataclasses import asdict

from cyclopts import App
from rich.console import Console
from rich.table import Table

from papers_check.bench.theory import Measured
from papers_check.numbers import dumps
from sim.provenance import provenance

bench = App(name="bench", help="Paired benchmarks: contenders take turns, ratios are reported.")


@bench.command
def theory(*, json: bool = False) -> None:
    """Bounds, closed forms and exact programs against their peers.

    Parameters
    ----------
    json:
        Print JSON instead of a table.
    """
    from papers_check.bench.theory import run

    _show(run(), "theory", json)


def _show(lines: list[Measured], title: str, json: bool) -> None:
    if json:
        print(dumps({"lines": [asdict(line) for line in lines], "provenance": provenance()}))
        return
    table = Table("what", "median", "over", "ratio (quartiles)", "note", title=title)
    for line in lines:
        low, high = line.quartiles
        ratio = f"{line.ratio:.3g} ({low:.3g} to {high:.3g})" if line.peer else ""
        table.add_row(line.what, f"{1e3 * line.seconds:.3g} ms", line.peer, ratio, line.note)
    Console().print(table)
