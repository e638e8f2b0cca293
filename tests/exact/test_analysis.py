"""Exact values of the first four verifiers, and what ``analyse`` reports."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from theory import MarkovModel, TableModel, analyse
from theory.accepted_length import expected_accepted
from theory.drafting import fixed
from theory.fields import to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.models import RowTree
from theory.verifiers.common import Round, load_program
from theory.windows import Stopping, load_rule

F = Fraction
TARGET, DRAFT = "1/3,2/3", "2/3,1/3"


@pytest.mark.parametrize(
    ("verifier", "accepted"), [("token", F(10, 9)), ("block", F(11, 9)), ("greedy_block", F(12, 9))]
)
def test_two_token_example(verifier: str, accepted: Fraction) -> None:
    a = analyse(TARGET, DRAFT, verifier, gamma=2, horizon=5)
    assert a.expected_accepted == a.closed_form == accepted
    assert a.tokens_per_call == accepted + 1
    assert a.lossless
    assert a.distance == 0
    assert a.iid_prediction.tokens_per_call == F(19, 9)
    assert sum(a.output_law.values()) == 1
    assert sum(a.accepted_law.values()) == 1


def forgetful_greedy_block(*args: Any, **kwargs: Any) -> Round:
    """Greedy block verification that drops its carry."""
    outcome = load_program("greedy_block")(*args, **kwargs)
    return Round(outcome.accepted, outcome.tokens)


def test_greedy_block_needs_its_carry() -> None:
    target, draft = MarkovModel(TARGET.split(",")), MarkovModel(DRAFT.split(","))
    greedy = Decoder(target, draft, forgetful_greedy_block, fixed(2))
    truth = autoregressive(target, 3)
    # one unmodified round, then the exact target
    law: dict[tuple[int, ...], Any] = dict.fromkeys(truth, F(0))
    for outcome, weight in greedy.round_law((), (), 2).items():
        for string in truth:
            if string[: len(outcome.tokens)] == outcome.tokens[:3]:
                rest = string[len(outcome.tokens) :]
                share = to_fraction(weight)
                for token in rest:
                    share *= to_fraction(target.row(())[token])
                law[string] += share
    errors = {string: abs(law[string] - to_fraction(truth[string])) for string in truth}
    assert max(errors.values()) == F(2, 27)
    # and when every round is unmodified (over five tokens, so that no block is cut short)
    every = dict.fromkeys(truth, F(0))
    for string, weight in generate(greedy, 5).tokens.items():
        every[string[:3]] += to_fraction(weight)
    assert max(abs(every[s] - to_fraction(truth[s])) for s in truth) == F(1, 9)


def test_kseq_reaches_the_optimum_or_not() -> None:
    best = analyse("0,1/2,1/2", "1/2,1/6,1/3", "kseq", gamma=1, num_drafts=2, horizon=3)
    assert best.expected_accepted == best.closed_form == F(3, 4)
    assert best.lossless
    short = analyse("3/4,1/4", "1/4,3/4", "kseq", gamma=1, num_drafts=2, horizon=3)
    assert abs(float(short.expected_accepted) - 0.6482675827) < 1e-10
    assert short.expected_accepted == short.closed_form
    assert short.lossless


def test_context_matters() -> None:
    """P(tau >= 2) is 1/2; products of mean overlaps say 9/16 or 3/8."""
    target = TableModel({"": ["1/2", "1/2"], "0": ["1/2", "1/2"], "1": ["1", "0"]}, ["1/2", "1/2"])
    draft = TableModel({"": ["3/4", "1/4"], "0": ["1/2", "1/2"], "1": ["0", "1"]}, ["1/2", "1/2"])
    a = analyse(target, draft, "token", gamma=2)
    assert a.accepted_law[2] == F(1, 2)
    assert a.expected_accepted == a.closed_form == F(3, 4) + F(1, 2)
    overlap_root = F(3, 4)
    assert overlap_root * (F(3, 4) * 1 + F(1, 4) * 0) == F(9, 16)  # mean under the draft
    assert overlap_root * (F(1, 2) * 1 + F(1, 2) * 0) == F(3, 8)  # mean under the target
    assert a.iid_prediction.accepted != a.expected_accepted


def test_block_residual_case() -> None:
    uniform = ["1/3", "1/3", "1/3"]
    target = TableModel({"": ["2/5", "3/10", "3/10"], "0": ["1/10", "2/5", "1/2"]}, uniform)
    draft = TableModel({"": ["1/2", "3/10", "1/5"], "0": ["3/5", "3/10", "1/10"]}, uniform)
    assert analyse(target, draft, "token").expected_accepted == F(8, 5)
    block = analyse(target, draft, "block", horizon=4)
    assert block.expected_accepted == block.closed_form == F(41, 25)
    assert block.lossless


def test_point_mass_drafts_make_block_equal_token() -> None:
    target = "1/2,3/10,1/5"
    for verifier in ("token", "block", "greedy_block"):
        a = analyse(target, "1,0,0", verifier, gamma=3, horizon=4)
        assert a.lossless
        if verifier != "greedy_block":
            law = a.accepted_law
            assert [law[tau] for tau in range(4)] == [F(1, 2), F(1, 4), F(1, 8), F(1, 8)]


@pytest.mark.parametrize("verifier", ["token", "block", "greedy_block"])
def test_equal_models_accept_everything(verifier: str) -> None:
    a = analyse("1/4,0,3/4", "1/4,0,3/4", verifier, gamma=3, horizon=5)
    assert a.expected_accepted == 3
    assert a.lossless
    assert a.expected_calls == 2


@pytest.mark.parametrize("verifier", ["token", "block", "greedy_block"])
def test_eos_ends_the_text(verifier: str) -> None:
    a = analyse(TARGET, DRAFT, verifier, gamma=2, horizon=4, eos=1)
    assert a.lossless
    assert a.output_law[(1,)] == F(2, 3)
    assert a.output_law[(0, 1)] == F(2, 9)


def test_floats_and_rationals_agree() -> None:
    for verifier, k in (("token", 1), ("block", 1), ("greedy_block", 1), ("kseq", 2)):
        exact = analyse(TARGET, DRAFT, verifier, 2, k, horizon=3)
        loose = analyse([1 / 3, 2 / 3], [2 / 3, 1 / 3], verifier, 2, k, horizon=3, field="float")
        assert abs(float(exact.expected_accepted) - loose.expected_accepted) < 1e-12
        assert abs(float(exact.expected_calls) - loose.expected_calls) < 1e-12
        assert loose.lossless


def test_symbolic_token_verification_is_lossless() -> None:
    import sympy

    p, q = sympy.symbols("p q", positive=True)
    a = analyse([p, 1 - p], [q, 1 - q], "token", gamma=1, horizon=1, field="symbolic")
    law = a._law.tokens
    for value_p, value_q in ((F(1, 3), F(2, 3)), (F(3, 4), F(1, 5)), (F(1, 2), F(1, 3))):
        values = {p: sympy.Rational(value_p), q: sympy.Rational(value_q)}
        assert sympy.simplify(law[(0,)].subs(values) - values[p]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "1/3,1/3"}, "target: .*sum to 2/3"),
        ({"verifier": "blok"}, "did you mean 'block'"),
        ({"draft": "1/3,1/3,1/3"}, "target has 2 tokens, draft has 3"),
        ({"gamma": 0}, "gamma 0"),
        ({"num_drafts": 0}, "num_drafts 0"),
        ({"num_drafts": 2}, "verifies one draft"),
        ({"gamma": 40}, "paths a round"),
        ({"horizon": 0}, "horizon 0"),
        ({"window": "fxed"}, "unknown window"),
        ({"rho": 1}, "has no parameter"),
    ],
)
def test_bad_input_is_explained(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _ = analyse(**{"target": TARGET, "draft": DRAFT, **arguments}).expected_calls


CHAINS = (
    MarkovModel(["1/2", "1/2"], [["1/3", "2/3"], ["3/4", "1/4"]]),
    MarkovModel(["1/3", "2/3"], [["2/3", "1/3"], ["1/4", "3/4"]]),
)


@pytest.mark.parametrize("window", ["confidence", "svip", "adaedl", "specdecpp", "pacer"])
def test_windows_by_name_are_lossless_and_differ_from_the_fixed_one(window: str) -> None:
    for verifier in ("token", "block", "greedy_block"):
        a = analyse(*CHAINS, verifier, gamma=3, horizon=4, window=window)
        assert a.lossless
        assert 0 < a.expected_accepted <= 3
        assert a.closed_form is None  # it is that of the fixed window
    lossy = analyse(*CHAINS, "ensemble", gamma=3, horizon=4, window=window)
    assert lossy.declared_distance is None
    assert not lossy.lossless


def test_windows_with_settings_are_capped_at_gamma() -> None:
    one = analyse(*CHAINS, "block", gamma=1, horizon=4)
    for gamma, limit in ((1, 3), (3, 1)):
        window = Stopping(load_rule("fixed", gamma=limit))
        a = analyse(*CHAINS, "block", gamma=gamma, horizon=4, window=window)
        assert a.expected_calls == one.expected_calls
        assert a.accepted_law == one.accepted_law
    keen = Stopping(load_rule("confidence", threshold="0"))
    a = analyse(*CHAINS, "marked_block", 2, 2, 3, keen, cells=2)
    assert a.expected_accepted == analyse(*CHAINS, "marked_block", 2, 2, 3, cells=2).closed_form


def test_losslessness_of_symbols_is_decided_or_refused() -> None:
    import sympy

    p, q = sympy.symbols("p q", positive=True)
    same = analyse([p, 1 - p], [p, 1 - p], gamma=1, horizon=1, field="symbolic")
    assert same.closed_form.subs(p, F(1, 3)) == 1
    assert analyse([p, 1 - p], [q, 1 - q], gamma=1, horizon=1, field="symbolic").lossless
    other = analyse([p, 1 - p], [q, 1 - q], gamma=1, horizon=2, field="symbolic")
    with pytest.raises(ValueError, match=r"theory\.derivations"):
        _ = other.lossless


def test_closed_forms_need_deep_enough_trees() -> None:
    tree = RowTree.of(MarkovModel(["1/2", "1/2"]), 2)
    with pytest.raises(ValueError, match="too shallow"):
        expected_accepted("block", tree, tree, 3)
    with pytest.raises(ValueError, match="no closed form"):
        expected_accepted("nothing", tree, tree, 2)


def test_distance_is_total_variation() -> None:
    assert distance({(0,): F(1)}, {(1,): F(1)}) == 1
