"""Windows in the engine against their exact faces: laws of whole runs, decisions, controllers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from gpu_runtime.engine import decode
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Round
from gpu_runtime.windows import DraftView, Window
from gpu_runtime.windows.adaedl import AdaEDLWindow
from gpu_runtime.windows.confidence import ConfidenceWindow
from gpu_runtime.windows.fixed import FixedWindow
from gpu_runtime.windows.heuristic import HeuristicWindow
from gpu_runtime.windows.optimal import OptimalWindow
from gpu_runtime.windows.specdecpp import SpecDecPPWindow
from gpu_runtime.windows.svip import SVIPWindow
from tests.runtime.exact import PROMPT, Learn, compare, keep, runs, trees
from tests.runtime.tools import PROMPTS, pair
from theory.effects import Effects
from theory.models import Prefix, Rows, rows_after
from theory.verifiers.common import Round as Outcome
from theory.verifiers.common import load_program
from theory.windows import Costs, Rule, Sight, Stopping, load_rule
from theory.windows import adaedl as adaedl_rule
from theory.windows import heuristic as heuristic_rule
from theory.windows import optimal as optimal_rule
from theory.windows.estimators import confidence

CAP, COSTS = 3, Costs(draft=0.3, overhead=0.02)


@dataclass(frozen=True)
class Face:
    """A runtime window and the rule that it must follow, given what is known of the request."""

    window: Callable[[int], Window]
    rule: Callable[[Any, int], Rule]
    start: Any = None
    learn: Callable[[int], Learn] = lambda cap: keep


def own_gain(path: Prefix, draft: Rows) -> Any:
    """sum q^2: the draft's outlook on its next token."""
    return (draft(path) ** 2).sum()


def steer(cap: int) -> Learn:
    return lambda state, drafted, accepted, _: adaedl_rule.update(state, accepted, drafted, cap)


def move(cap: int) -> Learn:
    return lambda gamma, drafted, accepted, _: heuristic_rule.update(gamma, accepted, drafted, cap)


def earn(cap: int) -> Learn:
    def learn(state: optimal_rule.Rate, drafted: int, accepted: int, emitted: int) -> Any:
        if drafted == 0:
            return state
        return optimal_rule.update(state, emitted, float(COSTS.adaptive(drafted)), 0.5)

    return learn


FACES = {
    "fixed": Face(FixedWindow, lambda _, cap: load_rule("fixed", gamma=cap)),
    "heuristic": Face(
        lambda cap: HeuristicWindow(cap, start=1),
        lambda gamma, cap: load_rule("fixed", gamma=gamma),
        1,
        move,
    ),
    "confidence": Face(
        lambda cap: ConfidenceWindow(cap, 0.4), lambda *_: load_rule("confidence", threshold="2/5")
    ),
    "svip": Face(lambda cap: SVIPWindow(cap, 0.35), lambda *_: load_rule("svip", threshold="7/20")),
    "adaedl": Face(
        lambda cap: AdaEDLWindow(cap, 0.56),
        lambda state, _: adaedl_rule.rule(state.threshold),
        adaedl_rule.Controller(0.56),
        steer,
    ),
    "specdecpp": Face(
        lambda cap: SpecDecPPWindow(cap, own_acceptance, 0.45, floor=1),
        lambda *_: load_rule("specdecpp", threshold="9/20", acceptance=confidence, floor=1),
    ),
    "optimal": Face(
        lambda cap: OptimalWindow(cap, COSTS, memory=0.5),
        lambda state, _: optimal_rule.rule(state.value, COSTS, confidence, own_gain),
        optimal_rule.Rate(),
        earn,
    ),
}


def own_acceptance(view: DraftView, count: int) -> torch.Tensor:
    return torch.stack([view.probability(i) for i in range(count)], dim=-1)


def drafted_by(face: Face, verifier: str, cap: int) -> Any:
    """One round of the exact face: theory's rule and theory's program."""
    program = load_program(verifier)

    def step(fx: Effects, prefix: Prefix, state: Any, room: int) -> tuple[Outcome, int]:
        target, draft = (rows_after(tree, prefix) for tree in trees())
        rule = face.rule(state, cap)
        path = Stopping(rule)(fx, Sight(draft, target), min(room, cap), 0)
        return program(fx, target, draft, (path,)), len(path)

    return step


@pytest.mark.parametrize("verifier", ["token", "block"])
@pytest.mark.parametrize("name", FACES)
def test_runs_follow_the_exact_law(name: str, verifier: str) -> None:
    """Joint law of the tokens and of (drafted, accepted) of every round. False alarm 1e-9; any law
    at total variation 0.16 or more is found with power 0.999."""
    face = FACES[name]
    target, draft = pair(vocab=3)
    got = decode(
        target,
        draft,
        [PROMPT] * 5000,
        verifier=verifier,
        window=face.window(CAP),
        max_new_tokens=4,
        seeds=21,
    )
    law = runs(drafted_by(face, verifier, CAP), face.start, face.learn(CAP))
    result = compare(got, law)
    assert result.detectable_tv < 0.16
    assert not result.rejected, result
    if name not in ("fixed", "heuristic"):
        lengths = {rounds[0][0] for _, rounds in law}
        assert len(lengths) > 1  # the rule bites


def test_the_law_test_finds_a_peeking_window() -> None:
    """Negative control: the last token is dropped if it is unlikely."""
    target, draft = pair(vocab=3)
    face = FACES["confidence"]

    class Peeking(ConfidenceWindow):
        def goes_on(self, view: DraftView) -> Any:
            return np.ones(len(view.requests), dtype=bool)

        def wants(self, view: DraftView) -> Any:  # the token that would be drawn is known here
            return view.rows[-1].exp().amax(-1).amax(-1).numpy() > 0.6

    got = decode(
        target, draft, [PROMPT] * 5000, verifier="token", window=Peeking(CAP), max_new_tokens=4
    )
    assert compare(got, runs(drafted_by(face, "token", CAP))).rejected


@cache
def draft_law(prefix: tuple[int, ...]) -> np.ndarray:
    """The tiny draft's own row after a text."""
    model = pair()[1].model
    with torch.no_grad():
        logits = model(torch.tensor([prefix])).logits[0, -1]
    return np.asarray(logits.softmax(-1).numpy())


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("name", FACES)
def test_every_decision_is_that_of_the_rule(name: str, temperature: float) -> None:
    """Long runs, replayed: each round drafted as far as theory's rule goes on the drafted tokens,
    with its state brought up to date by theory's update, on rows without temperature."""
    face, cap, new = FACES[name], 6, 40
    target, draft = pair()
    rounds: list[Round] = []
    got = decode(
        target,
        draft,
        PROMPTS,
        verifier="block",
        window=face.window(cap),
        processor=Processor(temperature=temperature),
        max_new_tokens=new,
        seeds=3,
        observer=rounds.append,
    )
    compared = set()
    states, learn = dict.fromkeys(range(len(PROMPTS)), face.start), face.learn(cap)
    counts = dict.fromkeys(range(len(PROMPTS)), 0)
    for done in rounds:
        for row, request in enumerate(done.requests):
            base = tuple(request.sequence[: done.positions[row]])
            length = int(done.proposal.lengths[row])
            path = tuple(done.proposal.drafts[row, 0, :length].tolist())

            def rows(prefix: Prefix, base: Prefix = base) -> np.ndarray:
                return draft_law(base + prefix)

            rule = face.rule(states[request.index], cap)
            limit = min(cap, new - (len(base) - request.prompt_length) - 1)
            ends = [len(path[:i]) >= limit or rule(path[:i], rows) for i in range(length + 1)]
            assert ends == [False] * length + [True]
            place = counts[request.index]
            counts[request.index] += 1
            generation = got[request.index]
            states[request.index] = learn(
                states[request.index],
                generation.drafted[place],
                generation.accepted[place],
                generation.emitted[place],
            )
            compared.add(length)
    assert len(compared) > 1


@pytest.mark.parametrize("name", FACES)
def test_requests_do_not_share_what_windows_learn(name: str) -> None:
    target, draft = pair()
    window = FACES[name].window(5)

    def run(which: Sequence[int]) -> list[tuple[list[int], list[int]]]:
        got = decode(
            target,
            draft,
            [PROMPTS[i] for i in which],
            window=window,
            seeds=7,
            request_ids=which,
            max_new_tokens=25,
        )
        return [(generation.tokens, generation.drafted) for generation in got]

    together = run([0, 1, 2])
    assert run([2, 0]) == [together[2], together[0]]
    assert run([0, 1, 2]) == together  # nothing is left of an earlier call


def test_windows_are_checked() -> None:
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("gamma -1", lambda: ConfidenceWindow(-1)),
        ("outside", lambda: ConfidenceWindow(4, 1.5)),
        ("floor 0", lambda: AdaEDLWindow(4, floor=0)),
        ("floor 0", lambda: OptimalWindow(4, floor=0)),
        ("memory 2", lambda: OptimalWindow(4, memory=2)),
        ("floor 0", lambda: HeuristicWindow(4, start=0)),
        ("outside", lambda: SpecDecPPWindow(4, own_acceptance, -0.1)),
    ]
    for message, make in refused:
        with pytest.raises(ValueError, match=message):
            make()
