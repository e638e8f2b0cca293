"""What a round costs, and what a speed-up means in which unit.

A round that drafts k tokens takes ``call(k) + (c + d) k``, and an adaptive rule pays ``e`` more for
every block of b tokens that it starts (its check: host synchronisation, launch, pre-verifier).
``call`` is a table, so it can have the steps of a real device, where a few more verified tokens
are free until the next tile begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from theory.fields import FLOAT, Field, Number
from theory.inputs import whole
from theory.windows.scalars import common


@dataclass(frozen=True)
class Costs:
    """Prices of the parts of a round, in one unit of time (usually a target call without drafts).

    Attributes:
        draft: one draft step (c).
        verify: extra time per verified token (d).
        overhead: per block of an adaptive rule (e).
        block: tokens per block (b); adaptive rules decide at multiples of it.
        calls: time of a target call by the number of drafted tokens it verifies (0, 1, 2, ...);
            the last entry holds for all larger numbers.

    Raises:
        ValueError: a negative price, a first call that is free, a table that decreases, block < 1.
    """

    draft: Number
    verify: Number = 0
    overhead: Number = 0
    block: int = 1
    calls: tuple[Number, ...] = (1,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", whole(self.block, "block"))
        _, values = common(self.draft, self.verify, self.overhead, *self.calls)
        for name, price in zip(("draft", "verify", "overhead"), values, strict=False):
            if price < 0:
                raise ValueError(f"{name} cost {price} is negative")
            object.__setattr__(self, name, price)
        calls = values[3:]
        if not calls or calls[0] <= 0:
            raise ValueError(f"calls {self.calls!r}: a target call must take time")
        if any(later < earlier for earlier, later in pairwise(calls)):
            raise ValueError(f"calls {self.calls!r} get cheaper with more tokens; sort the table")
        object.__setattr__(self, "calls", tuple(calls))

    def call(self, drafted: int) -> Number:
        """Time of a target call that verifies ``drafted`` tokens."""
        return self.calls[min(drafted, len(self.calls) - 1)]

    def fixed(self, drafted: int) -> Number:
        """Time of a round whose length was known beforehand."""
        return self.call(drafted) + (self.draft + self.verify) * drafted

    def adaptive(self, drafted: int) -> Number:
        """Time of a round whose length a rule decided."""
        return self.fixed(drafted) + self.overhead * -(-drafted // self.block)

    @property
    def token(self) -> Number:
        """c + d: what each drafted token adds, apart from the steps of the table."""
        return self.draft + self.verify

    @property
    def flat(self) -> bool:
        """Whether a target call takes the same time whatever it verifies."""
        return bool(self.calls[0] == self.calls[-1])

    def to(self, field: Field) -> Costs:
        """The same prices as numbers of ``field``.

        Raises:
            ValueError: floats asked to become exact.
        """
        change = float if field is FLOAT else field.number
        return Costs(
            change(self.draft),
            change(self.verify),
            change(self.overhead),
            self.block,
            tuple(change(call) for call in self.calls),
        )


@dataclass(frozen=True)
class BreakEven:
    """Where speculation starts to pay, in three units that must not be mixed.

    Attributes:
        emitted: tokens per round, the correction or bonus included.
        accepted: drafted tokens kept per round.
        rate: share of drafted tokens kept.
    """

    emitted: Number
    accepted: Number
    rate: Number


def break_even(step_cost: Number, gamma: int) -> BreakEven:
    """Break-even of a round that costs ``step_cost`` plain steps and drafts ``gamma`` tokens.

    Raises:
        ValueError: gamma below 1.
    """
    gamma = whole(gamma, "gamma")
    field, (cost,) = common(step_cost)
    return BreakEven(field.public(cost), field.public(cost - 1), field.public((cost - 1) / gamma))


def throughput(tokens: Sequence[Number], seconds: Sequence[Number]) -> Number:
    """Overall tokens per second of several runs: a ratio of sums, not a mean of ratios."""
    field, values = common(*tokens, *seconds)
    count = len(tokens)
    return field.public(sum(values[:count]) / sum(values[count:]))


def speedup(length: Number, gamma: int, cost: Number) -> Number:
    """Tokens per round / (1 + c gamma): the speed-up of a mean emitted length."""
    field, (emitted, c) = common(length, cost)
    return field.public(emitted / (1 + c * gamma))
