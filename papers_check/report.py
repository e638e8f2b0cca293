"""The report of ``specproof check``: one set of facts, as Markdown or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from papers_check.claims.base import Claim, Finding
from papers_check.crosscheck import ERROR, Row
from papers_check.greedy import GreedyRow
from papers_check.numbers import Json, encode, show
from sim.estimators import Interval

Cells = list[list[str]]

LENGTH_HEADER = [
    "model",
    "verifier",
    "gamma",
    "K",
    "exact E[tau]",
    "i.i.d. says",
    "simulated",
    "decoded",
    "lossless",
    "agree",
]
GREEDY_HEADER = ["model", "verifier", "gamma", "K", "equal texts", "tokens per call", "agree"]
CLAIM_HEADER = ["claim", "paper", "verdict", "key numbers", "as recorded"]


@dataclass(frozen=True)
class CheckReport:
    """Everything that one run of ``specproof check`` found.

    Attributes:
        rows: the cross-check of lengths and laws.
        greedy: equality of texts at temperature 0.
        claims: published claims with what was found.
        notes: what was left out, and why.
        provenance: versions, machine, arguments, commit.
        seconds: duration of the run.
    """

    rows: Sequence[Row]
    greedy: Sequence[GreedyRow]
    claims: Sequence[tuple[Claim, Finding]]
    notes: Sequence[str] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every row agrees and every claim has its recorded verdict."""
        agree = [row.agrees for row in self.rows] + [row.agrees for row in self.greedy]
        agree += [finding.verdict == claim.expected for claim, finding in self.claims]
        return all(agree)

    @property
    def verdict(self) -> str:
        return "all witnesses agree" if self.passed else "DISAGREEMENT"


def length_cells(rows: Iterable[Row]) -> Cells:
    """The cross-check as table cells."""
    return [
        [
            row.model,
            row.verifier,
            str(row.gamma),
            str(row.num_drafts),
            show(row.exact_accepted),
            show(float(row.iid_accepted), 4),
            interval_text(row.simulated),
            interval_text(row.decoded),
            row.lossless,
            mark(row.agrees),
        ]
        for row in rows
    ]


def greedy_cells(rows: Iterable[GreedyRow]) -> Cells:
    """The comparison of greedy texts as table cells."""
    return [
        [
            row.model,
            row.verifier,
            str(row.gamma),
            str(row.num_drafts),
            f"{row.equal} of {row.prompts}",
            f"{row.tokens_per_call:.3f}",
            mark(row.agrees),
        ]
        for row in rows
    ]


def claim_cells(claims: Iterable[tuple[Claim, Finding]]) -> Cells:
    """The claims as table cells."""
    return [
        [
            claim.statement,
            claim.paper,
            str(finding.verdict),
            key_numbers(finding),
            mark(finding.verdict == claim.expected),
        ]
        for claim, finding in claims
    ]


def key_numbers(finding: Finding) -> str:
    """The numbers that decide a finding: its first two."""
    first = list(finding.numbers.items())[:2]
    return "; ".join(f"{name.replace('_', ' ')}: {show(value, 4)}" for name, value in first)


def markdown(report: CheckReport) -> str:
    """The report as a Markdown document."""
    parts = [
        "# specproof check",
        f"**{report.verdict}** in {report.seconds:.0f} s.",
        "## Lengths and laws",
        f"Intervals and law tests are wrong with probability at most {ERROR:g} each.",
        _markdown_table(LENGTH_HEADER, length_cells(report.rows)),
    ]
    if report.greedy:
        parts += ["## Temperature 0", _markdown_table(GREEDY_HEADER, greedy_cells(report.greedy))]
    parts += ["## Published claims", _markdown_table(CLAIM_HEADER, claim_cells(report.claims))]
    if report.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in report.notes)]
    facts = "\n".join(f"- {name}: {encode(value)}" for name, value in report.provenance.items())
    return "\n\n".join([*parts, "## Provenance", facts]) + "\n"


def as_json(report: CheckReport) -> Json:
    """The report as JSON-ready data."""
    return {
        "verdict": report.verdict,
        "passed": report.passed,
        "seconds": report.seconds,
        "error_rate": ERROR,
        "rows": [_row_json(row) for row in report.rows],
        "greedy": [{**vars(row), "agrees": row.agrees} for row in report.greedy],
        "claims": [
            {
                "name": claim.name,
                "paper": claim.paper,
                "place": claim.place,
                "statement": claim.statement,
                "verdict": str(finding.verdict),
                "expected": str(claim.expected),
                "numbers": encode(finding.numbers),
                "note": finding.note,
                "certificate": finding.certificate is not None,
                "command": claim.command,
            }
            for claim, finding in report.claims
        ],
        "notes": list(report.notes),
        "provenance": report.provenance,
    }


def _row_json(row: Row) -> Json:
    return {
        "model": row.model,
        "verifier": row.verifier,
        "gamma": row.gamma,
        "num_drafts": row.num_drafts,
        "exact_accepted": encode(row.exact_accepted),
        "exact_accepted_float": float(row.exact_accepted),
        "iid_accepted": float(row.iid_accepted),
        "simulated": row.simulated._asdict(),
        "decoded": row.decoded._asdict() if row.decoded else None,
        "distance": encode(row.distance),
        "lossless": row.lossless,
        "simulated_p_value": row.simulated_law.p_value,
        "decoded_p_value": row.decoded_law.p_value if row.decoded_law else None,
        "agrees": row.agrees,
    }


def interval_text(interval: Interval | None) -> str:
    """An estimate with the half-width of its interval."""
    if interval is None:
        return "—"
    half = (interval.high - interval.low) / 2
    return f"{interval.estimate:.4f} ± {half:.3f}"


def mark(good: bool) -> str:
    """A yes, or a NO that meets the eye."""
    return "yes" if good else "NO"


def _markdown_table(header: list[str], cells: Cells) -> str:
    def line(row: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"

    return "\n".join([line(header), line(["---"] * len(header)), *map(line, cells)])
