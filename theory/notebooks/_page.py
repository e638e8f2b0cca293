"""What the notebooks share: numbers as LaTeX, tables, exercises that are checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import marimo as mo

from theory.drafting import fixed
from theory.fields import EXACT, Number, to_fraction
from theory.generation import Decoder, generate
from theory.models import Prefix, as_model

LONGEST = 13
"""Characters beyond which a fraction is shown as a decimal."""


def coin(numerator: int, denominator: int = 12) -> list[Fraction]:
    """The row of two tokens whose first has probability numerator/denominator."""
    first = Fraction(numerator, denominator)
    return [first, 1 - first]


def exact(value: Number, digits: int = 4) -> str:
    """A number as LaTeX: short fractions with their decimal beside them, others as decimals."""
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    fraction = to_fraction(value)
    if fraction.denominator == 1:
        return str(fraction.numerator)
    decimal = f"{float(fraction):.{digits}f}"
    if len(str(fraction)) > LONGEST:
        return decimal
    sign = "-" if fraction < 0 else ""
    return rf"{sign}\frac{{{abs(fraction.numerator)}}}{{{fraction.denominator}}} \approx {decimal}"


def number(value: Number) -> float:
    """The nearest float, for charts."""
    return value if isinstance(value, float) else float(to_fraction(value))


def text_law(
    rule: Any, target: Any, draft: Any, gamma: int, horizon: int | None = None
) -> dict[Prefix, Number]:
    """The exact law of the first tokens (default gamma + 1) under any program, ours or not."""
    models = as_model(target, EXACT, "target"), as_model(draft, EXACT, "draft")
    return generate(Decoder(*models, rule, fixed(gamma)), horizon or gamma + 1).tokens


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table: names at the left, numbers at the right."""
    lines = [list(head), [":---", *["---:"] * (len(head) - 1)], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@dataclass(frozen=True)
class Exercise:
    """A question with a number for an answer.

    Attributes:
        question, solution: markdown.
        by_hand: what the solution arrives at.
        computed: the same from the toolkit.
    """

    question: str
    solution: str
    by_hand: Number
    computed: Number

    def answered_by(self, text: str) -> bool:
        """Whether a reader's text ("10/9", "1.111") is the answer, decimals to three digits."""
        try:
            given = Fraction(text.replace(" ", ""))
        except (ValueError, ZeroDivisionError):
            return False
        truth = number(self.computed)
        rounding = 0 if "/" in text or "." not in text else 5e-4 * max(abs(truth), 1)
        return abs(float(given) - truth) <= max(rounding, 1e-12)


def check(exercises: Sequence[Exercise]) -> list[Exercise]:
    """The exercises, each solution having been compared with the toolkit's number.

    Raises:
        AssertionError: a solution that is wrong.
    """
    for task in exercises:
        pair = task.by_hand, task.computed
        if any(isinstance(value, float) for value in pair):
            right = abs(number(pair[0]) - number(pair[1])) < 1e-9
        else:
            right = to_fraction(pair[0]) == to_fraction(pair[1])
        assert right, f"{pair[0]} by hand, {pair[1]} computed: {task.question}"
    return list(exercises)


def answers(exercises: Sequence[Exercise]) -> Any:
    """One text field per exercise."""
    fields = [mo.ui.text(placeholder="10/9 or 1.111", label="Your answer") for _ in exercises]
    return mo.ui.array(fields)


def sheet(exercises: Sequence[Exercise], given: Any) -> mo.Html:
    """The exercises with the reader's answers judged, and solutions to unfold."""
    items: list[Any] = [mo.md("## Exercises")]
    for place, task in enumerate(exercises):
        text = given.value[place]
        mark = "" if not text else "✓ right" if task.answered_by(text) else "✗ not yet"
        items += [
            mo.md(f"**{place + 1}.** {task.question}"),
            mo.hstack([given[place], mo.md(mark)], justify="start"),
            mo.accordion({"Solution": mo.md(f"{task.solution}\n\n$= {exact(task.computed)}$")}),
        ]
    return mo.vstack(items)
