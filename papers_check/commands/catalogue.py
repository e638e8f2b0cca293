"""``specproof list``: every algorithm and its faces."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from papers_check.numbers import Json, dumps
from theory.catalogue import VERIFIERS


def entries() -> list[Json]:
    """The catalogue's verifiers as plain objects."""
    return [
        {
            "name": entry.name,
            "kind": entry.kind,
            "lossless": entry.lossless,
            "drafts": entry.drafts,
            "stateful": entry.stateful,
            "summary": entry.summary,
            "paper": entry.paper,
            "params": entry.params,
            "faces": entry.faces,
        }
        for entry in VERIFIERS
    ]


def list_algorithms(*, json: bool = False) -> None:
    """List every algorithm: its kind, its paper, and where each of its faces lives.

    Parameters
    ----------
    json:
        Print JSON instead of a table.
    """
    if json:
        print(dumps({"verifiers": entries()}))
        return
    table = Table("verifier", "kind", "drafts", "faces", "what it does, and where it comes from")
    for entry in entries():
        table.add_row(
            entry["name"],
            entry["kind"] + (", carry" if entry["stateful"] else ""),
            entry["drafts"],
            ", ".join(entry["faces"]),
            f"{escape(entry['summary'])}\n[dim]{escape(entry['paper'])}[/dim]",
        )
    Console().print(table)
