"""The first-order optimal rule: running survival against the price of another block.

Drafting ends once

    surv_k * E[further tokens kept | survival] < lambda * (price of the next block) ,

with lambda the long-run rate of tokens per unit of time, learnt per request while decoding
(Dinkelbach's iteration run online). Prices are those of a cost table, never the wall clock: equal
requests get equal drafts on every machine. Beliefs come from an :class:`Estimator`; the default
believes the draft's own probabilities. A first token is always drafted, so that beliefs are
tested. Exact face: ``theory.windows.optimal``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_runtime.requests import Request
from gpu_runtime.windows import (
    DraftView,
    Window,
    note,
    require_floor,
    require_maximum,
    some_draft,
)
from theory.windows.costs import Costs
from theory.windows.optimal import Rate, update


class Estimator(Protocol):
    """What is believed about acceptance."""

    def survival(self, view: DraftView) -> Tensor:
        """Probability that all drafted tokens are accepted, [B, K]."""
        ...

    def outlook(self, view: DraftView) -> Tensor:
        """Probability that the token about to be drawn is accepted, if they are, [B, K]."""
        ...


@dataclass(frozen=True)
class Confidence:
    """The draft's own probabilities: q(x) for a drafted token, sum q^2 for the next."""

    def survival(self, view: DraftView) -> Tensor:
        chosen = [view.probability(i) for i in range(view.drafted)]
        return torch.stack(chosen, dim=-1).double().prod(dim=-1)

    def outlook(self, view: DraftView) -> Tensor:
        return view.plain[view.drafted].double().mul(2).exp().sum(-1)


def _default_costs() -> Costs:
    return Costs(draft=0.2)


@dataclass(frozen=True)
class OptimalWindow(Window):
    """Stop at a block's end once another block earns less than it costs.

    Attributes:
        costs: prices in target calls; ``costs.block`` tokens are drafted between decisions, and
            each token of a block is believed to be as good as the first.
        memory: of the running rate; 1 keeps lambda at ``start``.
        start: the first lambda; 1 token per target call is plain decoding.
        floor: tokens drafted unasked.
    """

    maximum: int
    costs: Costs = field(default_factory=_default_costs)
    estimator: Estimator = Confidence()
    memory: float = 0.9
    start: float = 1.0
    floor: int = 1
    name = "optimal"
    reads_plain = True

    def __post_init__(self) -> None:
        require_maximum(self.maximum)
        require_floor(self.floor)
        if not 0 <= self.memory <= 1:
            raise ValueError(f"memory {self.memory} is no weight; use 0 (last round only) to 1")

    def wants(self, view: DraftView) -> NDArray[np.bool_] | None:
        drafted, block = view.drafted, self.costs.block
        if drafted < self.floor or drafted % block:
            return None
        price = float(self.costs.adaptive(drafted + block) - self.costs.adaptive(drafted))
        outlook = self.estimator.outlook(view)
        gain = torch.stack([outlook**i for i in range(1, block + 1)]).sum(0)
        worth = self.estimator.survival(view) * gain
        rates = [state.value for state in view.states(self.name, self._start)]
        needed = torch.tensor(rates, dtype=worth.dtype, device=worth.device) * price
        return some_draft(worth >= needed[:, None])

    @property
    def _start(self) -> Rate:
        return Rate(self.start, 1.0)

    def observe(self, requests: Sequence[Request]) -> None:
        def learn(state: Rate, request: Request) -> Rate:
            time = float(self.costs.adaptive(request.drafted[-1]))
            return update(state, request.emitted[-1], time, self.memory)

        note(requests, self.name, self._start, learn)
