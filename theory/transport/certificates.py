"""Block optima with rational proofs, from the float solution of the linear program.

A float vertex tells which constraints are tight; solving those in rationals gives exact node
weights (upper bound) and an exact winner law (lower bound). Nothing is believed: the bounds are
computed from the rounded objects by the functions of ``theory.transport.checker``, and a winner
that rounding made impossible is mixed with Q, which has slack everywhere, as little as needed. For
small models the two bounds coincide: the optimum is then proved, as a fraction. One position needs
no program: its optimal law and set are known (``theory.transport.one_position``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory.fields import EXACT, Number, to_fraction
from theory.inputs import whole
from theory.models import Prefix, RowTree, prefixes
from theory.transport import checker
from theory.transport.block import BlockProgram
from theory.transport.linear import LinearProgram, Solution, rounded
from theory.transport.one_position import best_set, clipped_law, hit_probability
from theory.transport.tree_bounds import node_masses

EXACT_COLUMNS = 150
"""Largest linear program whose tight constraints are solved in rationals."""

DENOMINATORS = (12, 1000, 10**6)
"""Rounded solutions are tried with these largest denominators."""

GRID = 2**52
"""Float rows are rounded to multiples of 1/GRID for their certificate."""


@dataclass(frozen=True)
class BlockOptimum:
    """An optimum between two proved bounds.

    Attributes:
        lower, upper: rational bounds; equal when the optimum is proved.
        certificate: the proof, see ``theory.transport.checker``.
    """

    lower: Fraction
    upper: Fraction
    certificate: dict[str, Any]

    @property
    def proved(self) -> bool:
        return self.lower == self.upper


def block_optimum(
    target: RowTree, draft: RowTree, num_drafts: int, stateless: bool = False
) -> BlockOptimum:
    """The largest E[tau] over all rules that verify K i.i.d. drafts as deep as the trees.

    ``stateless``: over the rules that never change the target of later tokens. Float rows are
    taken as the nearest multiples of 2^-52, which are exact.

    Raises:
        ValueError: trees of different shapes, or more strings than the program can take.
    """
    if (target.depth, target.vocab) != (draft.depth, draft.vocab):
        raise ValueError(
            f"target tree has depth {target.depth} over {target.vocab} tokens, draft tree depth "
            f"{draft.depth} over {draft.vocab}; use equal ones"
        )
    num_drafts = whole(num_drafts, "num_drafts")
    problem = BlockProgram(exact_tree(target), exact_tree(draft), num_drafts, stateless)
    rows = _rows(problem.target), _rows(problem.draft)
    lower, upper = Fraction(-1), Fraction(target.depth + 1)
    for primal, dual in _candidates(problem):
        bound_weights, law = _weights(problem, dual), _possible(problem, primal)
        above = checker.upper_bound(*rows, num_drafts, bound_weights, stateless)
        below = checker.lower_bound(*rows, num_drafts, law, stateless)
        if above < upper:
            upper, weights = above, bound_weights
        if below > lower:
            lower, winner = below, law
        if lower == upper:
            break
    certificate = {
        "claim": "stateless_optimum" if stateless else "block_optimum",
        "num_drafts": num_drafts,
        "gamma": target.depth,
        **{
            role: {_key(prefix): list(map(str, row)) for prefix, row in table.items()}
            for role, table in zip(("target", "draft"), rows, strict=True)
        },
        "weights": {_key(node): str(weight) for node, weight in weights.items() if weight},
        "winner": {_key(leaf): str(mass) for leaf, mass in winner.items() if mass},
        "upper": str(upper),
        "lower": str(lower),
    }
    return BlockOptimum(lower, upper, certificate)


def exact_tree(tree: RowTree) -> RowTree:
    """The tree in rationals; float rows are rounded to the grid, the largest entry making up."""
    if tree.field is EXACT:
        return tree
    levels = []
    for rows in tree.levels:
        counts = [[round(float(value) * GRID) for value in row] for row in rows]
        for row in counts:
            row[row.index(max(row))] += GRID - sum(row)
        levels.append(EXACT.array([[Fraction(n, GRID) for n in row] for row in counts]))
    return RowTree(tuple(levels))


Candidate = tuple[Sequence[Number], Sequence[Number]]
"""Primal and dual of the block program, rational; only G and the weights are used."""


def _candidates(problem: BlockProgram) -> Iterator[Candidate]:
    if problem.target.depth == 1:
        p, q = problem.target.levels[0][0], problem.draft.levels[0][0]
        law, chosen = clipped_law(p, q, problem.num_drafts)[0], best_set(p, q, problem.num_drafts)
        yield list(law[problem.leaves]), [int(chosen[token]) for _, token in problem.nodes]
        return
    solution = problem.solve()
    for denominator in DENOMINATORS:
        yield tuple(  # type: ignore[misc]
            [rounded(value, denominator) for value in part]
            for part in (solution.primal, solution.dual)
        )
    program = _set_form(problem, solution)
    if program.columns <= EXACT_COLUMNS:
        corner = program.solve()
        yield program.exact(corner)
        yield program.exact(replace(corner, primal=solution.primal[: program.columns]))


def _set_form(problem: BlockProgram, solution: Solution) -> LinearProgram:
    """The program with the few sets that matter at an optimum: tight ones, and levels of B."""
    size = len(problem.leaves)
    along = np.zeros(size)
    for (length, index), weight in zip(problem.nodes, solution.dual, strict=False):
        span = problem.target.vocab ** (problem.target.depth - length)
        along += [weight if leaf // span == index else 0.0 for leaf in problem.leaves]
    supply = problem.supply.astype(np.float64)
    order = np.argsort(-along, kind="stable")
    chosen = {tuple(sorted(order[:n])) for n in range(1, size) if _drops(along[order], n)}
    ratio = solution.primal[:size] / supply
    order = np.argsort(-ratio, kind="stable")
    held, met = np.cumsum(solution.primal[order]), np.cumsum(supply[order])
    tight = np.abs(held - hit_probability(met, problem.num_drafts)) < 1e-8
    chosen |= {tuple(sorted(order[:n])) for n in range(1, size) if tight[n - 1]}
    program = problem.program()
    masses = [problem.supply[list(leaves)].sum() for leaves in chosen]
    return replace(
        program,
        rows=[*program.rows, *(dict.fromkeys(map(int, leaves), 1) for leaves in chosen)],
        bounds=[*program.bounds, *(hit_probability(s, problem.num_drafts) for s in masses)],
    )


def _drops(values: NDArray[np.float64], position: int) -> bool:
    return bool(values[position - 1] - values[position] > 1e-7)


def _weights(problem: BlockProgram, dual: Sequence[Number]) -> dict[Prefix, Fraction]:
    """Node weights: the multipliers of the first rows, non-negative; 1 where no draft can be."""
    weights: dict[Prefix, Fraction] = {}
    for level, masses in enumerate(node_masses(problem.draft)):
        for index in np.flatnonzero(masses == 0).tolist():
            weights[_name(problem, level + 1, index)] = Fraction(1)
    for (length, index), weight in zip(problem.nodes, dual, strict=False):
        weights[_name(problem, length, index)] = max(to_fraction(weight), Fraction(0))
    return weights


def _possible(problem: BlockProgram, primal: Sequence[Number]) -> dict[Prefix, Fraction]:
    """A winner law near the first columns: normalised, then mixed with Q until it is possible."""
    supply = [to_fraction(mass) for mass in problem.supply]
    masses = [max(to_fraction(mass), Fraction(0)) for mass in primal[: len(supply)]]
    total = sum(masses)
    law = [mass / total for mass in masses] if total else supply
    held = met = share = Fraction(0)
    for i in sorted(range(len(law)), key=lambda i: law[i] / supply[i], reverse=True):
        held, met = held + law[i], met + supply[i]
        room = hit_probability(met, problem.num_drafts)
        if held > room:
            share = max(share, (held - room) / (held - met))
    return {
        _name(problem, problem.draft.depth, leaf): (1 - share) * mass + share * drafted
        for leaf, mass, drafted in zip(problem.leaves, law, supply, strict=True)
    }


def _name(problem: BlockProgram, length: int, index: int) -> Prefix:
    """The string of a node: the digits of its index."""
    digits = np.unravel_index(index, (problem.draft.vocab,) * length)
    return tuple(int(digit) for digit in digits)


def _rows(tree: RowTree) -> dict[Prefix, list[Fraction]]:
    return {
        prefix: [to_fraction(value) for value in row]
        for length, rows in enumerate(tree.levels)
        for prefix, row in zip(prefixes(tree.vocab, length), rows, strict=True)
    }


def _key(prefix: Iterable[int]) -> str:
    return " ".join(map(str, prefix))
