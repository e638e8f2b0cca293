"""The ladder of windows on chains and tables: exact values, orders, and independent witnesses."""

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from theory.drafting import fixed as fixed_window
from theory.fields import EXACT, FLOAT, to_fraction
from theory.generation import Decoder, generate
from theory.models import MarkovModel, Model, Prefix, Rows, TableModel
from theory.verifiers import load_program
from theory.windows import (
    AdaptiveDecoder,
    Costs,
    Ladder,
    Stopping,
    estimators,
    iid,
    ladder,
    load_rule,
)
from theory.windows.ceilings import fixed_speed, fixed_speeds, oracle_speed, visible_speed
from theory.windows.chain import chain
from theory.windows.policy import optimum
from theory.windows.rule_speed import rule_speed

TENTH = Costs("1/10")
STEPPED = Costs("1/10", verify="1/50", calls=(1, 1, "6/5", "6/5", "3/2"))
DEAR = Costs("3/10", overhead="1/20", block=2, calls=(1, 1, "5/4"))
HALF = ["1/2", "1/2"]
STEEP = Costs("2/5", overhead="3/10", block=2, calls=(1, 1, 1, 3))  # best cut into several rounds
COSTS = {"flat": TENTH, "stepped": STEPPED, "dear": DEAR, "steep": STEEP}


def random_row(rng: random.Random, vocab: int, least: int = 0) -> list[Fraction]:
    weights = [rng.randint(least, 5) for _ in range(vocab)]
    weights[rng.randrange(vocab)] += 1
    return [Fraction(w, sum(weights)) for w in weights]


def random_chain(rng: random.Random, vocab: int = 2) -> MarkovModel:
    rows = [random_row(rng, vocab, least=1) for _ in range(vocab)]
    return MarkovModel(random_row(rng, vocab), rows)


def random_table(rng: random.Random, vocab: int, depth: int) -> TableModel:
    lengths = range(depth)
    paths = [p for n in lengths for p in itertools.product(range(vocab), repeat=n)]
    return TableModel({path: random_row(rng, vocab) for path in paths}, default=[1, 0])


def speeds(rungs: Ladder) -> list[Fraction]:
    return [Fraction(speed) for _, speed in rungs.rungs()]


def test_the_standard_example() -> None:
    """One row at every position, overlap 4/5, c = 1/10; a doomed token is one p never emits."""
    found = ladder(MarkovModel(["1", "0"]), MarkovModel(["4/5", "1/5"]), TENTH, cap=9)
    assert (found.gamma, found.fixed) == (6, Fraction(61741, 25000))
    assert found.visible == Fraction(10, 3)
    assert found.oracle == Fraction(25, 7)
    assert found.overlap == Fraction(4, 5)
    a = Fraction(4, 5)  # the best rule drafts to the doomed token or to the cap
    assert found.optimal == 5 * (1 - a**10) / (1 + (1 - a**9) / 2)
    assert float(found.optimal) == pytest.approx(3.115, abs=5e-4)
    assert found.reachable == (found.optimal - found.fixed) / (found.oracle - found.fixed)


def test_a_longer_cap_approaches_the_visible_ceiling() -> None:
    found = ladder(MarkovModel(["1", "0"]), MarkovModel(["4/5", "1/5"]), TENTH, cap=64)
    assert 0 < found.visible - found.optimal < Fraction(1, 10**5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("prices", COSTS)
def test_rungs_are_in_order(seed: int, prices: str) -> None:
    rng = random.Random(seed)
    found = ladder(random_chain(rng), random_chain(rng), COSTS[prices], cap=6, max_gamma=6)
    assert speeds(found) == sorted(speeds(found))
    vocab3 = ladder(random_chain(rng, 3), random_chain(rng, 3), COSTS[prices], cap=4, max_gamma=4)
    assert speeds(vocab3) == sorted(speeds(vocab3))


@pytest.mark.parametrize("prices", COSTS)
def test_rungs_are_in_order_on_tables(prices: str) -> None:
    for seed in range(2):
        rng = random.Random(seed)
        tables = random_table(rng, 2, 4), random_table(rng, 2, 4)
        found = ladder(*tables, COSTS[prices], horizon=4)
        assert speeds(found) == sorted(speeds(found))


def raw(
    target: Model, draft: Model, costs: Costs, cap: int, horizon: int | None
) -> Iterator[Fraction]:
    """The rungs as they are computed, before a rung is lifted to the one below."""
    stage, costs = chain(target, draft, horizon), costs.to(EXACT)
    yield max(to_fraction(speed) for _, speed in fixed_speeds(stage, costs, cap))
    yield to_fraction(optimum(stage, costs, cap).speed)
    yield to_fraction(visible_speed(stage, costs))
    yield (
        Fraction(oracle)
        if isinstance(oracle := oracle_speed(stage, costs), float)
        else (to_fraction(oracle))
    )


@pytest.mark.parametrize("seed", range(3))
def test_without_overhead_the_order_needs_no_lifting(seed: int) -> None:
    rng = random.Random(seed)
    pair = random_chain(rng), random_chain(rng)
    tables = random_table(rng, 2, 4), random_table(rng, 2, 4)
    for costs in (TENTH, STEPPED):
        values = list(raw(*pair, costs, 5, None))
        assert values == sorted(values)
        values = list(raw(*tables, costs, 4, 4))
        assert values == sorted(values)


# Independent witness 1: generations. With free drafts and unit calls, time is target calls.


@pytest.mark.parametrize("verifier", ["token", "block"])
def test_speeds_are_those_of_generations(verifier: str) -> None:
    horizon = 4
    free = Costs(0).to(EXACT)
    rules = [
        load_rule("fixed", gamma=2),
        load_rule("confidence", threshold="1/2"),
        load_rule("pacer", block=2, threshold="3/5"),
        load_rule("specdecpp", threshold="1/2"),
    ]
    for seed, rule in itertools.product(range(3), rules):
        rng = random.Random(seed)
        models = random_table(rng, 2, horizon), random_table(rng, 2, horizon)
        decoder = AdaptiveDecoder(*models, load_program(verifier), Stopping(rule))
        calls = to_fraction(generate(decoder, horizon).calls)
        speed = rule_speed(chain(*models, horizon), free, rule, horizon, verifier)
        assert to_fraction(speed) == horizon / calls


def test_fixed_windows_are_those_of_generations() -> None:
    horizon = 5
    rng = random.Random(3)
    models = random_chain(rng), random_chain(rng)
    for gamma, speed in fixed_speeds(chain(*models, horizon), Costs(0).to(EXACT), 5):
        decoder = Decoder(*models, load_program("token"), fixed_window(gamma))
        assert to_fraction(speed) == horizon / to_fraction(generate(decoder, horizon).calls)


@pytest.mark.parametrize("seed", range(4))
def test_fixed_windows_by_matrices_are_those_path_by_path(seed: int) -> None:
    rng = random.Random(seed)
    stage, costs = chain(random_chain(rng), random_chain(rng)), STEPPED.to(EXACT)
    for gamma, speed in fixed_speeds(stage, costs, 4):
        assert speed == rule_speed(stage, costs, load_rule("fixed", gamma=gamma), 9)


# Independent witness 2: every stopping rule with windows up to two, one by one.


@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_the_best_of_all_rules(seed: int, verifier: str) -> None:
    rng = random.Random(seed)
    stage, costs = chain(random_chain(rng), random_chain(rng)), STEPPED.to(EXACT)
    first_rows = [tuple(stage.sight(i)(())) for i in range(2)]
    assert first_rows[0] != first_rows[1]  # a rule may tell the contexts apart by their row

    def numbered(choice: tuple[int, ...]) -> Rows:
        def stop(path: Prefix, draft: Rows) -> bool:
            tree = choice[first_rows.index(tuple(draft(())))]
            return tree == 0 if not path else bool((tree - 1) >> path[0] & 1)

        return stop

    choices = itertools.product(range(5), repeat=2)  # stop at once, or after either first token
    best = max(rule_speed(stage, costs, numbered(choice), 2, verifier) for choice in choices)
    assert optimum(stage, costs, 2, verifier).speed == best


@pytest.mark.parametrize("seed", range(5))
def test_block_verification_has_at_least_the_optimum_of_token(seed: int) -> None:
    rng = random.Random(seed)
    stage, costs = chain(random_chain(rng), random_chain(rng)), TENTH.to(EXACT)
    token, block = (optimum(stage, costs, 4, name).speed for name in ("token", "block"))
    assert block >= token


def test_floats_and_rationals_agree() -> None:
    for seed in range(2):
        rng = random.Random(seed)
        stage = chain(random_chain(rng), random_chain(rng))
        for costs in (TENTH, STEPPED, DEAR):
            exact = optimum(stage, costs.to(EXACT), 6).speed
            rough = optimum(stage.to_float(), costs.to(FLOAT), 6).speed
            assert rough == pytest.approx(EXACT.to_float(exact), rel=1e-11)


def test_decisions_at_block_ends_cost_something() -> None:
    """The best rule with b = 2 is slower than with b = 1, and faster than any PACER setting."""
    rng = random.Random(11)
    stage = chain(random_chain(rng), random_chain(rng))
    pairs = Costs("1/10", block=2).to(EXACT)
    best = optimum(stage, pairs, 6).speed
    assert best < optimum(stage, TENTH.to(EXACT), 6).speed
    for threshold, growth in itertools.product(("1/2", "7/10", "9/10"), (1, "6/5")):
        rule = load_rule("pacer", block=2, threshold=threshold, growth=growth)
        assert rule_speed(stage, pairs, rule, 6) <= best


def test_the_first_order_rule_lies_between_fixed_and_optimal() -> None:
    """At its own rate, on chains whose overlap barely changes; it is no bound in general."""
    target = MarkovModel(HALF, [["1/2", "1/2"], ["2/5", "3/5"]])
    draft = MarkovModel(HALF, [["1/4", "3/4"], ["7/10", "3/10"]])
    stage, costs = chain(target, draft), TENTH.to(EXACT)
    best = optimum(stage, costs, 8).speed
    rate = Fraction(2)
    for _ in range(4):  # Dinkelbach: the rate of the rule becomes its next price
        rule = load_rule("optimal", rate=rate, costs=costs)
        rate = to_fraction(rule_speed(stage, costs, rule, 8))
    fixed = max(to_fraction(speed) for _, speed in fixed_speeds(stage, costs, 8))
    assert fixed < rate <= to_fraction(best)


# Ceilings.


@pytest.mark.parametrize("seed", range(5))
def test_formulas_of_the_ceilings_hold_for_any_dependence(seed: int) -> None:
    rng = random.Random(seed)
    stage, c = chain(random_chain(rng, 3), random_chain(rng, 3)), Fraction(1, 20)
    costs = Costs(c).to(EXACT)
    overlap = to_fraction(stage.overlap)
    assert to_fraction(oracle_speed(stage, costs)) == 1 / (1 - overlap * (1 - c))
    assert to_fraction(visible_speed(stage, costs)) >= 1 / (1 - overlap + c)


def test_a_blind_rule_can_beat_the_formula_of_the_visible_ceiling() -> None:
    """S_vis = 1/(1 - abar + c) is what always drafting on earns. After token 1 the overlap is 0
    and every rule knows it: stopping there wastes nothing."""
    target = MarkovModel(HALF, [HALF, ["1", "0"]])
    draft = MarkovModel(HALF, [HALF, ["0", "1"]])
    found = ladder(target, draft, Costs("1/2"), cap=16)
    assert found.overlap == Fraction(2, 3)
    formula = 1 / (1 - found.overlap + Fraction(1, 2))
    assert formula == Fraction(6, 5) < found.optimal
    assert found.visible == found.oracle == Fraction(3, 2)
    assert found.visible - found.optimal < Fraction(1, 10**4)


def test_ceilings_under_independence() -> None:
    target, draft = MarkovModel(HALF), MarkovModel(["3/10", "7/10"])  # overlap 4/5
    stage = chain(target, draft)
    for block, overhead in ((1, 0), (1, "1/50"), (2, "1/50"), (3, 0)):
        costs = Costs("1/10", overhead=overhead, block=block).to(EXACT)
        oracle = to_fraction(oracle_speed(stage, costs))
        assert oracle == iid.oracle("4/5", "1/10", block, overhead)
        assert to_fraction(visible_speed(stage, costs)) == iid.visible(
            "4/5", "1/10", block, overhead
        )


@pytest.mark.parametrize("prices", COSTS)
def test_where_doom_is_visible_the_optimum_is_the_visible_ceiling(prices: str) -> None:
    """One-hot targets: survival is 0 or 1, so nothing is hidden from a rule."""
    for seed in range(4):
        rng = random.Random(seed)
        hot = {
            path: [1, 0] if rng.random() < 0.5 else [0, 1]
            for n in range(6)
            for path in itertools.product(range(2), repeat=n)
        }
        stage = chain(TableModel(hot), random_table(rng, 2, 6), horizon=6)
        costs = COSTS[prices].to(EXACT)
        assert optimum(stage, costs, 6).speed == visible_speed(stage, costs)


@pytest.mark.parametrize("prices", COSTS)
def test_the_oracle_cuts_every_text_optimally(prices: str) -> None:
    """Brute force: all mark sequences of one text, all ways to cut them into rounds."""
    horizon, costs = 5, COSTS[prices].to(EXACT)
    alpha = Fraction(4, 5)

    def least(marks: tuple[int, ...]) -> Fraction:
        if not marks:
            return Fraction(0)
        run = next((i for i, mark in enumerate(marks) if not mark), len(marks))
        options = []
        for kept in range(min(run, len(marks) - 1) + 1):
            drafted = min(-(-kept // costs.block) * costs.block, len(marks) - 1)
            time = to_fraction(costs.adaptive(drafted))
            options.append(time + least(marks[kept + 1 :]))
        return min(options)

    total = Fraction(0)
    for marks in itertools.product((0, 1), repeat=horizon):
        weight = alpha ** sum(marks) * (1 - alpha) ** (horizon - sum(marks))
        total += weight * least(marks)
    stage = chain(MarkovModel(HALF), MarkovModel(["3/10", "7/10"]), horizon)
    assert to_fraction(oracle_speed(stage, costs)) == horizon / total


def test_the_stepped_oracle_of_the_long_run() -> None:
    """Geometric runs, each cut into rounds as cheaply as can be."""
    alpha, runs = 0.8, 200
    price = [float(STEPPED.to(FLOAT).adaptive(kept)) for kept in range(runs)]
    least = [0.0]
    for positions in range(1, runs + 1):
        cuts = (price[n - 1] + least[positions - n] for n in range(1, positions + 1))
        least.append(min(cuts))
    time = sum((1 - alpha) * alpha**kept * least[kept + 1] for kept in range(runs))
    stage = chain(MarkovModel(HALF), MarkovModel(["3/10", "7/10"]))
    assert oracle_speed(stage, STEPPED.to(EXACT)) == pytest.approx(5 / time, rel=1e-12)


def test_flat_calls_through_the_stepped_sum() -> None:
    """The float sum over run lengths agrees with the closed form (a table of equal entries)."""
    stage = chain(MarkovModel(HALF), MarkovModel(["3/10", "7/10"]))
    nearly = Costs("1/10", calls=(1, "1000000000001/1000000000000"))
    assert oracle_speed(stage, nearly.to(EXACT)) == pytest.approx(25 / 7, rel=1e-11)


# The long run.


def test_gammas_in_the_hundreds() -> None:
    target = MarkovModel(HALF, [["99/100", "1/100"], ["1/100", "99/100"]])
    draft = MarkovModel(HALF, [["49/50", "1/50"], ["1/50", "49/50"]])
    stage = chain(target, draft)
    exact = fixed_speed(stage, Costs("1/1000").to(EXACT), 300)
    rough = fixed_speed(stage.to_float(), Costs(0.001), 300)
    assert rough == pytest.approx(EXACT.to_float(exact), rel=1e-12)
    found = ladder(target, draft, Costs("1/1000"), cap=1, max_gamma=400)
    a = Fraction(99, 100)  # the overlap is 99/100 in both contexts, and rows are mirror images
    assert (found.gamma, found.fixed) == iid.best_fixed(a, "1/1000")
    assert found.gamma == 259


def test_the_law_of_round_starts_depends_on_gamma() -> None:
    """Averaging over text positions instead of round starts would be wrong."""
    target = MarkovModel(HALF, [["1/10", "9/10"], ["1/2", "1/2"]])
    draft = MarkovModel(HALF, [["9/10", "1/10"], ["1/2", "1/2"]])
    stage, costs = chain(target, draft), TENTH.to(EXACT)
    accepted = stage.accepted.sum(axis=1)
    naive = (1 + stage.text @ accepted) / costs.fixed(1)
    assert fixed_speed(stage, costs, 1) != naive


def test_second_order_chains() -> None:
    rng = random.Random(5)
    starts = {(): HALF, (0,): HALF, (1,): HALF}
    models = [
        MarkovModel(starts, [[random_row(rng, 2, 1) for _ in range(2)] for _ in range(2)], order=2)
        for _ in range(2)
    ]
    stage = chain(*models)
    assert sorted(stage.contexts) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for gamma, speed in fixed_speeds(stage, TENTH.to(EXACT), 3):
        assert speed == rule_speed(stage, TENTH.to(EXACT), load_rule("fixed", gamma=gamma), 3)
    mixed = ladder(models[0], random_chain(rng), TENTH, cap=4, max_gamma=4)
    assert speeds(mixed) == sorted(speeds(mixed))


def test_periodic_and_certain_chains() -> None:
    cycle = MarkovModel(["1", "0"], [["0", "1"], ["1", "0"]])
    certain = ladder(cycle, cycle, TENTH, cap=5, max_gamma=9)
    assert certain.fixed == 10 / Fraction(19, 10)
    assert certain.visible == certain.oracle == 10
    noisy = MarkovModel(["1", "0"], [["1/3", "2/3"], ["3/4", "1/4"]])
    found = ladder(cycle, noisy, TENTH, cap=8, max_gamma=9)
    assert speeds(found) == sorted(speeds(found))
    with pytest.raises(ValueError, match="no time"):
        ladder(cycle, cycle, Costs(0), cap=2, max_gamma=2)


def test_rules_on_the_ladder() -> None:
    rng = random.Random(2)
    rules = {
        "confidence": load_rule("confidence"),
        "believes q": load_rule("specdecpp", acceptance=estimators.confidence),
        "gamma 3": load_rule("fixed", gamma=3),
    }
    found = ladder(random_chain(rng), random_chain(rng), TENTH, cap=6, rules=rules, rule_cap=6)
    assert all(0 < speed <= found.optimal for speed in found.rules.values())
    assert found.rules["gamma 3"] <= found.fixed


def test_regimes_are_worth_little_to_a_blind_rule() -> None:
    """Easy and hard regimes: even with perfect knowledge of both models, most of the span from the
    best fixed window to the oracle stays out of reach under sampling."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(4):
        p, q = (rng.dirichlet([2, 2], size=2) for _ in range(2))
        q[0] = 0.95 * p[0] + 0.05 * q[0]
        models = [MarkovModel([0.5, 0.5], rows, field="float") for rows in (p, q)]
        found = ladder(*models, Costs(0.1), cap=24)
        assert speeds(found) == sorted(speeds(found))
        shares.append(found.reachable)
    assert 0 < np.mean(shares) < 0.5


def test_errors() -> None:
    table = TableModel({"": HALF}, default=HALF)
    with pytest.raises(ValueError, match="give a horizon"):
        ladder(table, table, TENTH)
    with pytest.raises(ValueError, match="horizon 0"):
        ladder(table, table, TENTH, horizon=0)
    with pytest.raises(ValueError, match="regimes"):
        ladder(MarkovModel(HALF, [["1", "0"], ["0", "1"]]), MarkovModel(HALF), TENTH)
    with pytest.raises(ValueError, match="floats"):
        ladder(MarkovModel(HALF), MarkovModel(HALF), Costs(0.1))
