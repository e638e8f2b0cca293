"""Audits in a terminal and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from papers_check.numbers import Json, show, with_floats
from papers_check.pictures import curves
from sim.losslessness.report import BOUND_ERROR, AuditResult, GreedyResult
from sim.mutants.table import OURS, TESTS, Line

SHOWN = 6
"""Places of evidence shown."""
LARGEST_POWER = 300.0
"""log10 of the largest e-value drawn."""


def print_audit(found: AuditResult, console: Console) -> None:
    """The verdict, the figures, and where the evidence comes from."""
    console.print(found.verdict, style="bold", markup=False, highlight=False)
    table = Table(show_header=False)
    table.add_row("tokens, samples", f"{found.tokens}, {found.sequences}")
    table.add_row("e-value", f"10^{found.log10_e:.2f}")
    table.add_row("p-value (largest e-value)", f"{found.p_value:.3g}")
    table.add_row("level", f"{found.level:.1e}")
    table.add_row("leading alternative", escape(found.leading))
    lower = f"{found.mean_tv_lower:.4g}"
    where = f" ({escape(found.mean_tv_set)})" if found.mean_tv_set else ""
    table.add_row(f"mean conditional TV, at least (error {BOUND_ERROR:g})", lower + where)
    for violation in found.violations:
        place = f"sample {violation.sequence}, position {violation.position}"
        table.add_row("impossible token", f"{violation.token} at {place}")
    console.print(table)
    if found.found_at is not None:
        console.print(_evidence(found))
    console.print(_detectable(found))


def _evidence(found: AuditResult) -> Table:
    table = Table("where", "evidence (nats)", title="where the evidence comes from")
    ordered = sorted(found.evidence.items(), key=lambda entry: -abs(entry[1]))
    for name, value in ordered[:SHOWN]:
        table.add_row(escape(name), f"{value:+.1f}")
    return table


def _detectable(found: AuditResult) -> Table:
    title = "mean shift of mass that would have shown"
    table = Table("set of tokens", "shift", title=title)
    for name, value in found.detectable.items():
        table.add_row(escape(name), f"{value:.3g}")
    return table


def print_greedy(found: GreedyResult, console: Console) -> None:
    """The verdict, the kinds of tokens, and the margins."""
    console.print(found.verdict, style="bold", markup=False, highlight=False)
    table = Table(show_header=False)
    for kind, count in found.counts.items():
        table.add_row(kind, str(count))
    for name, value in found.margins.items():
        table.add_row(f"margin of the best token, {name} (units)", f"{value:.3g}")
    for wrong in found.wrong:
        place = f"sample {wrong.sequence}, position {wrong.position}"
        table.add_row("wrong", f"{place}: {wrong.token} for {wrong.best}, gap {wrong.gap:.3g}")
    console.print(table)


def draw(found: AuditResult, path: Path) -> None:
    """The evidence against samples, with the level that it would have to reach.

    Raises:
        ValueError: nothing to draw, or no way to draw it.
    """
    if not found.curve:
        raise ValueError("there is no evidence to draw: the first look found the violation")
    points = [(tokens, min(log_e, LARGEST_POWER)) for tokens, _, log_e in found.curve]
    level = -math.log10(found.level)
    lines = {
        f"1/level = {1 / found.level:.0e}": [(0, level), (points[-1][0], level)],
        "evidence": [(0, 0.0), *points],
    }
    curves(path, lines, "tokens", "log10 of the e-value", found.verdict.split(":")[0])


def mutant_document(lines: Sequence[Line]) -> Json:
    """The table of mutants as JSON-ready fields."""
    return {
        "tests": list(TESTS),
        "mutants": [
            {
                "name": line.mutant.name,
                "rule": line.mutant.rule,
                "fault": line.mutant.fault,
                "references": list(line.mutant.references),
                **with_floats({"distance": line.distance}),
                "expected_by": line.mutant.found_by,
                "samples": line.samples,
                "best_fixed": None if line.fixed is None else line.fixed[0],
                "best_fixed_samples": None if line.fixed is None else line.fixed[1],
                "audit_samples": line.audited,
                "found_by": line.found_by,
            }
            for line in lines
        ],
    }


def print_mutants(lines: Sequence[Line], console: Console) -> None:
    """Two tables: distances and sample sizes, and who sees what."""
    sizes = Table("mutant", "distance", "samples", "audit", title="faults and what they cost")
    for line in lines:
        sizes.add_row(
            line.mutant.name,
            show(float(line.distance), 3),
            "—" if line.samples is None else str(line.samples),
            "—" if line.audited is None else str(line.audited),
        )
    console.print(sizes)
    seen = Table("mutant", "found by the library's", "found by public designs")
    for line in lines:
        found = [test for test, yes in line.found_by.items() if yes]
        ours = ", ".join(test for test in found if test in OURS)
        public = ", ".join(test for test in found if test not in OURS)
        seen.add_row(line.mutant.name, ours or "none", public or "none")
    console.print(seen)


def complete(lines: Sequence[Line]) -> bool:
    """Whether every fault was found by what has to find it, and the audit was cheap enough."""
    for line in lines:
        kind, found = line.mutant.found_by, line.found_by
        if kind == "law" and not (found["joint"] and found["audit"]):
            return False
        if kind == "length" and not found["length"]:
            return False
        if kind == "dependence" and not found["audit"]:
            return False
        if kind == "ties" and any(found.values()):
            return False
    return True
