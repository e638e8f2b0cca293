"""Row tables, simulated rounds and generations: contexts, caps, counts and reproducibility."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sim.metrics import summarise
from sim.rounds import simulate_generations, simulate_rounds, simulate_survival
from sim.rows import all_strings, string_law, string_numbers, tabulate
from sim.testing import random_pair
from sim.verifiers import VERIFIERS
from theory.models import MarkovModel, TableModel

RULES = list(VERIFIERS.values())
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def test_strings_are_numbered_first_token_first() -> None:
    strings = all_strings(3, 4)
    assert [tuple(s) for s in strings] == list(product(range(3), repeat=4))
    np.testing.assert_array_equal(string_numbers(strings, 3), np.arange(81))
    assert all_strings(3, 0).shape == (1, 0)


def test_table_has_the_row_of_every_context() -> None:
    rows = {
        "": ["1/2", "1/2"], "0": ["1/3", "2/3"], "1": [0, 1],
        "0 0": ["1/5", "4/5"], "0 1": ["1/4", "3/4"], "1 0": [1, 0], "1 1": ["2/5", "3/5"],
    }  # fmt: skip
    model = TableModel(rows)
    table = tabulate(model, 2)
    for length in range(3):
        for context in product(range(2), repeat=length):
            found = np.exp(table.log_rows[table.state(context)])
            np.testing.assert_allclose(found, model.row(context).astype(float), rtol=1e-15)
    with pytest.raises(ValueError, match="length 3 are needed"):
        table.state((0, 0, 0))
    with pytest.raises(ValueError, match="no row after prefix"):
        tabulate(model, 3)
    law = string_law(model, 3)
    assert law[string_numbers(np.array([[0, 1, 1]]), 2)[0]] == pytest.approx(1 / 2 * 2 / 3 * 3 / 4)
    assert law.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_markov_models_serve_contexts_of_any_length(order: int) -> None:
    rng = np.random.default_rng(order)
    initial = {
        tuple(s): rng.dirichlet(np.ones(3)) for n in range(max(order, 1)) for s in all_strings(3, n)
    }
    transition = rng.dirichlet(np.ones(3), (3,) * order) if order else None
    model = MarkovModel(initial, transition, order, field="float")
    table = tabulate(model, 50)
    assert table.depth is None
    for length in range(5):
        for context in product(range(3), repeat=length):
            found = np.exp(table.log_rows[table.state(context)])
            np.testing.assert_allclose(found, model.row(context), rtol=1e-12)


def test_tables_draw_by_inverse_cdf() -> None:
    table = tabulate(MarkovModel([0.0, 0.3, 0.7, 0.0], field="float"), 0)
    uniforms = np.array([0.0, 0.2999, 0.3, 0.9, 1 - 2.0**-53])
    assert table.draw(np.zeros(5, dtype=np.int64), uniforms).tolist() == [1, 1, 2, 2, 2]


def test_models_that_cannot_be_tabulated_are_refused() -> None:
    class Broken:
        vocab = 2

        def row(self, prefix: tuple[int, ...]) -> list[float]:
            return [0.5, 0.6]

    with pytest.raises(ValueError, match=r"sums to 1\.1"):
        tabulate(Broken(), 1)
    with pytest.raises(ValueError, match="lower the horizon"):
        tabulate(TableModel({}, default=["1/2", "1/2"]), 40)


@every_rule
def test_generations_are_consistent(rule: object) -> None:
    """Every call emits its accepted tokens and one more; only stateful rules overshoot."""
    rule = VERIFIERS[getattr(rule, "name")]  # noqa: B009
    horizon, gamma, n = 5, 3, 500
    pair = random_pair(np.random.default_rng(1), 3, horizon + gamma, awkward=0.3)
    drafts = 2 if rule.multi_draft else 1
    run = simulate_generations(*pair, rule, gamma, drafts, horizon, n, np.random.default_rng(2))
    assert ((run.tokens >= 0) & (run.tokens < 3)).all()
    used = run.accepted >= 0
    np.testing.assert_array_equal(used.sum(axis=1), run.calls)
    emitted = ((run.accepted + 1) * used).sum(axis=1)
    assert (emitted >= horizon).all()
    if rule.stateful:
        assert (emitted > horizon).any()
    else:
        assert (emitted == horizon).all()


@every_rule
def test_results_depend_on_the_seed_only(rule: object) -> None:
    name = getattr(rule, "name")  # noqa: B009
    drafts = 2 if VERIFIERS[name].multi_draft else 1
    pair = random_pair(np.random.default_rng(1), 3, 6)
    runs = [
        simulate_generations(
            *pair, name, 2, drafts, 4, 40_000, np.random.default_rng(seed), workers=w
        )
        for seed, w in ((0, 1), (0, 2), (1, 1))
    ]
    np.testing.assert_array_equal(runs[0].tokens, runs[1].tokens)
    assert (runs[0].tokens != runs[2].tokens).any()


def test_no_drafts_is_plain_decoding() -> None:
    pair = random_pair(np.random.default_rng(1), 3, 4)
    run = simulate_generations(*pair, "token", 0, 1, 4, 2000, np.random.default_rng(0))
    assert (run.calls == 4).all()
    assert (run.accepted == 0).all()


def test_a_perfect_draft_is_always_accepted() -> None:
    target, _ = random_pair(np.random.default_rng(1), 3, 6, awkward=0.3)
    for rule in RULES:
        drafts = 2 if rule.multi_draft else 1
        rng = np.random.default_rng(0)
        assert (simulate_rounds(target, target, rule, 3, drafts, 2000, rng) == 3).all()


def test_metrics_of_simulated_rounds() -> None:
    """Per verified, under one row everywhere, is the overlap: sum min(p, q) = 0.8."""
    p, q = MarkovModel([0.5, 0.5], field="float"), MarkovModel([0.7, 0.3], field="float")
    run = simulate_generations(p, q, "token", 3, 1, 40, 4000, np.random.default_rng(0))
    used = run.accepted >= 0
    rounds = np.cumsum((run.accepted + 1) * used, axis=1) - (run.accepted + 1) * used
    drafted = np.minimum(3, 40 - rounds - 1)[used]
    found = summarise(run.accepted[used], drafted)
    assert found.emitted == 40 * 4000
    assert found.per_verified == pytest.approx(0.8, abs=0.005)
    assert found.per_proposed < 0.75


def test_bad_settings_are_refused() -> None:
    pair = random_pair(np.random.default_rng(1), 3, 4)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="verifies one draft, got num_drafts=2"):
        simulate_rounds(*pair, "token", 2, 2, 10, rng)
    with pytest.raises(ValueError, match="gamma=-1"):
        simulate_rounds(*pair, "token", -1, 1, 10, rng)
    with pytest.raises(ValueError, match="horizon is 0"):
        simulate_generations(*pair, "token", 2, 1, 0, 10, rng)
    with pytest.raises(ValueError, match="target has 3 tokens, draft has 2"):
        simulate_rounds(pair[0], MarkovModel(["1/2", "1/2"]), "token", 2, 1, 10, rng)
    with pytest.raises(ValueError, match="contexts of length 7 are needed"):
        simulate_survival(*pair, "token", 7, 1, 10, rng)
