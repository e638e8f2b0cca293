"""Drafted trees: their masks, one target call, the kept branch, and laws of whole runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from gpu_runtime.drafters import Drafter
from gpu_runtime.drafters.model_tree import ModelTreeDrafter, full_tree
from gpu_runtime.drafters.proposals import TreeProposal, node_depths
from gpu_runtime.drafters.suffix import SuffixDrafter
from gpu_runtime.drafters.suffix_cache import SuffixCache
from gpu_runtime.drafters.suffix_draft import Limits
from gpu_runtime.engine import decode
from gpu_runtime.kv_cache import RowCache
from gpu_runtime.sampling import Processor
from gpu_runtime.session import Round
from gpu_runtime.tree_rules import PointMassTree, bad_choices
from gpu_runtime.windows.heuristic import HeuristicWindow
from sim.traces import to_table
from tests.runtime.exact import PROMPT, VOCAB, compare, runs, trees
from tests.runtime.tools import PROMPTS, pair
from theory.drafting import likeliest
from theory.effects import Effects
from theory.models import Prefix, rows_after
from theory.verifiers.common import Round as Outcome
from theory.verifiers.common import load_program

WIDE = Limits(factor=4.0)
COPYING = (0, 2, 1, 0, 2, 2, 0, 2)


def test_mask_depths_and_positions_of_a_tree() -> None:
    cache = RowCache(1, 20)
    cache.lengths = np.array([7])
    plan = cache.plan([-1, 0, 0, 1, 1, 2])
    assert plan.visible[0, :, 7:].astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 0, 1, 0],
        [1, 0, 1, 0, 0, 1],
    ]
    assert plan.visible[0, :, :7].all()
    assert plan.positions.tolist() == [[7, 8, 8, 9, 9, 9]]
    assert node_depths(np.array([[-1, 0, 0, 1, 1, 2]])).tolist() == [[1, 2, 2, 3, 3, 3]]


def test_choices_are_checked_for_depth_and_parents() -> None:
    paths = [[0], [1], [0, 0], [0, 2], [1, 0, 0], [0, 0, 0, 0]]
    outside, orphans = bad_choices(paths, depth=3, width=4)
    assert outside == [[0, 0, 0, 0]]
    assert orphans == [[1, 0, 0], [0, 0, 0, 0]]
    draft = pair()[1]
    with pytest.raises(ValueError, match=r"\[\[1, 0, 0\], \[0, 0, 0, 0\]\] lack their parent"):
        ModelTreeDrafter(draft, choices=paths)
    with pytest.raises(ValueError, match=r"\[\[4\]\] name no candidate"):
        ModelTreeDrafter(draft, choices=[[4]])
    with pytest.raises(ValueError, match="no node"):
        ModelTreeDrafter(draft, choices=[])
    assert len(full_tree((3, 2, 1))) == 3 + 6 + 6


def test_every_row_may_have_a_tree_of_its_own() -> None:
    """Logits of two different trees in one call equal those of plain texts; each row then keeps a
    branch of its own, and goes on from there."""
    target = pair()[0]
    prompts = [[0, 1, 2], [3]]
    above = np.array([[-1, 0, 0, 1, 1, 2], [-1, 0, 1, 0, 3, 3]])
    tokens = torch.tensor([[1, 2, 3, 0, 1, 2], [0, 1, 1, 2, 0, 3]])
    cache = target.new_cache(2, 20)
    target.read(cache, prompts)
    logits = target.extend(cache, tokens, above)
    for row, prompt in enumerate(prompts):
        for node in range(6):
            path, at = [], node
            while at >= 0:
                path.append(int(tokens[row, at]))
                at = above[row, at]
            with torch.no_grad():
                expected = target.model(torch.tensor([[*prompt, *path[::-1]]])).logits[0, -1]
            torch.testing.assert_close(logits[row, node], expected, atol=1e-12, rtol=0)
    cache.commit(np.array([[0, 2, 5], [0, 3, 4]]), np.array([3, 2]))
    assert cache.lengths.tolist() == [6, 3]
    after = target.extend(cache, torch.tensor([[2], [1]]), [-1])
    for row, text in enumerate([[0, 1, 2, 1, 3, 2, 2], [3, 0, 2, 1]]):
        with torch.no_grad():
            expected = target.model(torch.tensor([text])).logits[0, -1]
        torch.testing.assert_close(after[row, 0], expected, atol=1e-12, rtol=0)
    cache.discard()
    target.extend(cache, tokens, above)
    with pytest.raises(ValueError, match="not a chain"):
        cache.commit(np.array([[0, 2, 5], [0, 2, 4]]), np.array([3, 3]))


def test_the_walk_descends_along_draws() -> None:
    """Certain rows decide every step; children are found among their own siblings only."""
    above = np.array([[-1, -1, 0, 1, 1, 4]])
    proposal = TreeProposal(torch.tensor([[1, 2, 3, 0, 3, 1]]), above)
    wanted = {-1: 2, 0: 0, 1: 3, 4: 1, 5: 0}
    log_p = torch.full((1, 7, 4), -torch.inf)
    for node in range(-1, 6):
        log_p[0, node + 1, wanted.get(node, 0)] = 0
    verdict = PointMassTree().verify(log_p, proposal, torch.full((1, 8), 0.5))
    assert verdict.accepted.tolist() == [3]
    assert verdict.path.tolist() == [[1, 4, 5]]
    assert verdict.token.tolist() == [0]
    assert proposal.before[0, 6].tolist() == [2, 3, 1]
    assert PointMassTree().slots(7) == 8


CASES: list[tuple[Drafter, int]] = [
    (ModelTreeDrafter(pair()[1], (3, 2, 1)), 3),
    (ModelTreeDrafter(pair()[1], choices=[(0,), (1,), (0, 0), (0, 2), (0, 0, 0)]), 5),
    (SuffixDrafter(tree=True, limits=WIDE), 8),
]
each_case = pytest.mark.parametrize(("drafter", "gamma"), CASES, ids=["full", "choices", "suffix"])


@each_case
@pytest.mark.parametrize(
    "settings", [{}, {"repetition_penalty": 1.4}, {"allowed": (0, 2, 3)}, {"min_new_tokens": 9}]
)
def test_greedy_text_equals_plain_decoding(
    drafter: Drafter, gamma: int, settings: dict[str, Any]
) -> None:
    target = pair()[0]
    processor = Processor(temperature=0, **settings)
    common: dict[str, Any] = {"processor": processor, "max_new_tokens": 24, "eos": 1}
    prompts = [list(COPYING), *PROMPTS]
    plain = decode(target, None, prompts, **common)
    trace: list[dict[str, Any]] = []
    got = decode(
        target, drafter, prompts, verifier="point_mass", gamma=gamma, trace=trace, **common
    )
    assert [g.tokens for g in got] == [g.tokens for g in plain]
    assert [g.finish for g in got] == [g.finish for g in plain]
    assert to_table(trace).num_rows == sum(len(g.emitted) for g in got)


@each_case
def test_a_request_does_not_depend_on_its_batch(drafter: Drafter, gamma: int) -> None:
    target = pair()[0]

    def run(which: Sequence[int]) -> list[tuple[list[int], list[int], list[int]]]:
        got = decode(
            target,
            drafter,
            [PROMPTS[i] for i in which],
            verifier="point_mass",
            gamma=gamma,
            seeds=9,
            request_ids=which,
            max_new_tokens=30,
        )
        return [(g.tokens, g.drafted, g.accepted) for g in got]

    together = run([0, 1, 2])
    assert run([2, 0]) == [together[2], together[0]]
    assert run([1]) == [together[1]]


def test_both_caches_hold_the_kept_branch() -> None:
    """The perfect drafter's first choice is always kept, and its cache never falls behind."""
    target = pair()[0]
    drafter = ModelTreeDrafter(target, choices=[(1,), (0,), (0, 1), (0, 0), (0, 0, 0)])
    rounds: list[Round] = []
    (got,) = decode(
        target,
        drafter,
        [[0, 1]],
        verifier="point_mass",
        gamma=3,
        processor=Processor(temperature=0),
        max_new_tokens=32,
        observer=rounds.append,
    )
    assert got.accepted == [3] * 8
    for done in rounds:
        assert done.proposal.depth.max() == 3


def model_tree_step(branching: tuple[int, ...]) -> Any:
    program, drafting = load_program("point_mass"), likeliest(branching)

    def step(fx: Effects, prefix: Prefix, _: Any, cap: int) -> tuple[Outcome, int]:
        p, q = (rows_after(tree, prefix) for tree in trees())
        drafts = drafting(fx, q, cap)
        nodes = {path[: i + 1] for path in drafts for i in range(len(path))}
        return program(fx, p, q, drafts), len(nodes)

    return step


def suffix_tree_step(fx: Effects, prefix: Prefix, _: Any, cap: int) -> tuple[Outcome, int]:
    cache = SuffixCache()
    number = cache.start(COPYING)
    cache.append(number, prefix)
    limits = Limits(most=min(cap, 4), factor=4.0)
    draft = cache.speculate(number, [*COPYING, *prefix], limits, tree=True)
    paths: list[Prefix] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    p = rows_after(trees(COPYING)[0], prefix)
    return load_program("point_mass")(fx, p, p, tuple(paths)), len(paths)


@pytest.mark.parametrize("case", ["full", "uneven", "suffix"])
def test_runs_follow_the_exact_law(case: str) -> None:
    """Tokens and (drafted, accepted) of every round. False alarm 1e-9; any law at total variation
    0.15 or more is found with power 0.999."""
    target, draft = pair(vocab=VOCAB)
    drafter: Drafter = SuffixDrafter(tree=True, limits=WIDE)
    prompt, step, gamma = COPYING, suffix_tree_step, 4
    if case != "suffix":
        branching = (2, 2) if case == "full" else (1, 2, 1)
        drafter, gamma = ModelTreeDrafter(draft, branching), len(branching)
        prompt, step = tuple(PROMPT), model_tree_step(branching)
    got = decode(
        target,
        drafter,
        [prompt] * 5000,
        verifier="point_mass",
        gamma=gamma,
        max_new_tokens=4,
        seeds=51,
    )
    law = runs(step)
    result = compare(got, law)
    assert result.detectable_tv < 0.15
    assert not result.rejected, result


def test_what_does_not_fit_is_refused() -> None:
    target, draft = pair()
    tree = ModelTreeDrafter(draft)
    with pytest.raises(ValueError, match="'block' does not verify trees; use one of point_mass"):
        decode(target, tree, [[0]], verifier="block")
    with pytest.raises(ValueError, match="verifies one draft, got num_drafts=2"):
        decode(target, tree, [[0]], verifier="point_mass", num_drafts=2)
    (got,) = decode(
        target, tree, [[0]], verifier="point_mass", window=HeuristicWindow(3, 1), max_new_tokens=9
    )
    assert got.drafted[0] == 3  # one level
