"""The outcome of an audit: a verdict in one line, and the figures behind it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from sim.losslessness.eprocess import Audit, Violation
from sim.losslessness.greedy import GreedyAudit, Wrong
from theory.power import POWER

BOUND_ERROR = 1e-3
"""Probability that the bound of the mean conditional TV is ever wrong."""
SHOWN = 10
"""Impossible or wrong tokens listed."""


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes:
        lossless: False if the engine is found not to be lossless at ``level``; True says only
            that nothing was found (see ``detectable``).
        level: probability of a false alarm, whenever the audit is stopped.
        tokens, sequences: what was judged.
        log10_e: log10 of the e-value at the end; ``p_value`` is min(1, 1/max E).
        found_at: (tokens, sequences) when E first reached 1/level, or None.
        leading: the alternative that the evidence speaks for.
        mean_tv_lower: the mean conditional TV is at least this, except with probability
            ``BOUND_ERROR``.
        mean_tv_set: the set of tokens whose mass shows it.
        detectable: by set, the mean shift of mass that would have shown (power ``POWER``).
        evidence: natural log of the leading bet's capital by position, rank and round place.
        ranks: tokens seen and expected by rank band.
        violations: the first tokens that the target cannot emit; ``violation_count`` of them all.
        curve: (tokens, sequences, log10 E) along the way.
        note: a fact that is no law of tokens, such as text after an end of sequence.
    """

    lossless: bool
    level: float
    tokens: int
    sequences: int
    log10_e: float
    p_value: float
    found_at: tuple[int, int] | None
    leading: str
    mean_tv_lower: float
    mean_tv_set: str
    detectable: dict[str, float]
    evidence: dict[str, float]
    ranks: dict[str, tuple[float, float]]
    violations: tuple[Violation, ...]
    violation_count: int
    curve: tuple[tuple[int, int, float], ...] = field(default=(), repr=False)
    note: str = ""

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        if self.violations:
            first = self.violations[0]
            return (
                f"NOT LOSSLESS: sample {first.sequence}, position {first.position}: token "
                f"{first.token} has target probability 0 ({self.violation_count} such tokens)"
            )
        if self.note:
            return f"NOT LOSSLESS: {self.note}"
        if not self.lossless:
            lower = f"; mean conditional TV at least {self.mean_tv_lower:.3g}"
            return (
                f"NOT LOSSLESS: p = {self.p_value:.2g} after {self.tokens} tokens, found at token "
                f"{self.found_at[0] if self.found_at else 0} ({self.leading})"
                + (lower if self.mean_tv_lower > 0 else "")
            )
        worst = max(self.detectable.values(), default=1.0)
        return (
            f"no deviation found in {self.tokens} tokens of {self.sequences} samples (p = "
            f"{self.p_value:.2g}, level {self.level:.0e}); a mean shift of {worst:.2g} of the mass "
            "across any of the audit's sets would have shown"
        )

    def document(self) -> dict[str, Any]:
        """The result as JSON-ready fields."""
        return {"verdict": self.verdict, **asdict(self)}


def result(audit: Audit, note: str = "") -> AuditResult:
    """The outcome of an audit so far."""
    bet, _ = audit.leading()
    lower, name = audit.mean_tv.lower(BOUND_ERROR)
    per_ten = math.log(10)
    ranks = {
        key: (float(seen), float(expected))
        for key, (seen, expected) in zip(audit.names, audit.seen, strict=True)
        if key.startswith("rank") and max(seen, expected) > 0
    }
    certain = bool(audit.violations) or bool(note)
    return AuditResult(
        lossless=not (audit.found or note),
        level=audit.level,
        tokens=audit.tokens + len(audit.violations),
        sequences=audit.sequences,
        log10_e=math.inf if certain else audit.log_e / per_ten,
        p_value=0.0 if certain else min(1.0, math.exp(-audit.largest)),
        found_at=audit.found_at,
        leading=f"{bet.family}: {bet.label}" if bet.family else "",
        mean_tv_lower=lower,
        mean_tv_set=name,
        detectable=audit.mean_tv.detectable(audit.level, POWER),
        evidence=dict(audit.by_category()),
        ranks=ranks,
        violations=tuple(audit.violations[:SHOWN]),
        violation_count=len(audit.violations),
        curve=tuple((tokens, n, log_e / per_ten) for tokens, n, log_e in audit.curve),
        note=note,
    )


@dataclass(frozen=True)
class GreedyResult:
    """What an audit of a greedy engine found: the counts of ``sim.losslessness.greedy``."""

    lossless: bool
    tokens: int
    sequences: int
    counts: dict[str, int]
    dtype: str
    ulps: float
    margins: dict[str, float]
    wrong: tuple[Wrong, ...]
    note: str = ""

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        if self.note:
            return f"NOT GREEDY: {self.note}"
        if self.wrong:
            first = self.wrong[0]
            return (
                f"NOT GREEDY: sample {first.sequence}, position {first.position}: token "
                f"{first.token} lies {first.gap:.3g} below the best, {first.best} "
                f"({self.counts['wrong']} of {self.tokens} tokens)"
            )
        return (
            f"greedy: all {self.tokens} tokens of {self.sequences} samples are the target's choice "
            f"({self.counts['tie']} ties, {self.counts['near']} near ties in {self.dtype})"
        )

    def document(self) -> dict[str, Any]:
        """The result as JSON-ready fields."""
        return {"verdict": self.verdict, **asdict(self)}


def greedy_result(audit: GreedyAudit, sequences: int, note: str = "") -> GreedyResult:
    """The outcome of an audit of a greedy engine."""
    return GreedyResult(
        not (audit.wrong or note),
        audit.tokens,
        sequences,
        {kind: audit.counts[kind] for kind in ("argmax", "tie", "near", "wrong")},
        audit.dtype,
        audit.ulps,
        audit.margin_quantiles(),
        tuple(audit.wrong[:SHOWN]),
        note,
    )
