"""The exact speed of a given rule on a chain of contexts, path by path."""

from __future__ import annotations

import numpy as np

from theory.fields import Array, Number
from theory.models import Prefix
from theory.windows.chain import Chain
from theory.windows.costs import Costs
from theory.windows.policy import SPLITS, Verifier
from theory.windows.renewal import occupation
from theory.windows.rule import Rule


def rule_speed(
    chain: Chain, costs: Costs, rule: Rule, cap: int, verifier: Verifier = "token"
) -> Number:
    """Speed of a stopping rule, relative to one token per plain call.

    The rule pays the overhead of every block it starts. Cost: one evaluation per path of at most
    ``cap`` tokens and context.
    """
    rounds = [_Round(chain, costs, rule, cap, verifier, i) for i in range(len(chain.contexts))]
    whole = [round_.below((), round_.start, chain.field.one) for round_ in rounds]
    share = occupation(np.stack([step for _, _, step in whole]), chain.text)
    tokens = share @ np.array([1 + accepted for accepted, _, _ in whole])
    return tokens / (share @ np.array([time for _, time, _ in whole])) * costs.call(0)


class _Round:
    """Rounds that start in one context."""

    def __init__(
        self, chain: Chain, costs: Costs, rule: Rule, cap: int, verifier: Verifier, start: int
    ) -> None:
        self.start = start
        self._chain, self._costs, self._rule = chain, costs, rule
        self._limit = min(cap, int(chain.room[start]))
        self._split = SPLITS[verifier]
        self._sight = chain.sight(start)
        self._plain = chain.plain

    def below(self, path: Prefix, context: int, w: Number) -> tuple[Number, Number, Array]:
        """Accepted tokens still to come, time, and mass by next context, given a drafted path.

        ``context`` is -1 and ``w``, the survival, 0 on a path that the target never emits.
        """
        chain, dead = self._chain, context < 0
        if len(path) == self._limit or self._rule(path, self._sight):
            onward = 0 * self._plain[0] if dead else w * self._plain[context]
            return 0 * w, self._costs.adaptive(len(path)), onward
        q = self._sight(path)
        if dead:
            rest, survivals = 0 * q, 0 * q
            step = 0 * self._plain[0]
        else:
            rest, survivals = self._split(w, chain.p[context], q)
            step = chain.scatter(rest[None], np.array([context]))[0]
        tokens = time = 0 * w
        for x, mass in enumerate(q):
            if mass == 0:
                continue
            after = -1 if dead else int(chain.following[context, x])
            more, took, onward = self.below((*path, x), after, survivals[x])
            tokens = tokens + mass * (survivals[x] + more)
            time = time + mass * took
            step = step + mass * onward
        return tokens, time, step
