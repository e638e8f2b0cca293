"""Choosing a draft source each round: renewal reward, thresholds, regret and oracles.

A round in situation s (what is seen before drafting; weight w_s) with arm a (cache draft, model
draft, no draft, ...) keeps tau_a drafted tokens, emits tau_a + 1 and costs C_a(s); let mu_a(s) =
E[tau_a | s]. A policy's long-run rate is R = E[mu + 1] / E[C], tokens per time. The best rate
lambda* is the root of the convex decreasing

    F(lambda) = E max_a ( mu_a + 1 - lambda C_a )

(renewal reward; Dinkelbach 1967: lambda <- rate of the policy that maximises at lambda), and the
policy that maximises at lambda* is optimal. Between a cache draft C and a model draft m it takes C
iff

    mu_C >= theta* = mu_m + lambda* (C_C - C_m) ,

so the ratio rule (mu_C + 1)/C_C > (mu_m + 1)/C_m is not optimal in general. Any policy g loses

    lambda* - R_g = E[loss_g] / E[C_g] ,
    loss_g = max_a(mu_a - lambda* C_a) - (mu_g - lambda* C_g) ,

which for two arms is |mu_C - theta*| on the wrong side of theta* and 0 elsewhere. Hence a threshold
that is off by t, or a predictor with Gaussian error of sd t, costs about f t^2 / (2 E[C]) where f
is the density of mu_C at theta*. The oracles on recorded traces are in ``theory.payoff_traces``.

Arrays are [S] or [S, A] in one field (``theory.fields``), costs positive, in any unit of time.
Derived here; the switch is that of Hybrid Verified Decoding (2606.01019), which fixes theta = 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from theory.fields import EXACT, FLOAT, Array, Field, Number, field_of, get_field
from theory.laws import SUM_TOLERANCE, as_row

CACHE, MODEL, PLAIN = 0, 1, 2
"""Arms of :func:`switch`: a cache draft, a model draft, plain decoding."""

Policy = NDArray[np.int64]
"""The arm taken in each situation, [S]."""


@dataclass(frozen=True)
class Choice:
    """A choice among A arms in S situations.

    Attributes:
        weights: probabilities of the situations at the start of a round, [S].
        accepted: mu, the mean accepted length, [S, A].
        costs: the cost of the whole round, [S, A].
    """

    weights: Array
    accepted: Array
    costs: Array

    @property
    def field(self) -> Field:
        return field_of(self.weights)

    def advantage(self, at: Number) -> Array:
        """mu + 1 - lambda * cost of every arm, [S, A]."""
        return np.asarray(self.accepted + 1 - self.field.number(at) * self.costs)

    def mean(self, values: Array, policy: Policy) -> Number:
        """E of ``values`` [S, A] under a policy."""
        return (self.weights * _taken(values, policy)).sum()


def choice(weights: Any, accepted: Any, costs: Any, field: Field | str = EXACT) -> Choice:
    """A validated choice; ``costs`` may also be one list of A numbers.

    Raises:
        ValueError: weights that are no law, shapes that differ, mu < 0, a cost that is not > 0.
    """
    field = get_field(field)
    law = as_row(weights, field, "weights of the situations")
    mu, cost = field.array(accepted), field.array(costs)
    if mu.ndim != 2 or len(mu) != len(law):
        raise ValueError(
            f"accepted has shape {mu.shape}; give [situations, arms] = [{len(law)}, A]"
        )
    try:
        cost = np.broadcast_to(cost, mu.shape)
    except ValueError as error:
        raise ValueError(f"costs have shape {cost.shape}, accepted {mu.shape}; use one") from error
    for name, values, least in (("accepted", mu < 0, "0 or more"), ("costs", cost <= 0, "> 0")):
        if values.any():
            where = tuple(int(i) for i in np.argwhere(values)[0])
            raise ValueError(f"{name}: entry {where} is not valid; use numbers {least}")
    return Choice(law, mu, cost)


def switch(
    law: Mapping[Any, Any],
    model_accepted: Number,
    cache_cost: Number,
    model_cost: Number,
    plain_cost: Number | None = None,
    field: Field | str = EXACT,
) -> Choice:
    """The choice between a cache draft, whose mean length mu_C has a discrete ``law`` {mu_C: its
    probability}, and a model draft of constant mean length; with ``plain_cost`` also no draft."""
    arms = [cache_cost, model_cost] + ([] if plain_cost is None else [plain_cost])
    lengths = [[mu, model_accepted, 0][: len(arms)] for mu in law]
    return choice(list(law.values()), lengths, arms, field)


@dataclass(frozen=True)
class Best:
    """The optimum: ``rate`` is lambda*; ``rounds`` of Dinkelbach's iteration were needed."""

    rate: Number
    policy: Policy
    rounds: int


def rate(problem: Choice, policy: Sequence[int] | Policy) -> Number:
    """Tokens per time of a policy."""
    taken = np.asarray(policy, dtype=np.int64)
    emitted, spent = problem.mean(problem.accepted + 1, taken), problem.mean(problem.costs, taken)
    return problem.field.public(emitted / spent)


def surplus(problem: Choice, at: Number) -> Number:
    """F(lambda), which is positive below lambda*, 0 there and negative above."""
    return problem.field.public((problem.weights * problem.advantage(at).max(axis=1)).sum())


def best(problem: Choice) -> Best:
    """lambda* and an optimal policy (the first arm among equals), exactly in EXACT."""
    policy: Policy = np.asarray(problem.accepted.argmax(axis=1), dtype=np.int64)
    reached, rounds = rate(problem, policy), 0
    while True:
        rounds += 1
        policy = np.asarray(problem.advantage(reached).argmax(axis=1), dtype=np.int64)
        improved = rate(problem, policy)
        if improved <= reached:
            return Best(reached, policy, rounds)
        reached = improved


def threshold(at: Number, model_accepted: Any, cache_cost: Any, model_cost: Any) -> Any:
    """theta = mu_m + lambda (C_C - C_m): the least mu_C for which the cache draft is taken."""
    return model_accepted + at * (cache_cost - model_cost)


def by_threshold(predicted: Any, theta: Any) -> Policy:
    """The policy that takes the cache draft iff its predicted length is at least ``theta``."""
    return np.where(np.asarray(predicted >= theta, dtype=np.bool_), CACHE, MODEL).astype(np.int64)


def regret(problem: Choice, policy: Sequence[int] | Policy) -> Number:
    """lambda* - R_g, as the mean loss of a round over its mean cost."""
    taken = np.asarray(policy, dtype=np.int64)
    worth = problem.advantage(best(problem).rate)
    loss = worth.max(axis=1) - _taken(worth, taken)
    lost = (problem.weights * loss).sum() / problem.mean(problem.costs, taken)
    return problem.field.public(lost)


def revealed(problem: Choice, arm: int, laws: Sequence[Mapping[Any, Any]]) -> Choice:
    """The same choice for a decider who sees the accepted length of ``arm`` beforehand.

    Each situation is split by ``laws[s]``, the law of that length {tau: probability}. The gain in
    rate is the value of the information.

    Raises:
        ValueError: a law whose mean is not mu.
    """
    weights, lengths, costs = [], [], []
    for s, law in enumerate(laws):
        chances = as_row(law.values(), problem.field, f"law of situation {s}")
        taus = problem.field.array(list(law))
        known, mean = problem.accepted[s, arm], (chances * taus).sum()
        if abs(mean - known) > (SUM_TOLERANCE if problem.field is FLOAT else 0):
            raise ValueError(f"situation {s}: the law has mean {mean}, but mu is {known}")
        rows = np.repeat(problem.accepted[s : s + 1], len(taus), axis=0)
        rows[:, arm] = taus
        weights.append(problem.weights[s] * chances)
        lengths.append(rows)
        costs.append(np.repeat(problem.costs[s : s + 1], len(taus), axis=0))
    return Choice(np.concatenate(weights), np.concatenate(lengths), np.concatenate(costs))


def cut_off(survival: Sequence[Number] | Array, price: Number) -> int:
    """How many tokens of a draft to verify: token l is kept while P(tau >= l) > price.

    ``survival[l - 1]`` is P(tau >= l), non-increasing; ``price`` is lambda* d, with d the cost of
    one more token. At lambda* this is the best length of every draft.
    """
    return next((kept for kept, alive in enumerate(survival) if alive <= price), len(survival))


def updated_rate(at: Number, emitted: Number, cost: Number, step: Number) -> Number:
    """lambda after one more round: lambda + step (emitted - lambda cost) (Robbins, Monro 1951).

    It settles where E[emitted] = lambda E[cost]; deciding by the current lambda leads to lambda*.
    """
    return at + step * (emitted - at * cost)


def quadratic_regret(density: float, error: float, mean_cost: float) -> float:
    """f t^2 / (2 E[C]): the regret of a threshold that is off by t, or of a Gaussian error of sd t
    in the predictor, for small t. ``density`` is that of mu_C - theta* at 0."""
    return density * error**2 / (2 * mean_cost)


def prediction_regret(
    density: Callable[[float], float],
    theta: float,
    sigma: float,
    mean_cost: float,
    support: tuple[float, float] = (0.0, np.inf),
) -> float:
    """The regret of a predictor with Gaussian error of sd ``sigma``, by quadrature.

    ``density`` is that of mu_C on ``support``; the wrong side is taken with probability
    Phi(-|mu_C - theta|/sigma).
    """

    def loss(mu: float) -> float:
        gap = abs(mu - theta)
        return float(density(mu) * gap * stats.norm.cdf(-gap / sigma))

    low, high = max(support[0], theta - 40 * sigma), min(support[1], theta + 40 * sigma)
    return _integral(loss, low, high, theta) / mean_cost


def threshold_regret(
    density: Callable[[float], float], theta: float, shift: float, mean_cost: float
) -> float:
    """The regret of using theta + shift for theta, by quadrature."""
    low, high = sorted((theta, theta + shift))
    return _integral(lambda mu: density(mu) * abs(mu - theta), low, high, theta) / mean_cost


def _integral(f: Callable[[float], float], low: float, high: float, kink: float) -> float:
    parts = [(low, min(kink, high)), (max(low, kink), high)]
    return float(sum(integrate.quad(f, a, b, epsabs=1e-13)[0] for a, b in parts if a < b))


def _taken(values: Array, policy: Policy) -> Array:
    """``values`` [S, A] of the arm taken in each situation, [S]."""
    return np.asarray(values[np.arange(len(policy)), policy])
