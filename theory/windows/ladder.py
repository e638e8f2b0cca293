"""The ladder of windows: what each kind of knowledge is worth, exactly.

    autoregressive <= best fixed <= best non-anticipating <= visible ceiling <= clairvoyant oracle

* *best fixed*: one gamma for all rounds;
* *best non-anticipating*: any stopping rule, knowing both models' rows but no outcome: the ceiling
  of what can be learnt from the draft side under sampling;
* *visible ceiling*: as before, but a doomed token is recognised once its block is drafted: the
  ceiling of pre-verifiers at temperature 0;
* *clairvoyant oracle*: knows what will be accepted: an accounting, not an algorithm.

Each kind may do all that the one before it does, so a rung is never below the one before it: a
fixed window is also a rule (one that checks nothing and pays no overhead), and so on. All rungs are
for token verification. Derived here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from theory.fields import EXACT, FLOAT, Number
from theory.models import Model
from theory.windows.ceilings import fixed_speed, fixed_speeds, oracle_speed, visible_speed
from theory.windows.chain import Chain, chain
from theory.windows.costs import Costs
from theory.windows.policy import optimum
from theory.windows.rule import Rule
from theory.windows.rule_speed import rule_speed


@dataclass(frozen=True)
class Ladder:
    """Speeds relative to autoregressive decoding (tokens per plain target call).

    Attributes:
        overlap: abar, the overlap averaged over target text.
        fixed, gamma: the best fixed window.
        optimal, cap: the best non-anticipating rule among windows up to ``cap``.
        visible, oracle: the two ceilings.
        rules: speeds of the named rules that were asked for.
    """

    overlap: Number
    fixed: Number
    gamma: int
    optimal: Number
    cap: int
    visible: Number
    oracle: Number
    rules: Mapping[str, Number] = field(default_factory=dict)
    autoregressive: int = 1

    @property
    def reachable(self) -> Number:
        """Share of the span from best fixed to oracle that a non-anticipating rule can have."""
        span = self.oracle - self.fixed
        return span if span == 0 else (self.optimal - self.fixed) / span

    def rungs(self) -> list[tuple[str, Number]]:
        """(name, speed), lowest first."""
        return [
            ("autoregressive", self.autoregressive),
            (f"fixed, gamma = {self.gamma}", self.fixed),
            ("optimal non-anticipating", self.optimal),
            ("visible ceiling", self.visible),
            ("clairvoyant oracle", self.oracle),
        ]


def ladder(
    target: Model,
    draft: Model,
    costs: Costs,
    *,
    horizon: int | None = None,
    cap: int = 64,
    max_gamma: int = 256,
    rules: Mapping[str, Rule] | None = None,
    rule_cap: int = 10,
) -> Ladder:
    """The ladder of a pair of models.

    Args:
        target, draft: Markov models, or any models with a horizon.
        costs: prices of a round.
        horizon: tokens of a text; None for the long run.
        cap: largest window of adaptive rules; lowered where the path states become too many.
        max_gamma: largest fixed window tried.
        rules: rules to place on the ladder, by name, with windows up to ``rule_cap``; all paths
            that they may draft are walked.

    Raises:
        ValueError: models that do not match or have no long run, or costs of another field.
    """
    stage = chain(target, draft, horizon)
    costs = costs.to(stage.field)
    gamma, fixed = best_fixed(stage, costs, max_gamma)
    best = optimum(stage, costs, cap)
    optimal = max(fixed, best.speed)
    visible = max(optimal, visible_speed(stage, costs))
    top = oracle_speed(stage, costs)
    rounded = isinstance(top, float) and stage.field is EXACT
    if (EXACT.to_float(visible) if rounded else visible) >= top:
        top, rounded = visible, False
    public = stage.field.public
    return Ladder(
        overlap=public(stage.overlap),
        fixed=public(fixed),
        gamma=gamma,
        optimal=public(optimal),
        cap=best.cap,
        visible=public(visible),
        oracle=top if rounded else public(top),
        rules={
            name: public(rule_speed(stage, costs, rule, rule_cap))
            for name, rule in (rules or {}).items()
        },
    )


def best_fixed(stage: Chain, costs: Costs, max_gamma: int) -> tuple[int, Number]:
    """The fastest fixed window up to ``max_gamma`` and its speed; the shortest of equals.

    In rationals only the windows that floats cannot tell from the best are compared.
    """
    most = min(max_gamma, int(stage.room.max()))
    speeds = dict(fixed_speeds(stage.to_float(), costs.to(FLOAT), most))
    top = max(speeds.values())
    if stage.field is FLOAT:
        gamma = max(speeds, key=lambda n: speeds[n])
        return gamma, speeds[gamma]
    near = [n for n, speed in speeds.items() if speed >= top * (1 - 1e-9)]
    exact = {n: fixed_speed(stage, costs, n) for n in near}
    gamma = max(exact, key=lambda n: exact[n])
    return gamma, exact[gamma]
