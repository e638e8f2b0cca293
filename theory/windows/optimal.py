"""The first-order optimal rule: running survival against the price of another block.

Drafting ends once

    surv_k * E[further tokens kept | survival] < lambda * (price of the next block) ,

with the price b (c + d) + e plus the step of the target's own cost, and lambda the long-run rate.
It is exactly optimal where the next acceptance says nothing about later ones (constant overlap:
then it is the best fixed window); elsewhere looking further ahead can pay (``theory.windows.
policy`` solves that problem). No threshold is free: lambda is what the policy earns, and can be
learnt while decoding (:class:`Rate`, Dinkelbach's iteration run online). Derived here.

A first token is always drafted, so an estimate that is wrong for a while is found out.
"""

from __future__ import annotations

from dataclasses import dataclass

from theory.fields import Number
from theory.models import Prefix, Rows
from theory.windows.costs import Costs
from theory.windows.estimators import Estimator, Outlook, survival, true_acceptance, true_gain
from theory.windows.rule import Rule
from theory.windows.scalars import below
from theory.windows.scalars import threshold as number


def rule(
    rate: Number,
    costs: Costs,
    acceptance: Estimator = true_acceptance,
    gain: Outlook | None = None,
    floor: int = 1,
) -> Rule:
    """Stop at a block's end once another block earns less than it costs.

    Args:
        rate: lambda, tokens per unit of time.
        costs: prices in the same unit; decisions fall at multiples of ``costs.block``.
        acceptance, gain: beliefs; the truth by default.
        floor: tokens drafted unasked; 0 allows rounds without drafts, which is safe only if the
            beliefs do not come from earlier rounds' drafts.
    """
    lam, outlook = number(rate, "rate"), gain or true_gain(costs.block)

    def stop(path: Prefix, draft: Rows) -> bool:
        drafted = len(path)
        if drafted < floor or drafted % costs.block:
            return False
        price = costs.adaptive(drafted + costs.block) - costs.adaptive(drafted)
        worth = survival(acceptance(path, draft)) * outlook(path, draft)
        return below(worth, lam * number(price, "cost"))

    return stop


@dataclass(frozen=True)
class Rate:
    """Smoothed tokens and smoothed time; their ratio estimates lambda."""

    tokens: float = 1.0
    time: float = 1.0

    @property
    def value(self) -> float:
        """Tokens per unit of time: a ratio of sums, not a mean of ratios."""
        return self.tokens / self.time


def update(state: Rate, tokens: int, time: float, memory: float = 0.9) -> Rate:
    """The rate after a round that emitted ``tokens`` in ``time``.

    Raises:
        ValueError: no time passed.
    """
    if time <= 0:
        raise ValueError(f"a round took {time}; time must be positive")
    return Rate(
        memory * state.tokens + (1 - memory) * tokens, memory * state.time + (1 - memory) * time
    )
