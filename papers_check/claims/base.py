"""What a checked claim is: a published statement, and what exact computation says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Certificate = dict[str, Any]
"""JSON-ready proof of a counter-example."""


class Verdict(StrEnum):
    """What a check can conclude."""

    HOLDS = "holds exactly"
    CONDITIONAL = "holds under a stated condition"
    FAILS = "fails"
    REPRODUCED = "reproduced in miniature"
    UNCHECKABLE = "not checkable here"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        verdict: see :class:`Verdict`.
        numbers: the numbers that decide it, by name, the deciding one first; rationals stay
            rationals.
        note: what they mean, in one or two sentences.
        certificate: for a claim that fails, the counter-example as data that
            ``papers_check/recheck.py`` verifies on its own (see ``certificates``).
    """

    verdict: Verdict
    numbers: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Claim:
    """One published claim and how it is checked.

    Attributes:
        name: stable identifier.
        paper: short citation with its arXiv number.
        place: where in the paper.
        statement: the claim in our words.
        expected: the verdict this toolkit stands by; ``specproof check`` fails on another.
        check: computes the finding, afresh.
        command: a shell command that repeats the deciding number, where one suffices.
    """

    name: str
    paper: str
    place: str
    statement: str
    expected: Verdict
    check: Callable[[], Finding]
    command: str = ""
