"""What a derivation is: steps that can be printed, and checks that it must have passed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

Expr = Any
"""A sympy expression, equation or matrix."""


@dataclass(frozen=True)
class Derivation:
    """A result with the steps that lead to it.

    Attributes:
        title: what is shown.
        steps: what is done, with the expression that it gives.
        conclusion: the result in words.
    """

    title: str
    steps: tuple[tuple[str, Expr], ...]
    conclusion: str

    def __str__(self) -> str:
        lines = [self.title, "=" * len(self.title)]
        for number, (text, expression) in enumerate(self.steps, 1):
            lines += [f"{number}. {text}", f"       {sympy.sstr(expression)}"]
        return "\n".join([*lines, self.conclusion])

    def latex(self) -> str:
        """The derivation as LaTeX: text with one display a step."""
        items = [rf"\item {_tex(text)}: \[ {sympy.latex(line)} \]" for text, line in self.steps]
        head, end = rf"\paragraph{{{_tex(self.title)}}}", _tex(self.conclusion)
        return "\n".join([head, r"\begin{enumerate}", *items, r"\end{enumerate}", end])


def _tex(text: str) -> str:
    """Plain text with its few mathematical words set as mathematics."""
    for plain, math in (("E[tau]", r"E[\tau]"), ("gamma", r"\gamma"), ("alpha", r"\alpha")):
        text = text.replace(plain, f"${math}$")
    return (
        text.replace(">=", r"$\ge$").replace("<=", r"$\le$").replace(">", "$>$").replace("<", "$<$")
    )


def require_zero(expression: Expr, what: str) -> None:
    """Check that an expression simplifies to zero.

    Raises:
        ArithmeticError: it does not; the message says what was claimed.
    """
    if sympy.simplify(expression) != 0:
        raise ArithmeticError(f"{what}: {expression} does not vanish")


def require_at(
    expression: Expr, points: Iterable[tuple[Mapping[Expr, Any], Any]], what: str
) -> None:
    """Check an expression at rational points against values that were computed otherwise.

    Raises:
        ArithmeticError: a point where they differ.
    """
    for point, value in points:
        found = sympy.sympify(expression).subs(point)
        if sympy.nsimplify(found - value) != 0:
            raise ArithmeticError(f"{what}: {found} at {dict(point)}, expected {value}")
