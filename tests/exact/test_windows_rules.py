"""Stopping rules do what they say, respect the cap, and recover from bad phases."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from theory.effects import Tape, exact_law
from theory.fields import FLOAT, Array, to_fraction
from theory.models import MarkovModel, Prefix, TableModel
from theory.windows import (
    WINDOWS,
    Costs,
    Rule,
    Sight,
    Stopping,
    adaedl,
    confidence,
    estimators,
    fixed,
    heuristic,
    load_rule,
    optimal,
    pacer,
    window,
)

HALF = ["1/2", "1/2"]


def length(rule: Rule, rows: object, path: Prefix) -> int:
    """How many tokens of ``path`` the rule drafts."""
    return next((n for n in range(len(path) + 1) if rule(path[:n], rows)), len(path) + 1)


def sight(target: list[str], draft: list[str]) -> Sight:
    return Sight(MarkovModel(draft).row, MarkovModel(target).row)


def test_fixed() -> None:
    rows = MarkovModel(HALF).row
    assert [length(load_rule("fixed", gamma=g), rows, (0,) * 4) for g in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="negative"):
        fixed.rule(-1)


def test_confidence_keeps_the_token_it_stops_at() -> None:
    rows = MarkovModel(["3/5", "2/5"]).row
    rule = load_rule("confidence", threshold="1/2")
    assert length(rule, rows, (0, 0, 1, 0)) == 3
    assert length(rule, rows, (1, 0)) == 1
    at = load_rule("confidence", threshold=0.4)  # 0.4 is read as 2/5: not below
    assert length(at, rows, (1, 1)) == 3


def test_confidence_refit() -> None:
    """(bad let through) + 3 (good stopped) at each observed q, good {.9, .8, .3}, bad {.7, .2, .1}:
    .9: 0+2, .8: 0+1, .7: 1/3+1, .3: 1/3+0, .2: 2/3, .1: 1. So .3."""
    good, bad = (0.9, 0.8, 0.3), (0.7, 0.2, 0.1)
    labelled = [(q, True) for q in good] + [(q, False) for q in bad]
    assert confidence.refit(0.4, labelled) == 0.3
    assert confidence.refit(0.4, labelled[:5]) == 0.4  # too few
    assert confidence.refit(0.4, labelled[:3] * 3) == 0.4  # one kind only


def test_svip_stops_after_a_row_of_high_entropy() -> None:
    rows = TableModel({"": ["9/10", "1/10"], "0": HALF}, default=["9/10", "1/10"]).row
    # sqrt(.15 Ent): .22 for (.9, .1), .32 for (.5, .5)
    assert length(load_rule("svip"), rows, (0, 0, 0)) == 2
    assert length(load_rule("svip", threshold="1/5"), rows, (0, 0, 0)) == 1


def test_adaedl_stops_before_a_row_of_high_entropy() -> None:
    rows = TableModel({"": ["9/10", "1/10"], "0": HALF}, default=["9/10", "1/10"]).row
    # 1 - sqrt(.2 Ent): .745 for (.9, .1), .628 for (.5, .5)
    assert length(load_rule("adaedl", threshold="7/10"), rows, (0, 0, 0)) == 1
    assert length(load_rule("adaedl", threshold="3/5"), rows, (0, 0, 0)) == 4
    assert length(load_rule("adaedl", threshold="4/5", floor=2), rows, (0, 0, 0)) == 2


def test_adaedl_controller() -> None:
    start = adaedl.Controller(0.5, 0.9)
    low = adaedl.update(start, 1, 4, 8)
    assert low.rate == pytest.approx(0.575)
    assert low.threshold == pytest.approx(0.501)
    high = adaedl.update(start, 4, 4, 8)
    assert high == adaedl.Controller(pytest.approx(0.499), pytest.approx(0.95))
    assert adaedl.update(start, 8, 8, 8).threshold == 0.5  # at the cap: nothing to learn
    assert adaedl.update(start, 0, 0, 8) == start


def test_specdecpp_lags_one_token() -> None:
    rows = sight(["1/2", "1/2"], ["1/4", "3/4"])  # acceptance: token 0 surely, token 1 with 2/3
    rule = load_rule("specdecpp", threshold="3/10")
    assert length(rule, rows, (0, 0, 1, 0, 0)) == 4
    assert length(rule, rows, (1, 0, 0)) == 2
    assert length(load_rule("specdecpp", threshold="2/5"), rows, (1, 0, 1, 0)) == 4


def test_pacer_sends_the_failing_block_and_grows_stricter() -> None:
    rows = sight(["1/2", "1/2"], ["1/4", "3/4"])
    rule = load_rule("pacer", block=2, threshold="3/4", growth="6/5", ceiling="9/10")
    # means: (0, 1) 5/6, (0, 0) 1, (1, 1) 2/3; thresholds 3/4, then 9/10 (capped from 9/10)
    assert length(rule, rows, (0, 1, 0, 0, 0)) == 6
    assert length(rule, rows, (0, 1, 0, 1, 0)) == 4
    assert length(rule, rows, (1, 1, 0)) == 2
    assert pacer.grown(Fraction(3, 4), Fraction(6, 5), Fraction(9, 10), 3) == Fraction(9, 10)


def test_pacer_parameters_from_first_principles() -> None:
    costs = Costs("1/5", overhead="1/50", block=4)
    assert pacer.best_threshold("23/10", costs) == Fraction(943, 2000)  # .4715
    assert pacer.best_growth(0.87, 4) == pytest.approx(1.7455, abs=1e-4)
    assert pacer.best_growth("1/2", 2) == 4
    assert pacer.most_blocks(0.4715, 1.7455) == 2
    for alpha, block in ((0.8, 0.95), (0.9, 1.38)):
        assert pacer.best_block(alpha, Costs(1, overhead="1/10")) == pytest.approx(block, abs=5e-3)


def test_pacer_with_these_parameters_is_the_first_order_optimal_rule() -> None:
    """With blocks of one token, block mean alpha and survival alpha^k both ask whether
    alpha^k alpha >= lambda c: PACER of the token just drafted, hence one token later, unless its
    first threshold already has one factor of growth."""
    alpha, rate, costs = Fraction(4, 5), Fraction(5, 2), Costs("1/10")

    def belief(path: Prefix, draft: object) -> list[Fraction]:
        return [alpha] * len(path)

    first = load_rule(
        "optimal", rate=rate, costs=costs, acceptance=belief, gain=lambda path, draft: alpha
    )
    threshold, growth = pacer.best_threshold(rate, costs), pacer.best_growth(alpha, 1)
    assert (threshold, growth) == (Fraction(1, 4), Fraction(5, 4))
    settings = {"block": 1, "growth": growth, "ceiling": 1, "acceptance": belief}
    late = load_rule("pacer", threshold=threshold, **settings)
    ahead = load_rule("pacer", threshold=threshold * growth, **settings)
    lengths = [length(rule, MarkovModel(HALF).row, (0,) * 30) for rule in (first, late, ahead)]
    assert lengths == [6, 7, 6]  # (4/5)^(k+1) < 1/4 first at k = 6


def test_optimal_stops_when_survival_no_longer_pays() -> None:
    rows = sight(["1/2", "1/2"], ["1/4", "3/4"])  # overlap 3/4 at every row
    rule = load_rule("optimal", rate=2, costs=Costs("1/5"))
    # survival (2/3)^j after j ones; (2/3)^j 3/4 < 2/5 first at j = 2
    assert length(rule, rows, (1, 1, 0)) == 2
    assert length(rule, rows, (1, 0, 0, 1, 0)) == 4
    never = load_rule("optimal", rate=2, costs=Costs(2), floor=0)
    assert length(never, rows, (0, 0)) == 0
    stepped = load_rule("optimal", rate=2, costs=Costs(0, calls=(1, 1, 2)))
    assert length(stepped, rows, (0, 0, 0)) == 1  # the second token costs a whole call more


def test_true_estimators() -> None:
    rows = sight(["1/2", "1/2"], ["1/4", "3/4"])
    assert list(map(to_fraction, estimators.true_acceptance((0, 1), rows))) == [1, Fraction(2, 3)]
    assert list(map(str, estimators.confidence((0, 1), rows))) == ["1/4", "3/4"]
    gain = to_fraction(estimators.true_gain(3)((), rows))
    assert gain == Fraction(3, 4) + Fraction(9, 16) + Fraction(27, 64)
    with pytest.raises(ValueError, match="AdaptiveDecoder"):
        estimators.true_acceptance((0,), MarkovModel(HALF).row)


def test_rules_that_know_only_draft_rows_run_on_draft_rows() -> None:
    rows = MarkovModel(["9/10", "1/10"]).row
    rule = load_rule("specdecpp", acceptance=estimators.confidence)
    assert length(rule, rows, (0,) * 9) == 5  # .9^4 = .656 < .7, one token late


def test_heuristic_trace() -> None:
    gamma, trace = 5, []
    for accepted, drafted in ((5, 5), (2, 7), (6, 6), (0, 8), (7, 7)):
        gamma = heuristic.update(gamma, accepted, drafted)
        trace.append(gamma)
    assert trace == [7, 6, 8, 7, 9]
    assert heuristic.at_new_call(gamma, 5, transient=True) == 5
    assert heuristic.at_new_call(gamma, 5, transient=False) == 9
    assert heuristic.update(1, 0, 1) == 1
    assert heuristic.update(4, 4, 4, cap=5) == 5
    assert heuristic.update(4, 0, 0) == 4


def test_a_scheduled_window_reaches_the_drafter() -> None:
    gamma = fixed.scheduled(16, [(1, 48, 3)], maximum=5)
    draws = []

    class Counting(Tape):
        def choose(self, law: Array, slot: object) -> int:
            draws.append(slot)
            return super().choose(law, slot)

    tape = Counting({("draft", 0, i): 0.5 for i in range(5)}, FLOAT)
    path = Stopping(fixed.rule(gamma))(tape, MarkovModel(HALF, field="float").row, 5, 0)
    assert len(draws) == len(path) == 3
    assert fixed.scheduled(64, [(1, 48, 3)], maximum=5) == 5
    assert fixed.scheduled(2, [(1, 48, 9)], maximum=5) == 5


ALL: dict[str, Rule] = {
    "fixed": load_rule("fixed", gamma=4),
    "heuristic": load_rule("heuristic", gamma=4),
    "confidence": load_rule("confidence"),
    "svip": load_rule("svip"),
    "adaedl": load_rule("adaedl"),
    "specdecpp": load_rule("specdecpp"),
    "pacer": load_rule("pacer", block=2),
    "optimal": load_rule("optimal", rate="3/2", costs=Costs("1/10")),
}


def test_the_catalogue_is_covered() -> None:
    assert set(ALL) == {entry.name for entry in WINDOWS}
    assert all(entry.faces["theory"] for entry in WINDOWS)
    with pytest.raises(ValueError, match="did you mean 'pacer'"):
        window("pacr")
    with pytest.raises(ValueError, match="needs"):
        load_rule("fixed")
    with pytest.raises(ValueError, match="takes"):
        load_rule("svip", depth=1)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("cap", [0, 1, 3])
def test_caps_are_respected(name: str, cap: int) -> None:
    rows = sight(["1/2", "1/2"], ["2/5", "3/5"])
    law = exact_law(lambda fx: len(Stopping(ALL[name])(fx, rows, cap, 0)))
    assert max(law) <= cap
    assert min(law) >= min(cap, 1)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("confidence", {"threshold": 2}),
        ("specdecpp", {"floor": 0}),
        ("adaedl", {"floor": 0}),
        ("pacer", {"block": 0}),
        ("pacer", {"growth": "1/2"}),
        ("pacer", {"threshold": "x"}),
    ],
)
def test_settings_out_of_range(name: str, params: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(params))):
        load_rule(name, **params)


# A bad phase (overlap 1/10: a uniform draft of ten tokens) and a good one (19/20), one-hot target.
CAP = 4
ROUNDS = 20
TARGET = MarkovModel(["1"] + ["0"] * 9).row
BAD = Sight(MarkovModel(["1/10"] * 10).row, TARGET)
GOOD = Sight(MarkovModel(["19/20"] + ["1/180"] * 9).row, TARGET)

Policy = tuple[Any, Callable[[Any], Rule], Callable[[Any, int, int, Prefix], Any]]


def stateless(rule: Rule) -> Policy:
    return None, lambda state: rule, lambda state, accepted, drafted, path: state


def refitted(state: Any, accepted: int, drafted: int, path: Prefix) -> Any:
    threshold, labelled, rows = state
    seen = [(float(rows(path[:i])[x]), i < accepted) for i, x in enumerate(path[: accepted + 1])]
    labelled = labelled + seen
    return confidence.refit(threshold, labelled), labelled, rows


CONTROLLED: dict[str, Policy] = {
    **{name: stateless(ALL[name]) for name in ("confidence", "svip", "specdecpp", "pacer")},
    "heuristic": (
        CAP,
        fixed.rule,
        lambda gamma, accepted, drafted, path: heuristic.update(gamma, accepted, drafted, CAP),
    ),
    "adaedl": (
        adaedl.Controller(),
        lambda state: adaedl.rule(state.threshold),
        lambda state, accepted, drafted, path: adaedl.update(state, accepted, drafted, CAP),
    ),
    "optimal": (
        optimal.Rate(),
        lambda state: optimal.rule(state.value, Costs("1/10")),
        lambda state, accepted, drafted, path: optimal.update(
            state,
            accepted + 1,
            1 + drafted / 10,
        ),
    ),
}


@pytest.mark.parametrize("name", CONTROLLED)
def test_every_adaptive_window_recovers_from_a_bad_phase(name: str) -> None:
    rng = random.Random(1)
    state, rule_of, update = CONTROLLED[name]
    lengths = []
    for turn in range(2 * ROUNDS):
        rows = BAD if turn < ROUNDS else GOOD
        tape = Tape({("draft", 0, i): rng.random() for i in range(CAP)}, FLOAT)
        float_rows = Sight(
            lambda path, rows=rows: rows.draft(path).astype(float),
            lambda path, rows=rows: rows.target(path).astype(float),
        )
        path = Stopping(rule_of(state))(tape, float_rows, CAP, 0)
        accepted = next((i for i, x in enumerate(path) if x != 0), len(path))
        state = update(state, accepted, len(path), path)
        lengths.append(len(path))
    assert min(lengths) >= 1
    bad, good = lengths[ROUNDS // 2 : ROUNDS], lengths[ROUNDS:]
    assert max(good) == CAP
    assert sum(good) / len(good) > sum(bad) / len(bad) + 1


def test_a_refitted_confidence_threshold_recovers() -> None:
    rng = random.Random(2)
    state = (0.4, [], None)
    lengths = []
    for turn in range(2 * ROUNDS):
        rows = BAD if turn < ROUNDS else GOOD
        floats = lambda path, rows=rows: rows.draft(path).astype(float)  # noqa: E731
        tape = Tape({("draft", 0, i): rng.random() for i in range(CAP)}, FLOAT)
        threshold, labelled, _ = state
        path = Stopping(confidence.rule(threshold))(tape, floats, CAP, 0)
        accepted = next((i for i, x in enumerate(path) if x != 0), len(path))
        state = refitted((threshold, labelled, floats), accepted, len(path), path)
        lengths.append(len(path))
    assert min(lengths) >= 1
    assert max(lengths[ROUNDS:]) == CAP


def test_the_online_rate_is_a_ratio_of_sums() -> None:
    state = optimal.Rate(1.0, 1.0)
    for tokens, time in ((4, 2.0), (1, 1.0)):
        state = optimal.update(state, tokens, time, memory=0.5)
    assert state.value == pytest.approx((0.25 + 1 + 0.5) / (0.25 + 0.5 + 0.5))
    with pytest.raises(ValueError, match="positive"):
        optimal.update(state, 1, 0.0)
