"""PEARL: one block ahead of the target, without a bonus, exact under every rule for one draft."""

from typing import Any

import pytest
import torch

from gpu_runtime.drafters.pearl import PearlDrafter
from gpu_runtime.engine import decode
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Round
from gpu_runtime.windows.heuristic import HeuristicWindow
from gpu_runtime.zoo import noised
from sim.traces import to_table
from tests.runtime.exact import PROMPT, VOCAB, compare, runs, trees
from tests.runtime.tools import PROMPTS, Forced, pair
from theory.effects import Effects
from theory.models import Prefix, rows_after
from theory.verifiers.common import Round as Outcome
from theory.verifiers.common import load_program


def one_ahead(verifier: str, gamma: int) -> Any:
    """A round in exact form; the state is the pending block."""
    program = load_program(verifier)

    def step(fx: Effects, prefix: Prefix, state: Any, room: int) -> tuple[Outcome, int]:
        p, q = (rows_after(tree, prefix) for tree in trees())
        most, pending = min(gamma, room), state[1]
        tested, block = pending[:most], ()
        if len(tested) < most:
            for i in range(gamma):
                block = (*block, fx.choose(q((*pending, *block)), ("draft", 0, i)))
            tested = (*tested, block[0])
        done = program(fx, p, q, (tested,))
        if not tested or done.accepted < len(tested):
            return Outcome(done.accepted, done.tokens, ("pending", ())), max(len(tested) - 1, 0)
        return Outcome(len(tested) - 1, tested, ("pending", block[1:])), len(tested) - 1

    return step


@pytest.mark.parametrize("gamma", [1, 2])
@pytest.mark.parametrize("verifier", ["token", "block"])
def test_runs_follow_the_exact_law(verifier: str, gamma: int) -> None:
    """Tokens and (drafted, accepted) of every round. False alarm 1e-9; any law at total variation
    0.16 or more is found with power 0.999."""
    target, draft = pair(vocab=VOCAB)
    got = decode(
        target,
        PearlDrafter(draft),
        [PROMPT] * 5000,
        verifier=verifier,
        gamma=gamma,
        max_new_tokens=4,
        seeds=61,
    )
    result = compare(got, runs(one_ahead(verifier, gamma), ("pending", ())))
    assert result.detectable_tv < 0.16
    assert not result.rejected, result


@pytest.mark.parametrize("gamma", [1, 2, 5])
@pytest.mark.parametrize("settings", [{}, {"repetition_penalty": 1.4}, {"min_new_tokens": 9}])
def test_greedy_text_equals_plain_decoding(settings: dict[str, Any], gamma: int) -> None:
    target, draft = pair()
    processor = Processor(temperature=0, **settings)
    common: dict[str, Any] = {"processor": processor, "max_new_tokens": 30, "eos": 1}
    trace: list[dict[str, Any]] = []
    plain = decode(target, None, PROMPTS, **common)
    got = decode(target, PearlDrafter(draft), PROMPTS, gamma=gamma, trace=trace, **common)
    assert [g.tokens for g in got] == [g.tokens for g in plain]
    assert [g.finish for g in got] == [g.finish for g in plain]
    assert to_table(trace).num_rows == sum(len(g.emitted) for g in got)


def test_a_request_does_not_depend_on_its_batch() -> None:
    target, draft = pair()

    def run(which: list[int]) -> list[tuple[list[int], list[int], list[int]]]:
        got = decode(
            target,
            PearlDrafter(draft),
            [PROMPTS[i] for i in which],
            seeds=8,
            request_ids=which,
            gamma=3,
            max_new_tokens=30,
        )
        return [(g.tokens, g.drafted, g.accepted) for g in got]

    together = run([0, 1, 2])
    assert run([2, 0]) == [together[2], together[0]]
    assert run([1]) == [together[1]]


def test_a_perfect_drafter_is_never_waited_for() -> None:
    """After the first round each call confirms a whole block: gamma tokens a call, no bonus."""
    target = pair()[0]
    rounds: list[Round] = []
    (got,) = decode(
        target,
        PearlDrafter(noised(target, 0.0)),
        [[0, 1]],
        gamma=4,
        max_new_tokens=25,
        observer=rounds.append,
    )
    assert got.emitted == [1, 4, 4, 4, 4, 4, 3, 1]
    assert got.drafted == [0, 3, 3, 3, 3, 3, 2, 0]
    assert got.accepted == got.drafted
    for done in rounds:  # the target never reads the newest block
        assert done.proposal.tokens.shape[1] == done.proposal.counted[0]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_round_can_be_repeated(error: type[BaseException]) -> None:
    from sim.verifiers import VERIFIERS
    from tests.runtime.tools import session

    work = session([[0, 1, 2], [3]], VERIFIERS["token"], 3, drafter=PearlDrafter(pair()[1]))
    twin = session([[0, 1, 2], [3]], VERIFIERS["token"], 3, drafter=PearlDrafter(pair()[1]))
    for _ in range(3):
        work.round()
        twin.round()

    def fail(*_: Any) -> Any:
        raise error

    good = work.rules.verifier
    object.__setattr__(work.rules, "verifier", Forced(fail, multi_draft=False))
    with pytest.raises(error):
        work.round()
    object.__setattr__(work.rules, "verifier", good)
    for _ in range(3):
        torch.testing.assert_close(work.round().log_p, twin.round().log_p, atol=1e-12, rtol=0)
    assert [r.sequence for r in work.active] == [r.sequence for r in twin.active]


def test_what_does_not_fit_is_refused() -> None:
    target, draft = pair()
    for settings in ({"window": HeuristicWindow(4)}, {"num_drafts": 2, "verifier": "kseq"}):
        with pytest.raises(ValueError, match="use window fixed and num_drafts 1"):
            decode(target, PearlDrafter(draft), [[0]], **settings)
    with pytest.raises(ValueError, match="greedy_block needs full drafts"):
        decode(target, PearlDrafter(draft), [[0]], verifier="greedy_block")
