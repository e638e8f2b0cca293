"""Checking a certificate with nothing but fractions: no other module of this project is used.

A certificate is a JSON object about all rules that verify K i.i.d. drafts of gamma tokens:

    claim       "block_optimum" (any rule), or "stateless_optimum" (rules that never change later
                targets: an accepted string passes on at most its conditional target probability)
    num_drafts  K;  gamma
    target, draft    rows by prefix, "" the root and "0 1" after tokens 0, 1; entries "a/b"
    weights     b(v) >= 0 by string v of length 1..gamma (absent: 0)
    winner      G by string of length gamma (absent: 0)
    upper, lower     what is claimed: lower <= largest E[tau] <= upper

*Upper bound.* Let f(v) be the probability that the accepted prefix is v or longer. Then
E[tau] = sum f(v) = sum (1 - b(v)) f(v) + sum b(v) f(v), over strings v of length 1..gamma.

1. sum b(v) f(v) = E[b summed along the accepted prefix] <= E[max_k B(X_k)], where B(x) sums b(v)
   over the prefixes of x: the accepted prefix belongs to a draft. Sort the strings by B; the
   maximum exceeds t with probability 1 - (1 - Q(B > t))^K.
2. Any rule has f(v) <= P(v), so sum (1 - b) f <= sum max(1 - b(v), 0) P(v). A stateless rule has
   f(vx) <= p(x|v) f(v) too, so sum (1 - b) f <= D(root) with
   D(v) = max(0, [v not root] (1 - b(v)) + sum_x p(x|v) D(vx)): the value of optimal stopping.

*Lower bound.* If G(A) <= 1 - (1 - Q(A))^K for every set A of strings, G is the law of a draft
selected among K (Border 1991; for the proof take the sets {G/Q >= t}, which are the only ones to
check). Greedy block verification of that draft accepts sum_v min(P(v), G(v)); block verification,
which is stateless, accepts sum_v P(v) min over prefixes u of v of min(1, G(u)/P(u)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

Prefix = tuple[int, ...]
Rows = Mapping[Prefix, list[Fraction]]
Masses = Mapping[Prefix, Fraction]

ZERO, ONE = Fraction(0), Fraction(1)


def check_certificate(certificate: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    """Verify a certificate.

    Returns:
        The bounds ``(lower, upper)`` that it proves.

    Raises:
        ValueError: it is malformed or proves less than it claims; the message says where.
    """
    try:
        claim = certificate["claim"]
        gamma, num_drafts = int(certificate["gamma"]), int(certificate["num_drafts"])
        target, draft = (read_rows(certificate[role], gamma) for role in ("target", "draft"))
        weights, winner = (_read_masses(certificate[part]) for part in ("weights", "winner"))
        lower, upper = Fraction(certificate["lower"]), Fraction(certificate["upper"])
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"not a certificate: {error!r}; see theory.transport.checker") from error
    if claim not in ("block_optimum", "stateless_optimum") or num_drafts < 1 or gamma < 1:
        raise ValueError(f"unknown claim {claim!r} with K={num_drafts}, gamma={gamma}")
    stateless = claim == "stateless_optimum"
    proved_upper = upper_bound(target, draft, num_drafts, weights, stateless)
    if proved_upper > upper:
        raise ValueError(f"upper: the weights prove {proved_upper}, not the claimed {upper}")
    proved_lower = lower_bound(target, draft, num_drafts, winner, stateless)
    if proved_lower < lower:
        raise ValueError(f"lower: the winner attains {proved_lower}, not the claimed {lower}")
    return lower, upper


def upper_bound(
    target: Rows, draft: Rows, num_drafts: int, weights: Masses, stateless: bool
) -> Fraction:
    """The upper bound that node weights prove.

    Raises:
        ValueError: a negative weight, or one at no node.
    """
    wanted, drafted = joint(target), joint(draft)
    for node, weight in weights.items():
        if weight < 0 or node not in wanted:
            raise ValueError(
                f"weights: {weight} at {list(node)}; need >= 0 at a string of 1..gamma"
            )
    along: dict[Prefix, Fraction] = {(): ZERO}
    for node in wanted:
        along[node] = along[node[:-1]] + weights.get(node, ZERO)
    total = met = ZERO
    ends = sorted(leaves(drafted), key=lambda leaf: along[leaf], reverse=True)
    for leaf in ends:  # E[max] = sum over strings of B times the chance that it is the best drafted
        before, met = met, met + drafted[leaf]
        total += along[leaf] * ((1 - before) ** num_drafts - (1 - met) ** num_drafts)
    if not stateless:
        return total + sum(
            (max(1 - weights.get(v, ZERO), ZERO) * mass for v, mass in wanted.items()), ZERO
        )
    values: dict[Prefix, Fraction] = {}
    for node in sorted(wanted, key=len, reverse=True):
        rest = sum((p * values[(*node, x)] for x, p in enumerate(target.get(node, []))), ZERO)
        values[node] = max(1 - weights.get(node, ZERO) + rest, ZERO)
    return total + sum((p * values[(x,)] for x, p in enumerate(target[()])), ZERO)


def lower_bound(
    target: Rows, draft: Rows, num_drafts: int, winner: Masses, stateless: bool
) -> Fraction:
    """The E[tau] attained by verifying a winner of this law.

    Raises:
        ValueError: no winner among K drafts can have this law.
    """
    wanted, drafted = joint(target), joint(draft)
    ends = leaves(drafted)
    for leaf, mass in winner.items():
        if mass < 0 or leaf not in ends or drafted[leaf] == 0 < mass:
            raise ValueError(f"winner: {mass} at {list(leaf)}; need >= 0 where the draft may go")
    possible = [leaf for leaf in ends if drafted[leaf] > 0]
    possible.sort(key=lambda leaf: winner.get(leaf, ZERO) / drafted[leaf], reverse=True)
    held = met = ZERO
    for leaf in possible:
        held, met = held + winner.get(leaf, ZERO), met + drafted[leaf]
        if held > 1 - (1 - met) ** num_drafts:
            raise ValueError(
                f"winner: mass {held} on strings that some draft meets with probability "
                f"{1 - (1 - met) ** num_drafts} only (last {list(leaf)})"
            )
    through = dict.fromkeys(wanted, ZERO)
    for leaf, mass in winner.items():
        for length in range(1, len(leaf) + 1):
            through[leaf[:length]] += mass
    kept: dict[Prefix, Fraction] = {(): ONE}
    for node in wanted:
        chance = target[node[:-1]][node[-1]]
        most = kept[node[:-1]] * chance if stateless else wanted[node]
        kept[node] = min(most, through[node])
    return sum(kept.values(), -ONE)


def joint(rows: Rows) -> dict[Prefix, Fraction]:
    """Probabilities of all strings of length 1..gamma, short ones first."""
    masses: dict[Prefix, Fraction] = {(): ONE}
    for prefix in sorted(rows, key=lambda key: (len(key), key)):
        for token, chance in enumerate(rows[prefix]):
            masses[(*prefix, token)] = masses[prefix] * chance
    del masses[()]
    return masses


def leaves(masses: Masses) -> list[Prefix]:
    """The strings of full length."""
    gamma = max(map(len, masses))
    return [node for node in masses if len(node) == gamma]


def read_rows(rows: Mapping[str, Any], gamma: int) -> dict[Prefix, list[Fraction]]:
    """Rows of a certificate, each checked to be a law; the tree must be complete."""
    read = {_prefix(key): [Fraction(value) for value in row] for key, row in rows.items()}
    vocab = len(read.get((), []))
    if vocab < 1 or set(read) != set(_strings(vocab, gamma)):
        raise ValueError("rows: need exactly one row after every string shorter than gamma")
    for prefix, row in read.items():
        if len(row) != vocab or min(row) < 0 or sum(row) != 1:
            raise ValueError(f"row after {list(prefix)} is not a law: {list(map(str, row))}")
    return read


def _strings(vocab: int, gamma: int) -> Iterator[Prefix]:
    level: list[Prefix] = [()]
    for _ in range(gamma):
        yield from level
        level = [(*prefix, token) for prefix in level for token in range(vocab)]


def _read_masses(masses: Mapping[str, Any]) -> dict[Prefix, Fraction]:
    return {_prefix(key): Fraction(value) for key, value in masses.items()}


def _prefix(key: str) -> Prefix:
    return tuple(int(token) for token in key.split())
