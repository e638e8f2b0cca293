"""A target and a draft on common contexts, the stage on which windows are compared.

Two kinds:

* long run (Markov models of order k): contexts are the last k tokens, text goes on for ever;
* horizon N (any models): contexts are all prefixes shorter than N, and a new text starts after N
  tokens. A round drafts at most as many tokens as are still wanted, minus the one it always emits.
  Speeds are then N over the expected time of one text.

Token verification moves between contexts by three matrices: A (accepted: min(p, q)), R (rejected
and corrected: (p - q)_+) and M (plain: p). A round of fixed length gamma emits sum_{i<=gamma} A^i 1
tokens and leads to sum_{i<gamma} A^i R + A^gamma M. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory import inputs
from theory.fields import Array, Field, Number, field_of, minimum, positive_part
from theory.models import MarkovModel, Model, Prefix, check_pair, rows_after
from theory.windows.renewal import occupation, recurrent_classes
from theory.windows.rule import Sight

UNLIMITED = 2**31
"""Room of a context in the long run."""


@dataclass(frozen=True)
class Chain:
    """Rows and successors of the contexts that text keeps visiting.

    Attributes:
        target, draft: the models.
        contexts: a prefix that stands for each context.
        p, q: rows [C, V].
        following: context after each token [C, V]; -1 where p = 0.
        room: tokens that a round may draft from each context [C].
        text: share of text positions in each context [C].
    """

    target: Model
    draft: Model
    contexts: tuple[Prefix, ...]
    p: Array
    q: Array
    following: NDArray[np.intp]
    room: NDArray[np.intp]
    text: Array

    @property
    def field(self) -> Field:
        return field_of(self.p)

    @property
    def endless(self) -> bool:
        """Whether this is the long run."""
        return bool((self.room == UNLIMITED).all())

    def sight(self, context: int) -> Sight:
        """Draft and target rows as seen from a context."""
        prefix = self.contexts[context]
        return Sight(rows_after(self.draft, prefix), rows_after(self.target, prefix))

    def scatter(self, weights: Array, contexts: NDArray[np.intp]) -> Array:
        """Token weights [n, V] after the given contexts [n], summed by the context they lead to."""
        count = len(self.contexts)
        out = np.zeros((len(weights), count), dtype=weights.dtype)
        if weights.dtype == object:
            out = self.field.array(np.zeros(out.shape, dtype=int))
        for x in range(weights.shape[1]):
            out[np.arange(len(weights)), self.following[contexts, x]] += weights[:, x]
        return out

    @property
    def plain(self) -> Array:
        """M."""
        return self.scatter(self.p, np.arange(len(self.contexts)))

    @property
    def accepted(self) -> Array:
        """A; no row where nothing may be drafted."""
        kept = minimum(self.p, self.q) * (self.room > 0)[:, None]
        return self.scatter(kept, np.arange(len(self.contexts)))

    @property
    def rejected(self) -> Array:
        """R; the plain row where nothing may be drafted."""
        q = self.q * (self.room > 0)[:, None]
        return self.scatter(positive_part(self.p - q), np.arange(len(self.contexts)))

    @property
    def overlap(self) -> Number:
        """Mean overlap over the draftable positions of target text (abar)."""
        return self.text @ self.accepted.sum(axis=1)

    def to_float(self) -> Chain:
        """The same chain in float64 (its models stay as they are)."""
        p, q, text = (np.asarray(a, dtype=np.float64) for a in (self.p, self.q, self.text))
        return Chain(self.target, self.draft, self.contexts, p, q, self.following, self.room, text)


def chain(target: Model, draft: Model, horizon: int | None = None) -> Chain:
    """The chain of two models: the long run, or texts of ``horizon`` tokens.

    Raises:
        ValueError: models that do not match; no horizon for models that are not Markov; horizon
            below 1; a target whose text ends up in one of several regimes.
    """
    check_pair(target, draft)
    if horizon is not None:
        horizon = inputs.whole(horizon, "horizon")
    following = _successor(target, draft, horizon)
    contexts: list[Prefix] = [()]
    known: dict[Prefix, int] = {(): 0}
    table: list[list[int]] = []
    for context in contexts:  # grows while it is walked
        table.append([])
        for x, mass in enumerate(target.row(context)):
            after = following((*context, x))
            if mass != 0 and after not in known:
                known[after] = len(contexts)
                contexts.append(after)
            table[-1].append(known[after] if mass != 0 else -1)
    rows = [np.stack([model.row(context) for context in contexts]) for model in (target, draft)]
    room = [UNLIMITED if horizon is None else horizon - 1 - len(c) for c in contexts]
    whole = Chain(
        target,
        draft,
        tuple(contexts),
        rows[0],
        rows[1],
        np.array(table, dtype=np.intp),
        np.array(room, dtype=np.intp),
        target.field.array([1] + [0] * (len(contexts) - 1)),
    )
    return _recurrent(whole)


def _successor(target: Model, draft: Model, horizon: int | None) -> Callable[[Prefix], Prefix]:
    if horizon is not None:
        return lambda prefix: () if len(prefix) == horizon else prefix
    if not (isinstance(target, MarkovModel) and isinstance(draft, MarkovModel)):
        raise ValueError("a table of prefixes has no long run; give a horizon, or Markov models")
    order = max(target.order, draft.order)
    return lambda prefix: prefix[max(len(prefix) - order, 0) :]


def _recurrent(whole: Chain) -> Chain:
    """The part of a chain that text keeps visiting, with the share of each context."""
    classes = recurrent_classes(whole.plain)
    if len(classes) != 1:
        raise ValueError(
            f"target text ends up in one of {len(classes)} regimes for good; "
            "analyse each by its own model"
        )
    keep = classes[0]
    number = np.full(len(whole.contexts) + 1, -1, dtype=np.intp)  # the last entry serves -1
    number[keep] = np.arange(len(keep))
    return Chain(
        whole.target,
        whole.draft,
        tuple(whole.contexts[i] for i in keep),
        whole.p[keep],
        whole.q[keep],
        number[whole.following[keep]],
        whole.room[keep],
        occupation(whole.plain, whole.text)[keep],
    )
