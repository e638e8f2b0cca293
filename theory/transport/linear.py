"""Small linear programs: floats find the vertex, rationals make it exact.

    maximise gain . x   subject to   rows x <= bounds ,  x >= 0

with sparse rows of rationals (or floats). HiGHS returns a vertex in floats together with its dual;
:meth:`LinearProgram.exact` reads off which constraints are tight there and solves those equations
in rationals. Both answers are candidates: whoever uses them checks feasibility exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.fields import EXACT, Number, is_zero, to_fraction

TIGHT = 1e-8
"""Slack below which a float solution counts as touching a constraint."""

Row = Mapping[int, Number]
Equation = tuple[Row, Number]


@dataclass(frozen=True)
class Solution:
    """A float optimum: its value, x, and one multiplier a row."""

    value: float
    primal: NDArray[np.float64]
    dual: NDArray[np.float64]


@dataclass(frozen=True)
class LinearProgram:
    """See the module docstring; ``gain`` and the rows map columns to coefficients."""

    columns: int
    gain: Row
    rows: Sequence[Row]
    bounds: Sequence[Number]

    def solve(self) -> Solution:
        """A float vertex solution.

        Raises:
            ValueError: the program has no optimum.
        """
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        entries = [(i, j, _float(a)) for i, row in enumerate(self.rows) for j, a in row.items()]
        index = np.array([(i, j) for i, j, _ in entries], dtype=np.intp).reshape(-1, 2).T
        matrix: Any = csr_array(
            (np.array([a for *_, a in entries]), (index[0], index[1])),
            shape=(len(self.rows), self.columns),
        )
        costs = np.zeros(self.columns)
        for j, gain in self.gain.items():
            costs[j] = -_float(gain)
        limits = np.array([_float(bound) for bound in self.bounds])
        precise: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        result = linprog(costs, matrix, limits, method="highs-ds", options=precise)
        if result.status != 0:
            raise ValueError(f"the linear program has no optimum: {result.message}")
        x = np.asarray(result.x, dtype=np.float64)
        return Solution(-float(costs @ x), x, -result.ineqlin.marginals)

    def exact(self, solution: Solution) -> tuple[list[Number], list[Number]]:
        """Rational primal and dual that touch the constraints which ``solution`` touches."""
        transposed: list[dict[int, Number]] = [{} for _ in range(self.columns)]
        for i, row in enumerate(self.rows):
            for j, a in row.items():
                transposed[j][i] = a
        primal: list[Equation] = [
            (row, bound)
            for row, bound in zip(self.rows, self.bounds, strict=True)
            if abs(sum(_float(a) * solution.primal[j] for j, a in row.items()) - _float(bound))
            < TIGHT
        ]
        primal += [({j: 1}, 0) for j in np.flatnonzero(solution.primal < TIGHT).tolist()]
        dual: list[Equation] = [({i: 1}, 0) for i in np.flatnonzero(solution.dual < TIGHT).tolist()]
        dual += [
            (transposed[j], self.gain.get(j, 0))
            for j in np.flatnonzero(solution.primal >= TIGHT).tolist()
        ]
        return solve_equations(primal, solution.primal), solve_equations(dual, solution.dual)


def solve_equations(equations: Iterable[Equation], near: NDArray[np.float64]) -> list[Number]:
    """A rational solution of linear equations; what they leave open is rounded from ``near``.

    Equations that contradict earlier ones are left out.
    """
    zero = EXACT.zero
    pivots: dict[int, tuple[dict[int, Number], Number]] = {}
    for coefficients, constant in equations:
        row = {j: EXACT.number(a) for j, a in coefficients.items()}
        value = EXACT.number(constant)
        for pivot, (other, right) in pivots.items():
            factor = row.pop(pivot, zero)
            if not is_zero(factor):
                value = value - factor * right
                for j, a in other.items():
                    row[j] = row.get(j, zero) - factor * a
        row = {j: a for j, a in row.items() if not is_zero(a)}
        if row:
            pivot, head = row.popitem()
            pivots[pivot] = {j: a / head for j, a in row.items()}, value / head
    solution = [EXACT.number(rounded(x)) for x in near]
    for pivot, (row, value) in reversed(pivots.items()):
        solution[pivot] = value - sum((a * solution[j] for j, a in row.items()), start=zero)
    return solution


def rounded(value: float, denominator: int = 10**6) -> Fraction:
    """The nearest fraction of at most this denominator."""
    return Fraction(float(value)).limit_denominator(denominator)


def _float(value: Number) -> float:
    return float(value) if isinstance(value, (int, float)) else float(to_fraction(value))
