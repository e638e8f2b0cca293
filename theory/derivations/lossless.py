"""Losslessness and E[tau] of token and block verification, derived on symbols.

The programs of ``theory.verifiers`` themselves are run on the rows of a cell (two tokens, blocks of
one or two), so that what is shown holds for all rows of that cell, and for the text of the program.
Each run is also repeated in rationals at points inside the cell and on its border.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import sympy

from theory.derivations.cells import (
    Cell,
    block_cells,
    emitted,
    joint,
    plain_cell,
    point_in,
    round_law,
)
from theory.derivations.derivation import Derivation, Expr
from theory.effects import Effects, exact_law
from theory.fields import EXACT, to_fraction
from theory.models import Prefix, Rows
from theory.verifiers.common import Program, Round, load_program

Rule = Literal["token", "block"]


def losslessness(rule: Rule, gamma: int) -> Derivation:
    """The output law of a rule minus the target's, and its E[tau], for gamma = 1 or 2.

    Raises:
        ValueError: a longer block of block verification.
    """
    cells = [plain_cell(gamma)] if rule == "token" else block_cells(gamma)
    return show_lossless(load_program(rule), rule, cells)


def show_lossless(program: Program, rule: Rule, cells: Sequence[Cell]) -> Derivation:
    """The derivation for any program that claims the laws of ``rule`` on some cells.

    Raises:
        ArithmeticError: the output law is not the target's, or E[tau] not the closed form.
    """
    steps: list[tuple[str, Expr]] = []
    for cell in cells:
        law, form = round_law(program, cell), expected_length(cell, rule)
        for path, (p, q) in cell.rows.items():
            rows = (f"rows p, q after {_name(path)}, where {cell.name}", sympy.Matrix([p, q]))
            steps += [] if any(rows[1] == known for _, known in steps) else [rows]
        for string, mass in emitted(law, cell.target, cell.gamma).items():
            text = f"the law of {_name(string)} is the target's"
            steps.append((text, _equal(cell, mass, joint(cell.target, string), text)))
        length = sum(outcome.accepted * mass for outcome, mass in law.items())
        text = "E[tau] is the sum of the masses with which strings are kept"
        steps.append((text, _equal(cell, length, form, text)))
        _check_exactly(program, cell, law, form)
    return Derivation(
        f"{rule} verification is lossless (two tokens, gamma = {cells[0].gamma})",
        tuple(steps),
        "The output law equals the target law on every cell, hence for all rows: tokens can be "
        "relabelled node by node, and laws are continuous at the borders.",
    )


def expected_length(cell: Cell, rule: Rule) -> Expr:
    """E[tau] by the closed form: with w, d at v, f(vx) = min(w p(x), d q(x)); then w becomes f,
    and d becomes f (token) or Q (block)."""
    total = sympy.Integer(0)
    nodes: dict[Prefix, tuple[Expr, Expr]] = {(): (sympy.Integer(1), sympy.Integer(1))}
    for _ in range(cell.gamma):
        longer: dict[Prefix, tuple[Expr, Expr]] = {}
        for path, (wanted, drafted) in nodes.items():
            for x, (p, q) in enumerate(zip(cell.target(path), cell.draft(path), strict=True)):
                kept = cell.settle(sympy.Min(wanted * p, drafted * q))
                longer[(*path, x)] = (kept, kept if rule == "token" else drafted * q)
                total += kept
        nodes = longer
    return total


def block_gain() -> Derivation:
    """What block verification keeps beyond token verification, for gamma = 2."""
    steps: list[tuple[str, Expr]] = []
    for cell in block_cells(2):
        lengths = [expected_length(cell, rule) for rule in ("token", "block")]
        gain = lengths[1] - lengths[0]
        if cell.sign(gain) < 0:
            raise ArithmeticError(f"block verification keeps less than token on '{cell.name}'")
        shown = sympy.factor(gain)
        steps.append((f"E[tau] of block minus E[tau] of token, where {cell.name}", shown))
        for border in (False, True):
            point = point_in(cell, border)
            exact = [_exact_length(load_program(r), cell, point) for r in ("token", "block")]
            _require(shown.subs(point) == exact[1] - exact[0], f"the gain at {point}")
    return Derivation(
        "Block verification keeps at least as much as token verification",
        tuple(steps),
        "The gain is the mass that a second token with p > q wins back after a first with p < q; "
        "no other string is kept with more.",
    )


def _equal(cell: Cell, left: Expr, right: Expr, what: str) -> Expr:
    """The equation, once it is proved on the cell."""
    _require(cell.value(left - right) == 0, f"{what}, where {cell.name}")
    return sympy.Eq(left, right, evaluate=False)


def _check_exactly(program: Program, cell: Cell, law: dict[Round, Expr], form: Expr) -> None:
    """Run the program in rationals at a point inside the cell and at one on its border."""
    for border in (False, True):
        point = point_in(cell, border)
        target, draft = _at(cell, point)
        exact = _exact_round(program, target, draft, cell.gamma)
        for string, mass in emitted(exact, target, cell.gamma).items():
            _require(mass == joint(target, string), f"the law of {string} at {point}")
        length = sum(outcome.accepted * mass for outcome, mass in exact.items())
        _require(length == _rational(form, point), f"E[tau] at {point}")
        for outcome, mass in law.items() if not border else ():
            _require(exact[outcome] == _rational(mass, point), f"{outcome} at {point}")


def _exact_length(program: Program, cell: Cell, point: dict[Expr, Expr]) -> Expr:
    law = _exact_round(program, *_at(cell, point), cell.gamma)
    length = to_fraction(sum(outcome.accepted * mass for outcome, mass in law.items()))
    return sympy.Rational(length.numerator, length.denominator)


def _exact_round(program: Program, target: Rows, draft: Rows, gamma: int) -> dict[Round, Expr]:
    def run(fx: Effects) -> Round:
        path: Prefix = ()
        while len(path) < gamma:
            path = (*path, fx.choose(draft(path), ("draft", len(path))))
        return program(fx, target, draft, (path,))

    return exact_law(run)


def _at(cell: Cell, point: dict[Expr, Expr]) -> tuple[Rows, Rows]:
    """The rows of a cell at a point, in rationals."""

    def numbers(rows: Rows) -> Rows:
        return lambda path: EXACT.array([sympy.sympify(x).subs(point) for x in rows(path)])

    return numbers(cell.target), numbers(cell.draft)


def _rational(expression: Expr, point: dict[Expr, Expr]) -> Expr:
    return EXACT.number(sympy.sympify(expression).subs(point))


def _name(path: Prefix) -> str:
    return "".join(map(str, path)) or "nothing"


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ArithmeticError(f"{what}: this does not hold")
