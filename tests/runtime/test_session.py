"""Cache lengths after every outcome of a round, failures included."""

from typing import Any

import numpy as np
import pytest
import torch

from gpu_runtime.drafters.proposals import draft_tree, drafted_before
from sim.verifiers import Verdict
from tests.runtime.tools import Forced, always, session


def test_lengths_before_and_after_the_rewind() -> None:
    work = session([[0] * 10], None, gamma=4)
    target, draft = work.cache, work.drafting.cache
    before: list[tuple[int, int]] = []

    def decide(*_: Any) -> Verdict:
        before.append((int(target.entries[0]), int(draft.entries[0])))
        zero = torch.zeros(1, dtype=torch.long)
        return Verdict(zero + 2, zero, zero)

    object.__setattr__(work.rules, "verifier", Forced(decide))
    assert (target.lengths[0], draft.lengths[0]) == (9, 9)
    work.round()
    assert before == [(14, 13)]
    assert (target.lengths[0], draft.lengths[0]) == (12, 12)
    assert len(work.active[0].sequence) == 13


@pytest.mark.parametrize("num_drafts", [1, 3])
@pytest.mark.parametrize("branch", [0, 2])
@pytest.mark.parametrize("accepted", [[0, 3], [3, 1], [2, 0], [3, 3]])
def test_both_caches_hold_the_committed_tokens(
    accepted: list[int], branch: int, num_drafts: int
) -> None:
    gamma, branch = 3, min(branch, num_drafts - 1)
    work = session([[0] * 8, [1] * 5], always(accepted, branch), gamma, num_drafts)
    committed = np.array([8, 5])
    for _ in range(4):
        done = work.round()
        fed = committed + np.minimum(accepted, gamma - 1)
        committed = committed + np.array(accepted) + 1
        assert [len(request.sequence) for request in work.active] == committed.tolist()
        assert work.cache.lengths.tolist() == (committed - 1).tolist()
        assert work.drafting.cache.lengths.tolist() == fed.tolist()
        kept = done.proposal.drafts[:, branch].tolist()
        for row, request in enumerate(work.active):
            assert request.sequence[-accepted[row] - 1 :] == [*kept[row][: accepted[row]], 0]


def test_committed_lengths_over_rounds() -> None:
    script = iter([0, 0, 5, 2])

    def decide(*_: Any) -> Verdict:
        zero = torch.zeros(1, dtype=torch.long)
        return Verdict(zero + next(script), zero, zero)

    work = session([[1] * 128], Forced(decide), gamma=5)
    reached = []
    for _ in range(4):
        work.round()
        reached.append(len(work.active[0].sequence))
    assert reached == [129, 130, 136, 139]


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt])
def test_a_failing_verifier_leaves_both_caches_rolled_back(
    interruption: type[BaseException],
) -> None:
    def decide(*_: Any) -> Verdict:
        raise interruption

    work = session([[0] * 10, [1] * 4], Forced(decide), gamma=3)
    with pytest.raises(interruption):
        work.round()
    for cache in (work.cache, work.drafting.cache):
        assert cache.lengths.tolist() == [9, 3]
        assert cache.pending == 0
    assert [len(request.sequence) for request in work.active] == [10, 4]
    object.__setattr__(work.rules, "verifier", always([1, 0]))
    repeated = work.round()
    fresh = session([[0] * 10, [1] * 4], always([1, 0]), gamma=3).round()
    torch.testing.assert_close(repeated.log_p, fresh.log_p, atol=1e-12, rtol=0)
    assert (repeated.proposal.drafts == fresh.proposal.drafts).all()


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("accepted", [0, 1])
def test_a_round_commits_between_one_and_gamma_plus_one_tokens(gamma: int, accepted: int) -> None:
    work = session([[0, 1]], always([accepted * gamma]), gamma)
    work.round()
    assert work.active[0].written == accepted * gamma + 1


def test_the_tree_and_the_tokens_before_each_row() -> None:
    assert draft_tree(1, 3) == [-1, 0, 1, 2]
    assert draft_tree(2, 3) == [-1, 0, 0, 1, 2, 3, 4]
    assert draft_tree(3, 0) == [-1]
    drafts = torch.tensor([[[1, 2], [3, 4]]])
    assert drafted_before(drafts)[0].tolist() == [[-1, -1], [1, -1], [3, -1], [1, 2], [3, 4]]
