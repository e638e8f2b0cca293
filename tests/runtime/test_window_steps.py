"""What a window costs the drafter, how it recovers, and which rules it may be combined with."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from gpu_runtime.engine import decode
from gpu_runtime.models import LanguageModel
from gpu_runtime.session import Session
from gpu_runtime.windows import DraftView, Window
from gpu_runtime.windows.adaedl import AdaEDLWindow
from gpu_runtime.windows.confidence import ConfidenceWindow
from gpu_runtime.windows.fixed import FixedWindow
from gpu_runtime.windows.heuristic import HeuristicWindow
from gpu_runtime.windows.optimal import OptimalWindow
from gpu_runtime.windows.specdecpp import Head, SpecDecPPWindow
from gpu_runtime.windows.svip import SVIPWindow
from sim.verifiers import Verdict
from tests.runtime.tools import PROMPTS, Forced, pair, session
from theory import MarkovModel, TableModel
from theory.effects import Effects
from theory.fields import to_fraction
from theory.generation import Decoder, autoregressive, distance, generate
from theory.models import Prefix, Rows
from theory.verifiers.common import load_program
from theory.windows import Costs


def always_one(view: DraftView, count: int) -> torch.Tensor:
    return torch.ones((len(view.requests), 1, count))


WINDOWS: list[Window] = [
    FixedWindow(4),
    HeuristicWindow(4, start=2),
    ConfidenceWindow(4, 0.5),
    SVIPWindow(4, 0.42),
    AdaEDLWindow(4, 0.55),
    SpecDecPPWindow(4, always_one),
    OptimalWindow(4, Costs(draft="1/10")),
]
each_window = pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.name)


def scripted(script: Sequence[float], prompts: Sequence[Sequence[int]], window: Window) -> Session:
    """A session whose verifier accepts a share of each round's drafts, taken from a script."""
    shares = iter(script)

    def decide(log_p: Any, log_q: Any, drafts: Any, uniforms: Any, lengths: Any, *_: Any) -> Any:
        drafted = torch.full((len(drafts),), window.maximum) if lengths is None else lengths
        zero = torch.zeros_like(drafted)
        return Verdict((drafted * next(shares)).long(), zero, zero)

    return session(prompts, Forced(decide), window.maximum, new=400, window=window)


@each_window
def test_a_bad_phase_ends(window: Window) -> None:
    """Nothing is accepted for 20 rounds, everything for 20 more: every round drafts something, and
    the window opens again."""
    work = scripted([0.0] * 20 + [1.0] * 20, [[0, 1]], window)
    for _ in range(40):
        work.round()
    drafted = work.active[0].drafted
    assert min(drafted) >= 1
    assert max(drafted[20:]) >= 2


def test_controllers_move_both_ways() -> None:
    for window in (HeuristicWindow(6, start=4), AdaEDLWindow(6, 0.55)):
        work = scripted([0.0] * 20 + [1.0] * 20, [[0, 1]], window)
        notes = []
        for _ in range(40):
            work.round()
            notes.append(work.active[0].notes[window.name])
        levels = [getattr(note, "threshold", note) for note in notes]
        sign = 1 if window.name == "heuristic" else -1
        assert sign * levels[19] < sign * levels[0]
        assert sign * levels[39] > sign * levels[19]


class Shut(Window):
    """No drafts in the first rounds."""

    name, maximum = "shut", 3

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def limits(self, requests: Sequence[Any]) -> Any:
        open_now = np.array([len(request.drafted) >= self.rounds for request in requests])
        return np.where(open_now, self.maximum, 0)


@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_rounds_without_drafts_are_filled_in_the_draft_cache(rounds: int) -> None:
    work = scripted([0.0] * 20, PROMPTS, Shut(rounds))
    for _ in range(rounds):
        assert work.round().proposal.drafts.shape[-1] == 0
    texts = [list(request.sequence) for request in work.active]
    fresh = scripted([0.0] * 20, texts, Shut(0))
    late, first = work.round().proposal, fresh.round().proposal
    torch.testing.assert_close(late.log_q, first.log_q, atol=1e-12, rtol=0)
    assert (late.drafts == first.drafts).all()


class Counter(LanguageModel):
    """A model that counts its calls after the prompt."""

    calls = 0

    def extend(self, *arguments: Any, **options: Any) -> torch.Tensor:
        self.calls += 1
        return super().extend(*arguments, **options)


def drafting_calls(window: Window, batch: int, seed: int = 0) -> tuple[int, list[int]]:
    """Draft forwards of the first round, and the drafted lengths."""
    target, draft = pair()
    counter = Counter(draft.model, draft.tokenizer, draft.vocab_size, "counter")
    seen: list[int] = []

    def note_calls(_: Any) -> None:
        seen.append(counter.calls)

    counter.calls = -1  # the prompt's own call
    got = decode(
        target,
        counter,
        [[0, 2, 1]] * batch,
        verifier="token",
        window=window,
        seeds=seed,
        max_new_tokens=30,
        observer=note_calls,
    )
    return seen[0], [generation.drafted[0] for generation in got]


def test_a_scheduled_window_reaches_the_drafter() -> None:
    window = FixedWindow(5, schedule=((1, 48, 3),))
    assert drafting_calls(window, 16) == (3, [3] * 16)
    assert drafting_calls(FixedWindow(5), 16) == (5, [5] * 16)
    assert not window.full


@pytest.mark.parametrize(
    "window", [ConfidenceWindow(6, 0.55), SVIPWindow(6, 0.33), HeuristicWindow(6, start=2)]
)
def test_no_row_is_computed_for_a_token_that_is_not_drawn(window: Window) -> None:
    for seed in range(6):
        calls, (drafted,) = drafting_calls(window, 1, seed)
        assert calls == drafted


def test_rules_that_look_at_the_next_row_pay_for_it() -> None:
    calls, (drafted,) = drafting_calls(AdaEDLWindow(6, 0.9), 1)
    assert (calls, drafted) == (2, 1)


def test_a_head_reads_the_hidden_state_after_its_token() -> None:
    target, draft = pair()
    states: list[torch.Tensor] = []

    def head(state: torch.Tensor) -> torch.Tensor:
        states.append(state)
        return torch.ones((*state.shape[:-1], 1))

    rounds: list[Any] = []
    window = SpecDecPPWindow(4, Head(head), floor=3)
    decode(target, draft, [[0, 2, 1]], window=window, max_new_tokens=6, observer=rounds.append)
    assert window.reads_hidden
    assert not SpecDecPPWindow(4, always_one).reads_hidden
    path = [0, 2, 1, *rounds[0].proposal.drafts[0, 0].tolist()]
    with torch.no_grad():
        expected = draft.model(torch.tensor([path]), output_hidden_states=True).hidden_states[-1]
    for place, state in enumerate(states[:2]):
        torch.testing.assert_close(state[0, 0], expected[0, 3 + place], atol=1e-12, rtol=0)


PAIR = (
    TableModel({"": ["1/2", "1/2"], "0": ["2/3", "1/3"]}, default=["1/5", "4/5"]),
    MarkovModel(["1/3", "2/3"], [["1/4", "3/4"], ["1/2", "1/2"]]),
)


def stop_together(fx: Effects, draft: Rows, cap: int) -> tuple[Prefix, ...]:
    """Two drafts that stop after one token unless one of them starts with 0."""
    first = [fx.choose(draft(()), ("draft", k, 0)) for k in range(2)]
    if cap < 2 or 0 not in first:
        return tuple((x,) for x in first)
    return tuple((x, fx.choose(draft((x,)), ("draft", k, 1))) for k, x in enumerate(first))


@pytest.mark.parametrize(
    ("name", "exact"),
    [("kseq", True), ("recursive_rejection", True), ("marked_block", False)],
)
def test_only_stepwise_rules_allow_drafts_that_stop_together(name: str, exact: bool) -> None:
    """A common stop tells the winner's judge something about the other drafts."""
    params = {"cells": 2} if name == "marked_block" else {}
    program = load_program(name)
    decoder = Decoder(*PAIR, program, lambda *_: (), 2, params, drafting=stop_together)
    gap = distance(generate(decoder, 3).tokens, autoregressive(PAIR[0], 3))
    assert (to_fraction(gap) == 0) is exact
    assert to_fraction(gap) < Fraction(1, 10)


def test_drafts_that_stop_together_suit_a_stepwise_rule() -> None:
    target, draft = pair()
    for window in (SVIPWindow(4), HeuristicWindow(4), FixedWindow(4)):
        options = {"num_drafts": 2, "window": window, "max_new_tokens": 3}
        (text,) = decode(target, draft, [[0]], verifier="kseq", **options)
        assert len(text.tokens) == 3
