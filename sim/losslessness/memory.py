"""Counts of what followed each context so far: the memory of an audit.

Where contexts repeat (small models, many samples of one prompt, and requests that share a random
stream) the past tells the law of the next token: after N earlier visits, N(x) of them followed by
x, the law

    b(x) = (c p(x) + N(x)) / (c + N)

is a bet for every c > 0 (the predictive law of a Dirichlet prior around p). Its factors b/p are
those of a Bayes factor against all laws of distance about 1/sqrt(c) from the target, so the bet
needs no idea of the fault. Counts are those before a batch of tokens; contexts are 64-bit keys,
and once ``capacity`` keys are held new ones are not learned, which keeps the bet a bet.

Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.losslessness.observations import Floats, Ints, Keys, mix

CONCENTRATIONS = tuple(float(2**k) for k in range(1, 19, 2))
"""The values of c: deviations of 1/sqrt(c), from 0.7 to 0.003."""
CAPACITY = 2**20


@dataclass
class Counter:
    """Counts of 64-bit keys, sorted.

    Attributes:
        keys, counts: the keys seen, ascending, and how often.
        capacity: most keys held.
    """

    capacity: int = CAPACITY
    keys: Keys = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    counts: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def count(self, keys: Keys) -> Ints:
        """How often each key was seen before."""
        if not self.keys.size:
            return np.zeros(keys.shape, dtype=np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[place] == keys, self.counts[place], 0)

    def add(self, keys: Keys) -> NDArray[np.bool_]:
        """Count the keys; those that found no room are left out (False)."""
        fresh, inverse, times = np.unique(keys, return_inverse=True, return_counts=True)
        place = np.searchsorted(self.keys, fresh)
        known = np.zeros(fresh.size, dtype=np.bool_)
        known[place < self.keys.size] = (
            self.keys[place[place < self.keys.size]] == fresh[place < self.keys.size]
        )
        self.counts[place[known]] += times[known]
        room = max(self.capacity - self.keys.size, 0)
        new = np.flatnonzero(~known)[:room]
        self.keys = np.insert(self.keys, place[new], fresh[new])
        self.counts = np.insert(self.counts, place[new], times[new])
        known[new] = True
        return np.asarray(known[inverse], dtype=np.bool_)


@dataclass
class Memory:
    """Visits of contexts, and of contexts followed by a token."""

    visits: Counter = field(default_factory=Counter)
    followed: Counter = field(default_factory=Counter)

    def recall(self, context: Keys, tokens: Ints) -> tuple[Ints, Ints]:
        """N and N(x) of each token, from what was learned before."""
        return self.visits.count(context), self.followed.count(mix(context, tokens))

    def learn(self, context: Keys, tokens: Ints) -> None:
        """Add tokens and their contexts; a context is only counted if its token is."""
        stored = self.followed.add(mix(context, tokens))
        self.visits.add(context[stored])


def factors(visits: Ints, followed: Ints, p: Floats) -> Floats:
    """b(x)/p(x) for every c, [n, len(CONCENTRATIONS)]."""
    c = np.array(CONCENTRATIONS)
    seen = (followed / p)[:, None]
    return np.asarray((c + seen) / (c + visits[:, None]), dtype=np.float64)
