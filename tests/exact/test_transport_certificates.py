"""Certificates: they survive JSON, prove what they claim, and corrupted ones are refused."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from theory import RowTree
from theory.transport import block_optimum, bounds, check_certificate, checker
from theory.transport.certificates import GRID, exact_tree
from theory.transport.linear import LinearProgram, solve_equations

F = Fraction
TARGET, DRAFT = "1/3,2/3", "2/3,1/3"


def certificate(name: str = "block_optimum") -> dict[str, Any]:
    return json.loads(json.dumps(bounds(TARGET, DRAFT, 2, 2).certificates[name]))


@pytest.mark.parametrize(
    ("name", "value"), [("block_optimum", F(134, 81)), ("stateless_optimum", F(131, 81))]
)
def test_proof_by_fractions_alone(name: str, value: Fraction) -> None:
    assert check_certificate(certificate(name)) == (value, value)


def test_the_checker_imports_no_other_code() -> None:
    tree = ast.parse(Path(checker.__file__).read_text())
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert sorted(map(str, modules)) == ["__future__", "collections.abc", "fractions", "typing"]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]


def better(field: str, step: Fraction) -> Callable[[dict[str, Any]], None]:
    def change(proof: dict[str, Any]) -> None:
        proof[field] = str(F(proof[field]) + step)

    return change


def entry(part: str, key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(proof: dict[str, Any]) -> None:
        proof[part][key] = value

    return change


CORRUPTIONS: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("upper: the weights prove 134/81", better("upper", F(-1, 10**9))),
    ("lower: the winner attains 134/81", better("lower", F(1, 10**9))),
    ("winner: mass .* only", entry("winner", "1 1", "3/5")),
    ("winner: -1/9", entry("winner", "1 1", "-1/9")),
    ("winner: 1/9 at \\[1\\]", entry("winner", "1", "1/9")),
    ("weights: -1 at", entry("weights", "1", "-1")),
    ("weights: 1 at \\[0, 0, 0\\]", entry("weights", "0 0 0", "1")),
    ("upper: the weights prove", entry("weights", "0 0", "2")),
    ("is not a law", entry("target", "0", ["1/3", "1/3"])),
    ("is not a law", entry("target", "0", ["-1/3", "4/3"])),
    ("is not a law", entry("target", "0", ["1"])),
    ("upper: the weights prove", entry("draft", "", ["1/2", "1/2"])),
    ("exactly one row", lambda proof: proof["draft"].pop("1")),
    ("exactly one row", entry("draft", "0 0", ["1/2", "1/2"])),
    ("not a certificate", lambda proof: proof.pop("winner")),
    ("unknown claim 'best'", lambda proof: proof.update(claim="best")),
    ("K=0", lambda proof: proof.update(num_drafts=0)),
    ("lower: the winner attains 131/81", lambda proof: proof.update(claim="stateless_optimum")),
]


@pytest.mark.parametrize(("message", "corrupt"), CORRUPTIONS)
def test_corrupted_certificates_are_refused(
    message: str, corrupt: Callable[[dict[str, Any]], None]
) -> None:
    proof = certificate()
    corrupt(proof)
    with pytest.raises(ValueError, match=message):
        check_certificate(proof)


def test_weaker_claims_hold() -> None:
    proof = certificate()
    better("upper", F(1, 7))(proof)
    better("lower", F(-1, 7))(proof)
    assert check_certificate(proof) == (F(134, 81) - F(1, 7), F(134, 81) + F(1, 7))


def test_zero_weights_prove_the_trivial_bound() -> None:
    rows = {(): [F(1, 3), F(2, 3)], (0,): [F(1), F(0)], (1,): [F(1, 2), F(1, 2)]}
    for stateless in (False, True):
        assert checker.upper_bound(rows, rows, 2, {}, stateless) == 2
        assert checker.lower_bound(rows, rows, 2, {}, stateless) == 0


def test_float_rows_are_certified_on_a_grid() -> None:
    rng = np.random.default_rng(1)
    trees = [RowTree((rng.dirichlet(np.ones(3), 1), rng.dirichlet(np.ones(3), 3))) for _ in "pq"]
    for tree in trees:
        for rough, fine in zip(tree.levels, exact_tree(tree).levels, strict=True):
            assert (fine.sum(axis=-1) == 1).all()
            assert np.abs(fine.astype(float) - rough).max() < 4 / GRID
    optimum = block_optimum(*trees, 2)
    assert check_certificate(optimum.certificate) == (optimum.lower, optimum.upper)
    assert optimum.upper - optimum.lower < 1e-9


def test_linear_programs() -> None:
    program = LinearProgram(2, {0: F(1), 1: F(1)}, [{0: F(3), 1: F(1)}, {1: F(7)}], [F(1), F(2)])
    solution = program.solve()
    assert solution.value == pytest.approx(1 / 3 * (1 - 2 / 7) + 2 / 7)
    primal, dual = program.exact(solution)
    assert [F(str(x)) for x in primal] == [F(5, 21), F(2, 7)]
    assert [F(str(y)) for y in dual] == [F(1, 3), F(2, 21)]
    with pytest.raises(ValueError, match="no optimum"):
        LinearProgram(1, {0: 1}, [{0: -1}], [0]).solve()


def test_equations_that_leave_freedom_or_contradict() -> None:
    near = np.array([0.5, 0.25, 0.0])
    equations = [({0: 1, 1: 1}, F(3, 4)), ({0: 2, 1: 2}, F(3, 2)), ({0: 1, 1: 1}, 7), ({2: 3}, 1)]
    solution = [F(str(x)) for x in solve_equations(equations, near)]
    assert solution[0] + solution[1] == F(3, 4)
    assert solution[0] == F(1, 2)
    assert solution[2] == F(1, 3)
