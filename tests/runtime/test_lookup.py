"""Drafts from the text itself: n-grams and suffixes, isolation, memory, laws of whole runs."""

import random
import sys
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from gpu_runtime.drafters import Drafter
from gpu_runtime.drafters.arctic import ArcticCache, available, best_cache
from gpu_runtime.drafters.prompt_lookup import NgramSource, PromptLookupDrafter
from gpu_runtime.drafters.sources import SourceSession
from gpu_runtime.drafters.suffix import SuffixDrafter
from gpu_runtime.drafters.suffix_cache import SuffixCache
from gpu_runtime.drafters.suffix_draft import Limits, SuffixDraft, sibling_order, speculate
from gpu_runtime.drafters.suffix_index import SuffixIndex
from gpu_runtime.engine import decode
from gpu_runtime.generation import DecodingError
from gpu_runtime.session import Round
from tests.runtime.exact import VOCAB, compare, point_mass_step, runs
from tests.runtime.tools import Forced, pair

COPYING = (0, 2, 1, 0, 2)


def ngrams(context: Sequence[int], longest: int, shortest: int, most: int) -> list[int]:
    return NgramSource(longest, shortest).draft(context, most)


def suffixes(context: Sequence[int], most: int, **settings: Any) -> SuffixDraft:
    cache = SuffixCache()
    return cache.speculate(cache.start(context), context, Limits(most=most, **settings))


def test_ngrams_copy_from_the_latest_earlier_match() -> None:
    context = [1, 2, 3, 1, 2, 3, 1, 2]
    assert ngrams(context, 2, 2, 4) == [3, 1, 2]
    assert ngrams([1, 2, 9, 1, 2, 3, 1, 2], 2, 2, 1) == [3]
    for text, draft in (([1, 2, 3, 4], []), ([5], []), ([7, 7, 7, 7], [7])):
        assert ngrams(text, 3, 2, 3) == draft


def test_ngrams_grow_with_the_text() -> None:
    generator = random.Random(1)
    source, text = NgramSource(3, 1), [0]
    for _ in range(200):
        text += [generator.randrange(4) for _ in range(generator.randrange(1, 4))]
        expected: list[int] = []
        for n in (3, 2, 1):
            starts = [i for i in range(len(text) - n) if text[i : i + n] == text[-n:]]
            if len(text) >= n and starts:
                expected = text[starts[-1] + n : starts[-1] + n + 5]
                break
        assert source.draft(text, 5) == expected


def test_suffixes_follow_the_most_frequent_continuation() -> None:
    text = [5, 1, 2, 8, 1, 2, 9, 1, 2, 9, 7, 1, 2]
    draft = suffixes(text, 4, least=0.3)
    assert (draft.tokens[0], draft.matched) == (9, 2)
    assert draft.probabilities[0] == pytest.approx(2 / 4)  # of four places, one is the end
    assert draft.score == pytest.approx(sum(draft.probabilities))
    assert suffixes(text, 4, least=0.6).tokens == []
    assert suffixes([1, 2, 3, 4], 4) == SuffixDraft()
    assert suffixes([1], 4) == SuffixDraft()
    copied = [*range(20), *range(10)]
    assert suffixes(copied, 16).tokens == list(range(10, 20))
    assert suffixes(copied, 16, factor=0.5).tokens == list(range(10, 15))
    # Match and draft share the depth: 6 and 6 score best.
    assert suffixes(copied, 16, depth=12).tokens == list(range(10, 16))


def test_a_tree_expands_every_likely_child() -> None:
    cache = SuffixCache()
    text = [1, 2, 8, 4, 1, 2, 9, 5, 1, 2, 8, 6, 1, 2]
    draft = cache.speculate(cache.start(text), text, Limits(most=16, factor=4.0), tree=True)
    assert sorted(zip(draft.parents, draft.tokens, strict=True))[:2] == [(-1, 8), (-1, 9)]
    assert all(parent < node for node, parent in enumerate(draft.parents))
    below = {draft.tokens[i] for i, p in enumerate(draft.parents) if p == draft.tokens.index(8)}
    assert below == {4, 6}
    assert draft.probabilities[draft.tokens.index(8)] == pytest.approx(2 / 4)


def test_equal_siblings_stand_in_the_order_of_their_counts() -> None:
    assert sibling_order([3, 1, 2]) == [3, 1, 2]
    assert sibling_order([3, 1, 2, 2, 1]) == [2, 1, 3]
    assert sibling_order([1, 2, 1, 2]) == [2, 1]  # the first of its group goes ahead of the next
    assert sibling_order([1, 2, 3, 1, 3, 2]) == [2, 1, 3]


def arctic_text(generator: random.Random, length: int, vocab: int) -> list[int]:
    """Random text that repeats itself."""
    text = [generator.randrange(vocab) for _ in range(3)]
    while len(text) < length:
        start = generator.randrange(len(text))
        if generator.random() < 0.3:
            text += text[start : start + generator.randrange(1, 12)]
        text.append(generator.randrange(vocab))
    return text[:length]


@pytest.mark.skipif(not available(), reason="needs the package arctic-inference")
@pytest.mark.parametrize("seed", range(20))
def test_drafts_equal_those_of_the_official_cache(seed: int) -> None:
    """Paths and trees, ties included, local and shared, over interleaved requests."""
    generator = random.Random(seed)
    depth, vocab = generator.choice([3, 8, 24, 64]), generator.choice([2, 3, 8, 40])
    theirs, ours = ArcticCache(None, depth), SuffixCache(None)
    texts: dict[int, list[int]] = {}
    for _ in range(40):
        if len(texts) < 3:
            text = arctic_text(generator, generator.randrange(2, 60), vocab)
            number = ours.start(text)
            assert theirs.start(text) == number
            texts[number] = text
        number = generator.choice(list(texts))
        new = arctic_text(generator, 6, vocab)[-generator.randrange(1, 6) :]
        for cache in (theirs, ours):
            cache.append(number, new)
        texts[number] += new
        limits = Limits(
            depth,
            generator.choice([1, 4, 16]),
            generator.choice([0.5, 1.0, 2.0]),
            generator.choice([0.0, 3.5]),
            generator.choice([0.05, 0.1, 0.3]),
        )
        for tree in (False, True):
            context = texts[number][-depth:]
            assert theirs.speculate(number, context, limits, tree) == ours.speculate(
                number, context, limits, tree
            )
        if generator.random() < 0.1:
            for cache in (theirs, ours):
                cache.stop(number)
            del texts[number]


def test_without_the_official_cache_there_is_our_own() -> None:
    assert isinstance(best_cache(), ArcticCache if available() else SuffixCache)
    assert isinstance(best_cache(max_bytes=10**6), SuffixCache)
    if not available():
        with pytest.raises(ValueError, match="needs the package arctic-inference"):
            ArcticCache()


def finished(cache: SuffixCache, text: Sequence[int], prompt: Sequence[int] = (0,)) -> int:
    number = cache.start(prompt)
    cache.append(number, text)
    cache.stop(number)
    return number


def test_the_oldest_requests_leave_the_shared_index() -> None:
    cache = SuffixCache(requests=2)
    numbers = [finished(cache, text) for text in ([1, 2, 3], [4, 5, 6], [7, 8, 9])]
    answers = [
        speculate(cache.shared, query, Limits(), tree=False).tokens
        for query in ([1, 2], [4, 5], [7, 8])
    ]
    assert answers == [[], [6], [9]]
    assert cache.held == tuple(numbers[1:])
    assert cache.active == 0


@pytest.mark.parametrize("max_bytes", [20_000, 60_000])
def test_the_shared_index_keeps_its_bound_in_bytes(max_bytes: int) -> None:
    generator = random.Random(2)
    cache = SuffixCache(None, max_bytes)
    for _ in range(200):
        number = finished(cache, arctic_text(generator, 40, 30))
        assert cache.shared.nbytes <= max_bytes
        assert memory(cache.shared) <= max_bytes
        assert cache.held[-1] == number
    assert cache.shared.nbytes > max_bytes // 3
    assert list(cache.held) == sorted(cache.held)
    assert cache.held[0] > 20
    finished(cache, arctic_text(generator, 5000, 30))  # too large by itself
    assert cache.held == ()
    assert cache.shared.nbytes <= max_bytes


def memory(index: SuffixIndex) -> int:
    """What the interpreter says an index takes."""
    total = 0
    for part in vars(index).values():
        total += sys.getsizeof(part)
        if isinstance(part, dict):
            total += sum(sys.getsizeof(x) for pair in part.items() for x in pair if x != pair[0])
    assert any(isinstance(part, array) for part in vars(index).values())
    return total


def test_compacting_changes_no_answer() -> None:
    generator = random.Random(3)
    index, fresh = SuffixIndex(), SuffixIndex()
    texts = [arctic_text(generator, 60, 6) for _ in range(8)]
    for number, text in enumerate(texts):
        index.append(number, text)
    for number in (0, 3, 7):
        index.remove(number)
    for number in (1, 2, 4, 5, 6):
        fresh.append(number, texts[number])
    queries = [arctic_text(generator, 8, 6) for _ in range(50)]

    def answers(which: SuffixIndex) -> list[SuffixDraft]:
        return [speculate(which, q, Limits(), tree) for q in queries for tree in (False, True)]

    assert answers(index) == answers(fresh)
    gaps = index.nbytes
    index.compact()
    assert answers(index) == answers(fresh)
    assert index.nbytes == index.live_bytes == fresh.nbytes < gaps
    index.append(9, texts[0])
    fresh.append(9, texts[0])
    assert answers(index) == answers(fresh)


@pytest.mark.parametrize("drafter", [PromptLookupDrafter(2, 2), SuffixDrafter()])
def test_a_request_never_sees_another_ones_text(drafter: Drafter) -> None:
    """Request 1 knows what follows [1, 2]; request 2 does not, beside it or after it."""
    drafts = []
    for prompts in ([[1, 2, 3, 0, 1, 2], [0, 1, 2]], [[0, 1, 2]]):
        rounds: list[Round] = []
        decode(pair()[0], drafter, prompts, gamma=2, max_new_tokens=3, observer=rounds.append)
        drafts.append(rounds[0].proposal.drafts[:, 0].tolist())
    assert drafts[0] == [[3, 0], [-1, -1]]
    assert drafts[1] == [[]]


def test_a_shared_cache_serves_other_requests_when_asked() -> None:
    target, cache = pair()[0], SuffixCache(requests=None)
    drafter = SuffixDrafter(cache)
    (first,) = decode(target, drafter, [[0, 1]], seeds=1, max_new_tokens=30)
    assert cache.held == (0,)
    (again,) = decode(target, drafter, [[0, 1]], seeds=1, max_new_tokens=30)
    (alone,) = decode(target, SuffixDrafter(), [[0, 1]], seeds=1, max_new_tokens=30)
    assert sum(again.accepted) > sum(alone.accepted)
    assert cache.active == 0
    assert first.tokens


def test_nothing_is_left_of_finished_requests() -> None:
    target = pair()[0]
    opened: list[weakref.ref[Any]] = []
    cache = SuffixCache()

    class Watched(SuffixDrafter):
        def open(self, *arguments: Any) -> SourceSession:
            session = super().open(*arguments)
            opened.extend(weakref.ref(source) for source in session.sources)
            return session

    for verifier in ("token", "autoregressive"):
        decode(target, Watched(cache), [[0, 1, 0]] * 5, verifier=verifier, max_new_tokens=6)
    assert len(opened) == 5
    assert [ref for ref in opened if ref() is not None] == []
    assert cache.active == 0

    def fail(*_: Any) -> Any:
        raise RuntimeError

    with pytest.raises(DecodingError):
        decode(target, Watched(cache), [[0, 1, 0]] * 5, verifier=Forced(fail), max_new_tokens=6)
    assert cache.active == 0


def prompt_lookup_path(prefix: Sequence[int], cap: int) -> list[int]:
    return ngrams([*COPYING, *prefix], 3, 1, min(cap, 3))


def suffix_path(prefix: Sequence[int], cap: int) -> list[int]:
    cache = SuffixCache()
    number = cache.start(COPYING)
    cache.append(number, prefix)
    return cache.speculate(number, [*COPYING, *prefix], Limits(most=min(cap, 3))).tokens


@pytest.mark.parametrize("verifier", ["token", "block", "kseq"])
@pytest.mark.parametrize(
    ("drafter", "path"),
    [(PromptLookupDrafter(), prompt_lookup_path), (SuffixDrafter(), suffix_path)],
    ids=["prompt_lookup", "suffix"],
)
def test_runs_follow_the_exact_law(
    drafter: Drafter, path: Callable[..., list[int]], verifier: str
) -> None:
    """Tokens and (drafted, accepted) of every round: a point mass is kept with probability p(x).
    False alarm 1e-9; any law at total variation 0.14 or more is found with power 0.999."""
    got = decode(
        pair(vocab=VOCAB)[0],
        drafter,
        [COPYING] * 5000,
        verifier=verifier,
        gamma=3,
        max_new_tokens=4,
        seeds=31,
    )
    law = runs(point_mass_step("token", COPYING, path))
    result = compare(got, law)
    assert result.detectable_tv < 0.14
    assert not result.rejected, result


def test_drafts_from_another_tokenizer_are_refused() -> None:
    cache = SuffixCache(requests=None)
    finished(cache, [0, 1, 9, 0, 1, 9])
    with pytest.raises(ValueError, match="token 9, but the target has 4"):
        decode(pair()[0], SuffixDrafter(cache), [[2, 0, 1]], max_new_tokens=8)
    assert cache.active == 0
    with pytest.raises(ValueError, match="shortest <= longest"):
        PromptLookupDrafter(2, 3)
    with pytest.raises(ValueError, match="greedy_block needs full drafts"):
        decode(pair()[0], PromptLookupDrafter(), [[0]], verifier="greedy_block")
    with pytest.raises(ValueError, match="is not live"):
        cache.append(99, [1])


def test_one_hot_rows_carry_the_drafted_tokens() -> None:
    rounds: list[Round] = []
    decode(pair()[0], PromptLookupDrafter(), [[0, 1, 0], [2]], gamma=3, observer=rounds.append)
    proposal = rounds[0].proposal
    assert proposal.drafts[:, 0].tolist() == [[1, 0], [-1, -1]]
    assert torch.equal(proposal.log_q[0, 0].exp(), torch.eye(4, dtype=torch.float64)[[1, 0]])
    assert proposal.lengths.tolist() == [2, 0]
