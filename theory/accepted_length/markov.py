"""E[tau] on Markov models, for draft lengths in the hundreds.

A pair of Markov models of order up to k has finitely many contexts s, the last k tokens. Where
what happens below a node depends on its context alone, E[tau] is linear algebra on contexts:

* ``token``:      value_g = A (1 + value_{g-1}),   A[s, sx] = min(p(x|s), q(x|s));
* ``point_mass``: the same with A[s, sx] = p(x|s) for the K likeliest draft tokens;
* ``kseq``, ``recursive_rejection`` (with replacement): the same on pairs (context, survivors).

Block verification remembers its clipped ratio Wc as well, greedy block verification W = P/Q. These
are not finitely many values for all gamma, but strings that agree in (context, ratio) have the
same future and are merged, so that (in rationals, where equal ratios are equal numbers)

    E[tau] = sum_i sum over (s, w) of Q-mass_i(s, w) min(1, w) .

With D multiplicatively independent values of p(x|s)/q(x|s) there are at most C(i + D, D) ratios at
depth i: few if ratios repeat (D = 1: gamma in the hundreds), too many for arbitrary rows of a
large vocabulary. :data:`STATES` bounds them. Tree rules that carry a ratio (``traversal``) and the
multi-draft block rules have no such form here. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from theory.accepted_length.kseq import outcomes as kseq_outcomes
from theory.accepted_length.kseq import survivor_value
from theory.accepted_length.multi import outcomes as rejection_outcomes
from theory.drafting import best_tokens
from theory.fields import FLOAT, Array, Number, is_zero, minimum
from theory.inputs import whole
from theory.models import MarkovModel, Prefix, check_pair, prefixes

STATES = 200_000
"""Largest number of (context, ratio) states that the block rules keep at one depth."""


@dataclass(frozen=True)
class MarkovPair:
    """The contexts of a target and a draft.

    Attributes:
        contexts: the last k tokens, or all tokens of a shorter text; the empty text is first.
        p, q: [S, V], rows of target and draft after each context.
        successor: [S, V], the context that follows when a token is appended.
    """

    contexts: tuple[Prefix, ...]
    p: Array
    q: Array
    successor: NDArray[np.int64]

    @staticmethod
    def of(target: MarkovModel, draft: MarkovModel) -> MarkovPair:
        """Tabulate two models.

        Raises:
            ValueError: different vocabularies or fields, or models that are not Markov models.
        """
        check_pair(target, draft)
        for model in (target, draft):
            if not isinstance(model, MarkovModel):
                raise ValueError(f"{type(model).__name__} has no finite contexts; use a row tree")
        order, vocab = max(target.order, draft.order), target.vocab
        contexts = [text for n in range(order + 1) for text in prefixes(vocab, n)]
        place = {text: i for i, text in enumerate(contexts)}
        follow = [[place[last(text, x, order)] for x in range(vocab)] for text in contexts]
        return MarkovPair(
            tuple(contexts),
            np.stack([target.row(text) for text in contexts]),
            np.stack([draft.row(text) for text in contexts]),
            np.array(follow),
        )

    def state(self, prefix: Prefix) -> int:
        """The index of the context after ``prefix``."""
        order = len(self.contexts[-1])
        return self.contexts.index(tuple(prefix[max(len(prefix) - order, 0) :]))


def last(text: Prefix, token: int, order: int) -> Prefix:
    """The context after ``token`` is appended to a context."""
    longer = (*text, token)
    return longer[max(len(longer) - order, 0) :]


def token(pair: MarkovPair, gamma: int, num_drafts: int = 1) -> Array:
    """E[tau] of token verification after every context."""
    del num_drafts
    return _repeat(pair, minimum(pair.p, pair.q), gamma)


def point_mass(pair: MarkovPair, gamma: int, num_drafts: int = 1) -> Array:
    """E[tau] after every context on the tree of the K likeliest draft tokens."""
    kept = 0 * pair.p
    for row, p, q in zip(kept, pair.p, pair.q, strict=True):
        tokens = best_tokens(q, num_drafts)
        row[tokens] = p[tokens]
    return _repeat(pair, kept, gamma)


def _repeat(pair: MarkovPair, kept: Array, gamma: int) -> Array:
    value: Array = np.asarray(0 * kept.sum(axis=-1))
    for _ in range(gamma):
        value = (kept * (1 + value[pair.successor])).sum(axis=-1)
    return value


def survivors(
    outcomes: Callable[[Array, Array, int], dict[int, Array]],
    pair: MarkovPair,
    gamma: int,
    num_drafts: int = 1,
) -> Array:
    """E[tau] after every context of a rule that tests the survivors position by position."""
    tables = {k: outcomes(pair.p, pair.q, k) for k in range(1, num_drafts + 1)}
    below: dict[int, Array] = {}
    for _ in range(gamma):
        beyond = {m: rest[pair.successor] for m, rest in below.items()}
        below = {k: survivor_value(table, beyond) for k, table in tables.items()}
    return below[num_drafts]


def by_ratio(pair: MarkovPair, gamma: int, start: int, clip: bool) -> Number:
    """E[tau] of block (``clip``) or greedy block verification after the context ``start``.

    Raises:
        ValueError: more than :data:`STATES` different ratios.
    """
    one = 1 + 0 * pair.p[0, 0]
    masses: dict[tuple[int, Number], Number] = {(start, one): one}
    total = 0 * one
    for depth in range(gamma):
        longer: dict[tuple[int, Number], Number] = {}
        for (state, ratio), mass in masses.items():
            for x, (p, q) in enumerate(zip(pair.p[state], pair.q[state], strict=True)):
                if is_zero(p) or is_zero(q):
                    continue  # never drafted, or the ratio stays 0 from here on
                after = ratio * p / q
                key = (int(pair.successor[state, x]), min(one, after) if clip else after)
                longer[key] = longer.get(key, 0) + mass * q
        if len(longer) > STATES:
            raise ValueError(
                f"{len(longer)} different (context, ratio) pairs at depth {depth + 1}, more than "
                f"{STATES}; lower gamma, or use an enclosure (theory.enclosure) or Monte Carlo"
            )
        masses = longer
        total += sum(mass * min(one, ratio) for (_, ratio), mass in masses.items())
    return total


LINEAR: dict[str, Callable[..., Array]] = {
    "token": token,
    "point_mass": point_mass,
    "kseq": partial(survivors, kseq_outcomes),
    "recursive_rejection": partial(survivors, rejection_outcomes),
}
"""``form(pair, gamma, num_drafts)``: E[tau] after every context, by verifier name."""

CLIPPED = {"block": True, "greedy_block": False}
"""Whether a rule that remembers its ratio clips it at every step."""


def expected_accepted(
    name: str,
    target: MarkovModel,
    draft: MarkovModel,
    gamma: int,
    num_drafts: int = 1,
    prefix: Prefix = (),
) -> Number:
    """E[tau] of a round after ``prefix`` (for greedy block: on unmodified targets).

    Raises:
        ValueError: a rule without a Markov form, models that are not Markov models, floats for the
            block rules (equal ratios would not merge), or too many ratios.
    """
    if name not in {*LINEAR, *CLIPPED}:
        raise ValueError(f"{name!r} has no Markov form; {', '.join([*LINEAR, *CLIPPED])} have one")
    gamma = whole(gamma, "gamma")
    pair = MarkovPair.of(target, draft)
    start = pair.state(prefix)
    if name in LINEAR:
        return LINEAR[name](pair, gamma, num_drafts)[start]
    if target.field is FLOAT:
        raise ValueError(f"{name!r} merges equal ratios, which floats blur; use field='exact'")
    return by_ratio(pair, gamma, start, CLIPPED[name])
