"""The best sequence of draft sources on a recorded trace, and policies to compare with it.

On a recorded greedy text of T tokens every source is deterministic given the prefix, so
``accepted[a][s]``, the number of its drafted tokens that the text confirms at position s, says what
a round would keep, whichever way s was reached. A round at s with arm a emits tau_a(s) + 1 tokens
(fewer at the end) and costs C_a(s). The least cost of the rest of the text is

    val(s) = min_a C_a(s) + val(s + tau_a(s) + 1) ,   val(s) = 0 for s >= T ,

one pass from the end: the upper bound of every policy. Choosing in each round what is best for that
round alone (:func:`myopic`) stays below it in general. With equal costs and prefix-consistent
drafts, tau_a(s + 1) >= tau_a(s) - 1, the longest draft is optimal: s + tau_a(s) + 1 is then
non-decreasing in s, so a position further on is never worse. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from theory.fields import Number

Lengths = Sequence[Sequence[int]]
"""Accepted length of every arm at every position, [A][T]."""

Costs = Sequence[Number] | Sequence[Sequence[Number]]
"""Cost of a round of every arm, [A], or of every arm at every position, [A][T]."""


@dataclass(frozen=True)
class Tour:
    """A way through a trace: its rounds as (position, arm), its cost, the tokens emitted."""

    rounds: tuple[tuple[int, int], ...]
    cost: Number
    tokens: int

    @property
    def rate(self) -> Number:
        """Tokens per time."""
        return self.tokens / self.cost


def oracle(accepted: Lengths, costs: Costs) -> Tour:
    """The cheapest way through the trace (the lowest arm among equals).

    Raises:
        ValueError: an empty trace, arms of different lengths, a negative length.
    """
    end = _check(accepted, costs)
    value: list[Number] = [0] * (end + 1)
    choice = [0] * end
    for s in range(end - 1, -1, -1):
        options = [
            _cost(costs, arm, s) + value[min(end, s + lengths[s] + 1)]
            for arm, lengths in enumerate(accepted)
        ]
        choice[s] = min(range(len(options)), key=options.__getitem__)
        value[s] = options[choice[s]]
    return follow(accepted, costs, choice.__getitem__)


def follow(accepted: Lengths, costs: Costs, policy: Callable[[int], int]) -> Tour:
    """The way of a policy, which names an arm at each position that it is asked about.

    Raises:
        ValueError: as :func:`oracle`.
    """
    end = _check(accepted, costs)
    s, rounds, spent = 0, [], None
    while s < end:
        arm = policy(s)
        rounds.append((s, arm))
        spent = _cost(costs, arm, s) + (0 if spent is None else spent)
        s += accepted[arm][s] + 1
    return Tour(tuple(rounds), spent, end)


def myopic(accepted: Lengths, costs: Costs, at: Number) -> Tour:
    """The way of the rule that maximises (tau + 1) - ``at`` * cost in every round by itself."""
    end = _check(accepted, costs)

    def best_now(s: int) -> int:
        def worth(arm: int) -> Number:
            return min(accepted[arm][s] + 1, end - s) - at * _cost(costs, arm, s)

        return max(range(len(accepted)), key=worth)

    return follow(accepted, costs, best_now)


def _cost(costs: Costs, arm: int, s: int) -> Number:
    cost = costs[arm]
    return cost[s] if isinstance(cost, Sequence) else cost


def _check(accepted: Lengths, costs: Costs) -> int:
    """The length of the trace."""
    sizes = {len(lengths) for lengths in accepted}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"arms cover {sorted(sizes)} positions; give each the same, at least one")
    if len(costs) != len(accepted):
        raise ValueError(f"{len(accepted)} arms but {len(costs)} costs; give one per arm")
    if min(min(lengths) for lengths in accepted) < 0:
        raise ValueError("an accepted length is negative; mark positions without a draft by 0")
    return int(sizes.pop())
