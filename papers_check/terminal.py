"""The report of ``specproof check`` in a terminal, readable from 80 columns up."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from papers_check.claims.base import Claim, Finding, Verdict
from papers_check.crosscheck import Row
from papers_check.greedy import GreedyRow
from papers_check.numbers import show
from papers_check.report import CheckReport, interval_text, mark

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.CONDITIONAL: "yellow",
    Verdict.FAILS: "red",
    Verdict.REPRODUCED: "green",
    Verdict.UNCHECKABLE: "dim",
}


def print_report(report: CheckReport, console: Console) -> None:
    """Show the report: a table for each model, a list of claims, the verdict."""
    for model, rows in groupby(report.rows, key=lambda row: row.model):
        console.print(_lengths(model, list(rows)))
    for model, texts in groupby(report.greedy, key=lambda row: row.model):
        console.print(_greedy(model, list(texts)))
    for paper, claims in groupby(report.claims, key=lambda pair: pair[0].paper):
        console.print(_claims(paper, list(claims)))
    for note in report.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"{report.verdict} ({report.seconds:.0f} s)", style="bold", markup=False)


def _lengths(model: str, rows: list[Row]) -> Table:
    title = f"{escape(model)}: E\\[tau], gamma = {rows[0].gamma}"
    table = Table(
        "verifier", "K", "exact", "simulated", "decoded", "lossless", "agree", title=title
    )
    for row in rows:
        table.add_row(
            row.verifier,
            str(row.num_drafts),
            f"{float(row.exact_accepted):.4f}",
            interval_text(row.simulated),
            interval_text(row.decoded),
            row.lossless,
            mark(row.agrees),
        )
    table.caption = f"the i.i.d. formula says {float(rows[0].iid_accepted):.4f} for one draft"
    return table


def _greedy(model: str, rows: list[GreedyRow]) -> Table:
    title = f"{escape(model)}: texts at temperature 0, gamma = {rows[0].gamma}"
    table = Table("verifier", "K", "equal to plain decoding", "tokens per call", title=title)
    for row in rows:
        equal = f"{row.equal} of {row.prompts}"
        table.add_row(row.verifier, str(row.num_drafts), equal, f"{row.tokens_per_call:.3f}")
    return table


def _claims(paper: str, claims: list[tuple[Claim, Finding]]) -> Table:
    table = Table("verdict", "claim, and the numbers that decide it", title=escape(paper))
    for claim, finding in claims:
        unexpected = "" if finding.verdict == claim.expected else "\n[red]not as recorded[/red]"
        colour = COLOURS[finding.verdict]
        numbers = "; ".join(f"{name} {show(value)}" for name, value in finding.numbers.items())
        detail = f"\n[dim]{escape(numbers)}[/dim]" if numbers else ""
        table.add_row(
            f"[{colour}]{finding.verdict}[/{colour}]{unexpected}",
            escape(claim.statement) + detail,
        )
    return table
