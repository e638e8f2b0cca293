"""Optimal transport straight from its definition: slow, independent of every theorem used here.

Draw the multiset S of K i.i.d. drafts; a rule moves its probability to prefixes of members of S
(where it stops) under the constraint that no string is accepted more often than the target has
it. These linear programs are the reference for the closed form of alpha* and for the block optima.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np

from theory.fields import Array, Number
from theory.models import Prefix, RowTree, prefixes
from theory.transport.linear import LinearProgram
from theory.transport.tree_bounds import node_masses


def multisets(law: Array, num_drafts: int) -> Iterator[tuple[tuple[int, ...], Number]]:
    """All multisets of K i.i.d. draws (ascending) with their probabilities."""
    support = [x for x in range(len(law)) if law[x] != 0]
    for chosen in combinations_with_replacement(support, num_drafts):
        orders = factorial(num_drafts) // prod(map(factorial, Counter(chosen).values()))
        yield chosen, orders * prod(law[x] for x in chosen)


def alpha_star_lp(p: Array, q: Array, num_drafts: int) -> float:
    """alpha* by the linear program over couplings of drafted multisets and tokens."""
    tree_p, tree_q = (RowTree((row.reshape(1, -1),)) for row in (p, q))
    return block_optimum_lp(tree_p, tree_q, num_drafts)


def block_optimum_lp(
    target: RowTree, draft: RowTree, num_drafts: int, stateless: bool = False
) -> float:
    """The largest E[tau] by the linear program over stopping masses of drafted multisets.

    ``stateless``: the accepted mass of a string is at most its conditional target probability
    times that of its parent, which is what rules that never change later targets obey.
    """
    strings = [()] + [v for n in range(1, target.depth + 1) for v in prefixes(target.vocab, n)]
    wanted = dict(zip(strings[1:], np.concatenate(node_masses(target)), strict=True))
    leaves = prefixes(draft.vocab, draft.depth)
    through: dict[Prefix, list[int]] = {v: [] for v in strings}
    rows: list[dict[int, Number]] = []
    limits: list[Number] = []
    columns = 0
    for chosen, probability in multisets(node_masses(draft)[-1], num_drafts):
        stops = sorted({leaves[x][:n] for x in chosen for n in range(1, draft.depth + 1)})
        rows.append(dict.fromkeys(range(columns, columns + len(stops)), 1))
        limits.append(probability)
        for column, stop in enumerate(stops, columns):
            for n in range(1, len(stop) + 1):
                through[stop[:n]].append(column)
        columns += len(stops)
    gain = dict.fromkeys(range(columns), 0)
    for v, mass in wanted.items():
        row: dict[int, Number] = dict.fromkeys(through[v], 1)
        gain |= {j: gain[j] + 1 for j in row}
        if stateless and len(v) > 1:
            chance = target.row(v[:-1])[v[-1]]
            row |= {j: row.get(j, 0) - chance for j in through[v[:-1]]}
        rows.append(row)
        limits.append(0 if stateless and len(v) > 1 else mass)
    return LinearProgram(columns, gain, rows, limits).solve().value
