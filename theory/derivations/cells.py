"""Verification programs run on symbols, one ordering of the probabilities at a time.

``Min`` and ``Max`` of symbols stay undecided, so the laws of a symbolic run are nests of them. A
*cell* is a part of the space of all rows on which every comparison that a rule makes has one
outcome. Its rows are written in positive symbols, in groups that sum to one, such that each
difference which is compared is a fraction of polynomials whose coefficients have one sign once
every symbol is written as its share of its group; :meth:`Cell.settle` reads the outcome off. With
two tokens, token 0 is at every node the one with p >= q, by relabelling, so that one cell stands
for all orderings:

    p = (b + d, e) ,   q = (b, d + e) ,   b + d + e = 1 .

Below token 1, where the running ratio is W = e/(d + e) < 1, block verification also compares W p
with q. There p(0) = x, and g is the place of q(0) in [0, W x] or in [W x, x], with 0 < g < 1.

Rows on the border of cells (d = 0, ...) follow by continuity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from typing import Any

import numpy as np
import sympy
from sympy.polys.fields import FracField

from theory.derivations.derivation import Expr
from theory.effects import Effects, Slot, enumerate_law
from theory.fields import SYMBOLIC, Array, Field, Number
from theory.models import Prefix, Rows, prefixes
from theory.verifiers.common import Program, Round

Group = tuple[Expr, ...]
"""Positive symbols whose sum is one."""

BONUS = SYMBOLIC.array([1, 0])
"""Row after a whole block: that token is a draw from the target by definition, so any will do."""


@dataclass(frozen=True)
class Cell:
    """Rows of two tokens for every prefix of a block.

    Attributes:
        name: which orderings it stands for.
        gamma: the length of the block.
        rows: target and draft row by prefix.
        groups: the symbols.
    """

    name: str
    gamma: int
    rows: Mapping[Prefix, tuple[Array, Array]]
    groups: tuple[Group, ...]

    def target(self, path: Prefix) -> Array:
        """The target row after a path."""
        return self.rows[path][0] if len(path) < self.gamma else BONUS

    def draft(self, path: Prefix) -> Array:
        """The draft row after a path."""
        return self.rows[path][1] if len(path) < self.gamma else BONUS

    @cached_property
    def _field(self) -> Any:
        return FracField([s for group in self.groups for s in group], sympy.QQ)

    @cached_property
    def _known(self) -> dict[Expr, Any]:
        """Values found so far; at first those of the symbols, s / (sum of its group)."""
        generators = dict(zip(self._field.symbols, self._field.gens, strict=True))
        return {
            s: generators[s] / sum(generators[t] for t in group)
            for group in self.groups
            for s in group
        }

    def value(self, expression: Expr) -> Any:
        """A rational expression as a reduced fraction in the shares."""
        expression = sympy.sympify(expression)
        if expression not in self._known:
            self._known[expression] = self._evaluate(expression)
        return self._known[expression]

    def _evaluate(self, expression: Expr) -> Any:
        if expression.is_Rational:
            return self._field(expression)
        if expression.is_Pow and expression.exp.is_Integer:
            return self.value(expression.base) ** int(expression.exp)
        parts = [self.value(part) for part in expression.args]
        if expression.is_Add:
            return sum(parts[1:], start=parts[0])
        if expression.is_Mul:
            return prod(parts[1:], start=parts[0])
        raise ArithmeticError(f"{expression} is no rational expression of the cell's symbols")

    def settle(self, expression: Expr) -> Expr:
        """The expression with every Min and Max decided; 0 and 1 are recognised.

        Raises:
            ArithmeticError: a comparison that has no single outcome on this cell.
        """

        def pick(entries: tuple[Expr, ...], wanted: int) -> Expr:
            best = entries[0]
            for entry in entries[1:]:
                best = entry if self.sign(entry - best) == wanted else best
            return best

        decided = sympy.sympify(expression)
        decided = decided.replace(sympy.Min, lambda *entries: pick(entries, -1))
        decided = decided.replace(sympy.Max, lambda *entries: pick(entries, 1))
        value = self.value(decided)
        return sympy.Integer(int(value == 1)) if value in (0, 1) else decided

    def sign(self, expression: Expr) -> int:
        """1, 0 or -1 where an expression is >= 0, = 0 or <= 0 on the whole cell.

        Raises:
            ArithmeticError: coefficients of both signs, so that nothing is decided.
        """
        value = self.value(expression)
        outcome = 1
        for part in (value.numer, value.denom):  # codespell:ignore numer
            terms = part.coeffs()
            if not terms:
                return 0
            if all(c < 0 for c in terms):
                outcome = -outcome
            elif not all(c > 0 for c in terms):
                raise ArithmeticError(f"the sign of {expression} varies on '{self.name}'; split it")
        return outcome


def plain_cell(gamma: int) -> Cell:
    """All nodes in the form p = (b + d, e), q = (b, d + e); settles token verification."""
    rows, groups = {}, []
    for prefix in (path for length in range(gamma) for path in prefixes(2, length)):
        name = "".join(map(str, prefix))
        group = sympy.symbols([f"{letter}{name}" for letter in "bde"], positive=True)
        b, d, e = group
        rows[prefix] = (SYMBOLIC.array([b + d, e]), SYMBOLIC.array([b, d + e]))
        groups.append(tuple(group))
    return Cell("p(0) >= q(0) at every node", gamma, rows, tuple(groups))


def block_cells(gamma: int) -> list[Cell]:
    """The cells of block verification, for gamma = 1 or 2.

    Raises:
        ValueError: a longer block.
    """
    if gamma not in (1, 2):
        raise ValueError(f"gamma {gamma}: the cells of longer blocks are not worked out; use 1, 2")
    plain = plain_cell(gamma)
    if gamma == 1:
        return [plain]
    d, e, x, y, g, h = sympy.symbols("d e x y g h", positive=True)
    laws = {  # q after token 1; its second entry is 1 minus the first
        "W p(0) >= q(0)": (x * g * e / (d + e), y + x * (d + e * h) / (d + e)),
        "W p(0) <= q(0)": (x * (e + d * g) / (d + e), y + x * d * h / (d + e)),
    }
    return [
        Cell(
            f"{plain.name}, and {order} after token 1",
            gamma,
            {**plain.rows, (1,): (SYMBOLIC.array([x, y]), SYMBOLIC.array(law))},
            (*plain.groups[:2], (x, y), (g, h)),
        )
        for order, law in laws.items()
    ]


@dataclass(frozen=True)
class _Settled:
    """Effects whose probabilities are settled first, so that impossible branches disappear."""

    fx: Effects
    settle: Callable[[Expr], Expr]

    @property
    def field(self) -> Field:
        return SYMBOLIC

    def choose(self, law: Array, slot: Slot) -> int:
        return self.fx.choose(np.array([self.settle(x) for x in law], dtype=object), slot)

    def flip(self, prob: Number, slot: Slot) -> bool:
        return self.fx.flip(self.settle(prob), slot)


def point_in(cell: Cell, border: bool) -> dict[Expr, Expr]:
    """Rational values of a cell's symbols, inside it or (second symbols 0) on its border."""
    values: dict[Expr, Expr] = {}
    for n, group in enumerate(cell.groups):
        parts = [0 if border and i == 1 else 2 + (5 * n + 3 * i) % 7 for i in range(len(group))]
        values |= {s: sympy.Rational(a, sum(parts)) for s, a in zip(group, parts, strict=True)}
    return values


def round_law(program: Program, cell: Cell) -> dict[Round, Expr]:
    """The law of a round on the rows of a cell."""
    settle = cache(cell.settle)  # every path asks for the probabilities of its beginning again

    def run(fx: Effects) -> Round:
        settled = _Settled(fx, settle)
        path: Prefix = ()
        while len(path) < cell.gamma:
            path = (*path, settled.choose(cell.draft(path), ("draft", len(path))))
        return program(settled, cell.target, cell.draft, (path,))

    return enumerate_law(run, SYMBOLIC)


def emitted(law: Mapping[Round, Number], target: Rows, length: int) -> dict[Prefix, Number]:
    """The law of the first ``length`` tokens, short rounds continued with the target."""
    strings: dict[Prefix, Number] = {}
    todo = [(outcome.tokens[:length], weight) for outcome, weight in law.items()]
    while todo:
        tokens, weight = todo.pop()
        if len(tokens) == length:
            strings[tokens] = strings.get(tokens, 0) + weight
        else:
            todo += [((*tokens, x), weight * mass) for x, mass in enumerate(target(tokens))]
    return dict(sorted(strings.items()))


def joint(rows: Rows, string: Prefix) -> Number:
    """The probability of a string."""
    return np.prod([rows(string[:i])[x] for i, x in enumerate(string)])
