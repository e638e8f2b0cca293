"""Linear programs put together term by term and solved by HiGHS (float64)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

Terms = list[tuple[int, float]]
"""A linear form: (variable, coefficient) pairs; a variable may occur more than once."""


class Program:
    """Minimise a linear form of non-negative variables under linear constraints."""

    def __init__(self) -> None:
        self.count = 0
        self._equal: list[tuple[Terms, float]] = []
        self._at_most: list[tuple[Terms, float]] = []

    def variables(self, number: int) -> range:
        """New non-negative variables."""
        self.count += number
        return range(self.count - number, self.count)

    def equal(self, terms: Terms, value: float) -> None:
        """terms = value."""
        self._equal.append((terms, value))

    def at_most(self, terms: Terms, value: float) -> None:
        """terms <= value."""
        self._at_most.append((terms, value))

    def at_least(self, terms: Terms, value: float) -> None:
        """terms >= value."""
        self.at_most(scaled(terms, -1.0), -value)

    def minimise(self, terms: Terms) -> NDArray[np.float64]:
        """The values of the variables at an optimal vertex.

        Raises:
            ValueError: no feasible point, or an unbounded objective; with the solver's message.
        """
        cost = np.zeros(self.count)
        for variable, coefficient in terms:
            cost[variable] += coefficient
        upper, bounds = self._matrix(self._at_most)
        same, values = self._matrix(self._equal)
        solved = linprog(cost, A_ub=upper, b_ub=bounds, A_eq=same, b_eq=values, method="highs-ds")
        if not solved.success:
            raise ValueError(f"the linear program has no solution: {solved.message}")
        return np.asarray(solved.x, dtype=np.float64)

    def _matrix(
        self, rows: Sequence[tuple[Terms, float]]
    ) -> tuple[Any, NDArray[np.float64] | None]:
        if not rows:
            return None, None
        places = [(i, v, c) for i, (terms, _) in enumerate(rows) for v, c in terms]
        i, v, c = zip(*places, strict=True)
        matrix = coo_array((np.array(c), (np.array(i), np.array(v))), (len(rows), self.count))
        return matrix, np.array([value for _, value in rows])


def scaled(terms: Iterable[tuple[int, float]], factor: float) -> Terms:
    """The linear form times ``factor``."""
    return [(variable, factor * coefficient) for variable, coefficient in terms]


def value(terms: Terms, solution: NDArray[np.float64]) -> float:
    """The linear form at a point."""
    return float(sum(coefficient * solution[variable] for variable, coefficient in terms))
