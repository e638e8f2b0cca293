"""Derivations on symbols: they hold, they print, and they refuse what is false."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
import sympy

from theory import TableModel, analyse
from theory.derivations import DERIVATIONS, Derivation, losslessness
from theory.derivations.cells import Cell, block_cells, plain_cell, point_in
from theory.derivations.derivation import require_at, require_zero
from theory.derivations.lengths import ALPHA, CALL, COST, GAMMA, SPEED
from theory.derivations.lossless import expected_length, show_lossless
from theory.effects import Effects
from theory.fields import minimum
from theory.models import Prefix, Rows
from theory.verifiers.common import Carry, Round, load_program

F = Fraction
BUILT: dict[str, Derivation] = {}


@pytest.fixture(params=DERIVATIONS)
def derivation(request: pytest.FixtureRequest) -> Derivation:
    name = request.param
    if name not in BUILT:
        BUILT[name] = DERIVATIONS[name]()
    return BUILT[name]


def test_every_derivation_prints(derivation: Derivation) -> None:
    text, tex = str(derivation), derivation.latex()
    assert text.startswith(derivation.title)
    assert text.endswith(derivation.conclusion)
    assert tex.count(r"\item") == len(derivation.steps) >= 2
    assert tex.count(r"\[") == tex.count(r"\]") == len(derivation.steps)
    assert not any(expression.has(sympy.nan) for _, expression in derivation.steps)
    outside = tex.replace(r"\[", "\0").replace(r"\]", "\0").split("\0")[::2]
    assert all("E[tau]" not in part for part in outside)


@pytest.mark.parametrize(("name", "strings"), [("token_lossless_1", 2), ("block_lossless_2", 8)])
def test_losslessness_lists_every_string(name: str, strings: int) -> None:
    steps = DERIVATIONS[name]().steps
    laws = [line for text, line in steps if text.endswith("is the target's")]
    assert len(laws) == strings
    assert all(isinstance(law, sympy.Eq | sympy.logic.boolalg.BooleanTrue) for law in laws)


def changed(rule: str, fault: str):  # type: ignore[no-untyped-def]
    """A rule with one fault."""

    def program(
        fx: Effects, target: Rows, draft: Rows, drafts: tuple[Prefix, ...], carry: Carry = ()
    ) -> Round:
        (path,) = drafts
        if fault == "stale":  # the draft row of the position before

            def stale(v: Prefix) -> object:
                return draft(v[:-1])

            return load_program(rule)(fx, target, stale, drafts)  # type: ignore[arg-type]
        for i, x in enumerate(path):
            p, q = target(path[:i]), draft(path[:i])
            if not fx.flip(minimum(1, p[x] / q[x]), i):
                return Round(i, (*path[:i], fx.choose(p, len(path))))  # redrawn from p
        return Round(len(path), (*path, fx.choose(target(path), len(path))))

    return program


def test_faulty_programs_are_refused() -> None:
    with pytest.raises(ArithmeticError, match=r"the law of 0 is the target's.*does not hold"):
        show_lossless(changed("token", "redraw"), "token", [plain_cell(1)])
    with pytest.raises(ArithmeticError):
        show_lossless(changed("token", "stale"), "token", [plain_cell(2)])
    with pytest.raises(ArithmeticError, match=r"E\[tau\] is the sum"):
        show_lossless(load_program("token"), "block", [block_cells(2)[0]])


@pytest.mark.parametrize("rule", ["token", "block"])
def test_one_cell_stands_for_all_orderings(rule: str) -> None:
    """Rows of a cell with the tokens relabelled at any nodes: lossless, with the same E[tau]."""
    for cell in block_cells(2):
        point = point_in(cell, border=False)
        wanted = expected_length(cell, rule).subs(point)  # type: ignore[arg-type]
        for flips in product((False, True), repeat=3):
            target, draft = relabelled(cell, dict(zip(((), (0,), (1,)), flips, strict=True)), point)
            found = analyse(target, draft, rule, gamma=2, horizon=3)
            assert found.lossless
            assert found.expected_accepted == F(int(wanted.p), int(wanted.q))


def relabelled(
    cell: Cell, flip: dict[Prefix, bool], point: dict[sympy.Expr, sympy.Expr]
) -> tuple[TableModel, TableModel]:
    tables: list[dict[Prefix, list[Fraction]]] = [{}, {}]
    for path, rows in cell.rows.items():
        place = tuple(x ^ flip[path[:i]] for i, x in enumerate(path))
        for table, row in zip(tables, rows, strict=True):
            numbers = [sympy.sympify(x).subs(point) for x in row]
            order = numbers[::-1] if flip[path] else numbers
            table[place] = [F(int(x.p), int(x.q)) for x in order]
    target, draft = (TableModel(table, default=["1/3", "2/3"]) for table in tables)
    return target, draft


@pytest.mark.parametrize("cell", [plain_cell(2), *block_cells(2)], ids=lambda cell: cell.name)
def test_rows_of_cells_are_laws_in_the_stated_order(cell: Cell) -> None:
    for border in (False, True):
        point = point_in(cell, border)
        for p, q in cell.rows.values():
            numbers = [[sympy.sympify(x).subs(point) for x in row] for row in (p, q)]
            assert [sum(row) for row in numbers] == [1, 1]
            assert min(min(row) for row in numbers) >= 0
            assert numbers[0][0] >= numbers[1][0]
            assert border or numbers[0][0] > numbers[1][0]
    assert block_cells(2)[0].rows.keys() == plain_cell(2).rows.keys()


def test_cells_decide_only_what_is_decided() -> None:
    cell = plain_cell(1)
    b, d, e = cell.groups[0]
    assert cell.settle(sympy.Min(1, (b + d) / b)) == 1
    assert cell.settle(sympy.Min(1, e / (d + e))) == e / (d + e)
    assert cell.settle(sympy.Max(0, b - (b + d))) == 0
    assert cell.settle(b + d + e) == 1
    assert cell.settle(sympy.Min(1 - b, d)) == d  # 1 is b + d + e
    assert cell.sign(d * e - e * d) == 0
    with pytest.raises(ArithmeticError, match=r"the sign of .* varies"):
        cell.settle(sympy.Min(b, e))
    with pytest.raises(ArithmeticError, match="no rational expression"):
        cell.value(sympy.sqrt(b))
    with pytest.raises(ValueError, match="gamma 3"):
        losslessness("block", 3)


def test_checks_can_fail() -> None:
    x = sympy.Symbol("x")
    require_zero((x + 1) ** 2 - x**2 - 2 * x - 1, "a square")
    with pytest.raises(ArithmeticError, match="a square"):
        require_zero((x + 1) ** 2 - x**2 - 1, "a square")
    require_at(x / 2, [({x: 3}, F(3, 2))], "a half")
    with pytest.raises(ArithmeticError, match="a half"):
        require_at(x / 2, [({x: 3}, F(2, 3))], "a half")


def test_block_gain_by_hand() -> None:
    """p = (2/3, 1/3), q = (1/3, 2/3) everywhere: 11/9 - 10/9 by the derived formula."""
    gains = [line for _, line in DERIVATIONS["block_gain"]().steps]
    # b = d = e = 1/3, so W = 1/2 and W p(0) = q(0): the border of both cells
    values = {"b": F(1, 3), "d": F(1, 3), "e": F(1, 3), "x": F(2, 3), "y": F(1, 3)}
    for line, place in zip(gains, (F(1), F(0)), strict=True):
        numbers = values | {"g": place, "h": 1 - place}
        assert line.subs({s: numbers[str(s)] for s in line.free_symbols}) == sympy.Rational(1, 9)


def test_formulas_at_known_values() -> None:
    point = {ALPHA: sympy.Rational(2, 3), GAMMA: 2}
    assert CALL.subs(point) == sympy.Rational(19, 9)
    speeds = [
        SPEED.subs({ALPHA: sympy.Rational(4, 5), COST: sympy.Rational(1, 10), GAMMA: g})
        for g in range(20)
    ]
    assert speeds.index(max(speeds)) == 6
    assert speeds[6] == sympy.Rational(61741, 25000)
    ensemble = analyse("1/3,2/3", "2/3,1/3", "ensemble", gamma=2, w="1/2")
    assert ensemble.expected_accepted == F(55, 36)
