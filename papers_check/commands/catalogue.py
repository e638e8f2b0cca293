"""``specproof list``: every algorithm and its faces."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from papers_check.numbers import Json, dumps
from theory.catalogue import DRAFTERS, VERIFIERS
from theory.windows import WINDOWS


def verifiers() -> list[Json]:
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


def windows() -> list[Json]:
    """The catalogue's windows as plain objects."""
    return [
        {"name": entry.name, "summary": entry.summary, "paper": entry.paper, "faces": entry.faces}
        for entry in WINDOWS
    ]


def drafters() -> list[Json]:
    """The catalogue's drafters as plain objects."""
    return [{**vars(entry)} for entry in DRAFTERS]


def list_algorithms(*, json: bool = False) -> None:
    """List every algorithm: its kind, its paper, and where each of its faces lives.

    Parameters
    ----------
    json:
        Print JSON instead of tables.
    """
    if json:
        print(dumps({"verifiers": verifiers(), "drafters": drafters(), "windows": windows()}))
        return
    console = Console()
    table = Table("verifier", "kind", "what it does, and where it comes from")
    for entry in verifiers():
        kind = entry["kind"] + ("\nwith carry" if entry["stateful"] else "")
        facts = f"drafts: {entry['drafts'].replace('_', ' ')}; faces: {', '.join(entry['faces'])}"
        table.add_row(entry["name"], kind, f"{_described(entry)}\n[dim]{escape(facts)}[/dim]")
    console.print(table)
    for what, listed in (("window", windows()), ("drafter", drafters())):
        table = Table(what, "what it does, and where it comes from")
        for entry in listed:
            table.add_row(entry["name"], _described(entry))
        console.print(table)


def _described(entry: Json) -> str:
    return f"{escape(entry['summary'])}\n[dim]{escape(entry['paper'])}[/dim]"
