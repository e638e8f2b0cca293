"""Which test sees which mutant: the library's tests, and public designs.

The library's tests run on the embedded pair of the mutant, whose rows depend on the context, with
the sample size that theory predicts for the joint test (level ``LEVEL``, power ``POWER``):

* ``joint``: chi-square of whole strings; ``marginals``: chi-square of every position;
  ``first_token``: of the first one; ``length``: the exact mean accepted length, both sides.
* ``audit``: the anytime-valid audit, given at most ``AUDIT_SHARE`` times the samples of the
  cheapest of the fixed tests.

The public designs (``sim.losslessness.designs``) run as they are built, on one row everywhere;
``greedy_text`` compares texts at temperature 0 (Spec-Bench, evaluation/equal.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.random import Generator

from sim.estimators import expected_accepted
from sim.losslessness.designs import DESIGNS, LARGEST, Texts
from sim.losslessness.eprocess import LEVEL, Audit
from sim.losslessness.joint import joint_test
from sim.losslessness.observations import Floats, Ints, Tokens, fingerprints
from sim.mutants import MUTANTS, Mutant
from sim.mutants.exact import correct_length, exact_distance, laws
from sim.mutants.pairs import HORIZON, VOCAB, pair
from sim.mutants.simulate import simulate
from sim.rows import RowTable, string_law, string_numbers, tabulate
from theory.fields import FLOAT, Number, to_fraction
from theory.power import POWER, sample_size

AUDIT_SHARE = 3
UNSEEN = 20_000
"""Texts looked at where the law is right, so that no sample size is implied."""
GREEDY_TEXTS = 200
OURS = ("joint", "audit", "marginals", "first_token", "length")
TESTS = (*OURS, *DESIGNS, "greedy_text")


@dataclass(frozen=True)
class Line:
    """One mutant: its exact distance, the samples that theory asks for, and who found it.

    Attributes:
        samples: for the joint test, None where the law is right.
        fixed: for the cheapest fixed test of the law, and its name.
        audited: texts after which the audit stopped, None if it found nothing.
    """

    mutant: Mutant
    distance: Number
    samples: int | None
    fixed: tuple[str, int] | None
    audited: int | None
    found_by: dict[str, bool]


def table(
    names: Iterable[str] = MUTANTS, seed: int = 0, progress: Callable[[str], None] = lambda _: None
) -> list[Line]:
    """The lines of some mutants (all by default); they do not depend on each other's order.

    Raises:
        ValueError: an unknown name.
    """
    lines = []
    for name in names:
        if name not in MUTANTS:
            raise ValueError(f"no mutant {name!r}; choose among {', '.join(MUTANTS)}")
        progress(name)
        lines.append(line(MUTANTS[name], seed))
    return lines


def line(mutant: Mutant, seed: int = 0) -> Line:
    """One mutant under every test."""
    rng = np.random.default_rng([seed, *mutant.name.encode()])
    sizes = fixed_sizes(mutant)
    fixed = min(sizes.items(), key=lambda entry: entry[1]) if sizes else None
    samples = sizes.get("joint")
    found = _ours(mutant, samples or UNSEEN, rng)
    limit = AUDIT_SHARE * (fixed[1] if fixed else UNSEEN)
    audited = audit_samples(mutant, limit, rng)
    found["audit"] = audited is not None
    found |= _public(mutant, rng)
    ordered = {test: found[test] for test in TESTS}
    return Line(mutant, exact_distance(mutant), samples, fixed, audited, ordered)


@cache
def string_laws(mutant: Mutant) -> tuple[Floats, Floats]:
    """The correct law and the mutant's over all strings, [V] * HORIZON axes each."""
    shape = (VOCAB,) * HORIZON
    both = []
    for law in laws(mutant):
        dense = np.zeros(shape)
        for string, mass in law.items():
            dense[string] = float(to_fraction(mass)) if mutant.exact else float(mass)
        both.append(dense / dense.sum())
    return both[0], both[1]


def fixed_sizes(mutant: Mutant) -> dict[str, int]:
    """Samples that the fixed tests need against a mutant, by test; empty if the law is right."""
    correct, wrong = string_laws(mutant)
    sizes = {}
    if np.abs(wrong - correct).max() > 1e-12:
        sizes["joint"] = math.ceil(sample_size(correct, wrong, LEVEL, POWER))
    for position in range(HORIZON):
        p, other = _marginal(correct, position), _marginal(wrong, position)
        if np.abs(p - other).max() > 1e-12:
            level = LEVEL if position == 0 else LEVEL / HORIZON
            needed = math.ceil(sample_size(p, other, level, POWER))
            name = "first_token" if position == 0 else f"position {position}"
            sizes[name] = needed
    return sizes


def reference_table(mutant: Mutant) -> RowTable:
    """The rows that a correct decoder samples from."""
    return tabulate(mutant.reference(pair(mutant.pair, FLOAT).target), HORIZON - 1)


def as_tokens(rows: RowTable, tokens: Ints, first: int = 0) -> Tokens:
    """Texts [n, L] as a chunk of an audit, with the rows of a tabulated target."""
    n, length = tokens.shape
    states, log_rows = np.zeros(n, dtype=np.int64), np.empty((n, length, rows.vocab))
    for i in range(length):
        log_rows[:, i] = rows.rows(states)
        states = rows.after(states, tokens[:, i])
    context = fingerprints(np.zeros(n, dtype=np.uint64), tokens)
    unknown = np.full(n * length, -1)
    return Tokens(
        log_rows.reshape(n * length, -1),
        tokens.reshape(-1),
        context.reshape(-1),
        np.tile(np.arange(length), n),
        np.repeat(np.arange(first, first + n), length),
        unknown,
        unknown,
    )


def audit_samples(mutant: Mutant, limit: int, rng: Generator) -> int | None:
    """Texts after which the audit finds a mutant; None if ``limit`` texts do not tell."""
    tokens, rows = simulate(mutant, limit, rng).tokens, reference_table(mutant)
    audit = Audit()
    for part in np.array_split(np.arange(limit), min(8, limit)):
        audit.update(as_tokens(rows, tokens[part], int(part[0])))
        if audit.violations:
            return audit.violations[0].sequence + 1
        if audit.found_at is not None:
            return audit.found_at[1]
    return None


def _ours(mutant: Mutant, n: int, rng: Generator) -> dict[str, bool]:
    run = simulate(mutant, n, rng)
    law = string_law(reference_table(mutant), HORIZON).reshape((VOCAB,) * HORIZON)
    numbers = string_numbers(run.tokens, VOCAB)
    strings = np.bincount(numbers, minlength=law.size).reshape(law.shape)
    single = [
        joint_test(_marginal(strings, i), _marginal(law, i), LEVEL / (HORIZON if i else 1))
        for i in range(HORIZON)
    ]
    length = expected_accepted(run.accepted[:, 0], mutant.gamma, LEVEL)
    return {
        "joint": joint_test(strings, law, LEVEL).rejected,
        "marginals": any(test.rejected for test in single),
        "first_token": single[0].rejected,
        "length": not length.contains(correct_length(mutant)),
    }


def _public(mutant: Mutant, rng: Generator) -> dict[str, bool]:
    unended = mutant if mutant.eos is None else mutant.corrected()  # these designs end no text
    run = simulate(unended, LARGEST, rng, "flat")
    p = np.array(pair("flat", FLOAT).target.row(()))
    texts = Texts(run.tokens, run.accepted[:, 0], p, correct_length(mutant, "flat"))
    found = {name: design(texts, rng) for name, design in DESIGNS.items()}
    greedy = simulate(mutant, GREEDY_TEXTS, rng, "greedy").tokens
    right = mutant.reference(pair("greedy", FLOAT).target)
    best = string_law(tabulate(right, HORIZON - 1), HORIZON)
    found["greedy_text"] = bool((string_numbers(greedy, VOCAB) != int(np.argmax(best))).any())
    return found


def _marginal(strings: Floats | Ints, position: int) -> Floats:
    others = tuple(axis for axis in range(strings.ndim) if axis != position)
    return np.asarray(strings.sum(axis=others), dtype=np.float64)
