"""The decoding engine: greedy equality, independence of the batch, ends, budgets, contracts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from gpu_runtime.engine import Generation, decode
from gpu_runtime.models import LanguageModel
from gpu_runtime.sampling import Processor
from gpu_runtime.windows import DraftView, Window
from gpu_runtime.zoo import noised, tiny
from sim.traces import to_table
from sim.verifiers import VERIFIERS
from tests.runtime.tools import CASES, PROMPTS, Forced, pair

GREEDY = Processor(temperature=0)


def texts(generations: Sequence[Generation]) -> list[list[int]]:
    return [generation.tokens for generation in generations]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("verifier", "num_drafts"), CASES)
@pytest.mark.parametrize("batch", [1, 3])
def test_greedy_text_equals_plain_decoding(
    verifier: str, num_drafts: int, batch: int, dtype: torch.dtype
) -> None:
    target, draft = pair(dtype)
    settings: dict[str, Any] = {"processor": GREEDY, "max_new_tokens": 24}
    plain = decode(target, None, PROMPTS[:batch], **settings)
    got = decode(
        target, draft, PROMPTS[:batch], verifier=verifier, num_drafts=num_drafts, **settings
    )
    assert texts(got) == texts(plain)
    assert [generation.finish for generation in got] == ["length"] * batch
    assert sum(len(generation.accepted) for generation in got) < 24 * batch


def test_plain_decoding_equals_transformers_greedy() -> None:
    target, _ = pair()
    prompt = torch.tensor([PROMPTS[2]])
    expected = target.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=24,
        pad_token_id=0,
    )
    got = decode(target, None, [PROMPTS[2]], processor=GREEDY, max_new_tokens=24)
    assert got[0].tokens == expected[0, len(PROMPTS[2]) :].tolist()
    assert len(set(got[0].tokens)) > 1


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.4},
        {"frequency_penalty": 0.4, "presence_penalty": 0.3},
        {"min_new_tokens": 9},
        {"allowed": (0, 1, 2)},
    ],
)
@pytest.mark.parametrize(("verifier", "num_drafts"), [("block", 1), ("kseq", 3)])
def test_greedy_equality_holds_under_context_rules(
    settings: dict[str, Any], verifier: str, num_drafts: int
) -> None:
    target, draft = pair()
    processor = Processor(temperature=0, **settings)
    eos = 0 if processor.min_new_tokens else ()
    common: dict[str, Any] = {"max_new_tokens": 20, "eos": eos}
    rule: dict[str, Any] = {"processor": processor, "verifier": verifier, "num_drafts": num_drafts}
    plain = decode(target, None, PROMPTS, processor=processor, **common)
    got = decode(target, draft, PROMPTS, **rule, **common)
    assert texts(got) == texts(plain)
    assert texts(plain) != texts(decode(target, None, PROMPTS, processor=GREEDY, **common))


@pytest.mark.parametrize(("verifier", "num_drafts"), CASES)
def test_a_request_does_not_depend_on_its_batch(verifier: str, num_drafts: int) -> None:
    target, draft = pair()
    ids = [10, 11, 12]

    def run(order: Sequence[int], **extra: Any) -> list[Generation]:
        return decode(
            target,
            draft,
            [PROMPTS[i] for i in order],
            verifier=verifier,
            num_drafts=num_drafts,
            gamma=3,
            max_new_tokens=17,
            seeds=5,
            request_ids=[ids[i] for i in order],
            **extra,
        )

    together = run([0, 1, 2])
    assert len({tuple(text) for text in texts(together)}) == 3
    assert texts(run([2, 0, 1])) == [together[i].tokens for i in (2, 0, 1)]
    for i in range(3):
        alone = run([i])[0]
        assert alone.tokens == together[i].tokens
        assert alone.accepted == together[i].accepted
    ended = run([0, 1, 2], eos=together[0].tokens[4])
    for i in range(3):
        assert ended[i].tokens == together[i].tokens[: len(ended[i].tokens)]


@pytest.mark.parametrize(("verifier", "num_drafts"), CASES)
def test_a_perfect_drafter_is_accepted_throughout(verifier: str, num_drafts: int) -> None:
    target = pair()[0]
    got = decode(
        target,
        noised(target, 0.0),
        PROMPTS,
        verifier=verifier,
        gamma=4,
        num_drafts=num_drafts,
        max_new_tokens=40,
    )
    for generation in got:
        assert generation.accepted == generation.drafted
        assert generation.acceptance_rate == 1
        assert len(generation.accepted) == 8
        assert generation.tokens_per_call == 5


def test_the_budget_counts_tokens_inside_the_block() -> None:
    target = pair()[0]
    draft = noised(target, 0.0)
    (got,) = decode(target, draft, [[0]], verifier="block", gamma=4, max_new_tokens=6)
    assert (got.emitted, got.drafted, len(got.tokens)) == ([5, 1], [4, 0], 6)
    (got,) = decode(target, draft, [[0]], verifier="greedy_block", gamma=4, max_new_tokens=6)
    assert (got.emitted, got.drafted, got.accepted) == ([5, 1], [4, 4], [4, 4])
    assert got.finish == "length"


@pytest.mark.parametrize("verifier", ["token", "greedy_block"])
def test_an_end_inside_the_block_drops_what_follows(verifier: str) -> None:
    target = pair()[0]
    common: dict[str, Any] = {"processor": GREEDY, "max_new_tokens": 20}
    plain = decode(target, None, [PROMPTS[2]], **common)[0].tokens
    last = next(token for token in plain[1:] if token != plain[0])
    cut = plain.index(last) + 1
    for name in ("eos", "stop"):
        for end in range(1, 8):
            (got,) = decode(
                target,
                noised(target, 0.0),
                [PROMPTS[2]],
                verifier=verifier,
                gamma=end,
                **common,
                **{name: [last]},
            )
            assert (got.tokens, got.finish) == (plain[:cut], name)
            assert sum(got.emitted) == cut
    assert got.emitted[-1] < got.accepted[-1] + 1  # the last window reached beyond the end


def test_a_stop_string_cuts_tokens_and_text() -> None:
    target, draft = pair()
    common: dict[str, Any] = {"processor": GREEDY, "max_new_tokens": 20}
    plain = decode(target, None, [PROMPTS[2]], **common)[0]
    words = (plain.text or "").split()
    stop = f"{words[4]} {words[5]}"
    (got,) = decode(target, draft, [PROMPTS[2]], stop_strings=[stop], **common)
    kept = next(n for n in range(2, 20) if words[n - 2 : n] == stop.split())
    assert got.tokens == plain.tokens[:kept]
    assert got.text == " ".join(words[: kept - 2]) + " " * (kept > 2)
    assert got.finish == "stop"


def test_no_drafts_is_plain_decoding() -> None:
    target, draft = pair()
    plain = decode(target, None, PROMPTS, seeds=3, max_new_tokens=12)
    for settings in ({"gamma": 0}, {"verifier": "autoregressive"}):
        got = decode(target, draft, PROMPTS, seeds=3, max_new_tokens=12, **settings)
        assert texts(got) == texts(plain)
        assert {generation.acceptance_rate for generation in got} == {None}
        assert {generation.tokens_per_call for generation in got} == {1.0}
    assert decode(target, draft, []) == []


def test_seeds() -> None:
    target, draft = pair()

    def run(seed: int | None, processor: Processor) -> list[list[int]]:
        return texts(decode(target, draft, [[0]] * 8, seeds=seed, processor=processor, gamma=2))

    assert run(0, Processor()) == run(0, Processor())
    assert run(0, Processor()) != run(1, Processor())
    assert len({tuple(text) for text in run(None, Processor())}) == 8
    assert run(0, GREEDY) == run(10, GREEDY)


class HalfWindow(Window):
    """Draft on while the next token is fairly certain: windows that differ by request."""

    name, maximum = "half", 5

    def wants(self, view: DraftView) -> Any:
        return (view.rows[-1][:, 0].exp().amax(-1) > 0.5).numpy()

    def observe(self, requests: Any) -> None:
        self.rounds = getattr(self, "rounds", 0) + 1


@pytest.mark.parametrize("num_drafts", [1, 2])
def test_an_adaptive_window_keeps_the_contracts(num_drafts: int) -> None:
    target, draft = pair()
    window, trace = HalfWindow(), list[dict[str, Any]]()
    common: dict[str, Any] = {"verifier": "kseq", "num_drafts": num_drafts, "window": window}
    got = decode(target, draft, PROMPTS, seeds=2, max_new_tokens=30, trace=trace, **common)
    drafted = {n for generation in got for n in generation.drafted}
    assert {0, 5} < drafted
    assert window.rounds == max(len(generation.drafted) for generation in got)
    alone = decode(
        target, draft, [PROMPTS[1]], seeds=[2], request_ids=[1], max_new_tokens=30, **common
    )
    assert alone[0].tokens == got[1].tokens
    assert alone[0].drafted == got[1].drafted
    assert to_table(trace).num_rows == sum(len(generation.drafted) for generation in got)
    greedy = decode(target, draft, PROMPTS, processor=GREEDY, **common)
    assert texts(greedy) == texts(decode(target, None, PROMPTS, processor=GREEDY))


@pytest.mark.parametrize(("verifier", "num_drafts"), [*CASES, ("autoregressive", 1)])
def test_traces_follow_the_schema(verifier: str, num_drafts: int) -> None:
    target, draft = pair()
    trace: list[dict[str, Any]] = []
    got = decode(
        target,
        draft,
        PROMPTS,
        verifier=verifier,
        num_drafts=num_drafts,
        max_new_tokens=21,
        eos=3,
        trace=trace,
    )
    table = to_table(trace)
    for i, generation in enumerate(got):
        rows = [row for row in table.to_pylist() if row["request"] == i]
        assert sum(row["emitted"] for row in rows) == len(generation.tokens)
        assert [row["accepted"] for row in rows] == generation.accepted
        assert rows[-1]["finish"] == generation.finish
        for row in rows:
            full = 0 < row["drafted"] == row["accepted"]
            assert row["bonus"] == (full and row["emitted"] == row["accepted"] + 1)


def test_a_smaller_draft_vocabulary_is_extended_with_zeros() -> None:
    target, draft = tiny(6), tiny(3)
    seen: list[torch.Tensor] = []
    got = decode(
        target,
        draft,
        [[0, 1, 2]] * 40,
        verifier="block",
        max_new_tokens=8,
        observer=lambda done: seen.append(done.proposal.log_q),
    )
    drafted = torch.cat([rows.reshape(-1, 6) for rows in seen])
    assert (drafted[:, 3:] == -torch.inf).all()
    assert {token for generation in got for token in generation.tokens} == set(range(6))


def test_vocabularies_must_match() -> None:
    with pytest.raises(ValueError, match="has 6 tokens, tiny only 3"):
        decode(tiny(3), tiny(6), [[0]])
    swapped = tiny(4)
    swapped.tokenizer.get_vocab = lambda: {"0": 1, "1": 0, "2": 2, "3": 3}
    with pytest.raises(ValueError, match="token id 1 is '0'"):
        decode(tiny(4), swapped, [[0]])


def test_padding_ids_of_the_target_are_never_emitted() -> None:
    padded = LanguageModel(tiny(6).model, vocab_size=4, name="padded")
    got = decode(padded, noised(padded, 0.2), [[0]] * 20, max_new_tokens=10)
    assert max(token for generation in got for token in generation.tokens) < 4


def test_what_does_not_fit_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = tiny(4, context=16), tiny(4, context=12)

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("work has started")

    monkeypatch.setattr(LanguageModel, "extend", forbidden)
    refused: list[tuple[str, dict[str, Any]]] = [
        ("prompt 1 needs 17 positions", {"prompts": [[0], [0] * 9], "max_new_tokens": 8}),
        ("exceed the context of tiny", {"max_new_tokens": 13}),
        ("prompt 0 is empty", {"prompts": [[]]}),
        ("holds token 4", {"prompts": [[4]]}),
        ("no token of a tiny model", {"prompts": ["0 7"]}),
        ("max_new_tokens 0", {"max_new_tokens": 0}),
        ("num_drafts 0", {"num_drafts": 0}),
        ("verifies one draft", {"num_drafts": 2, "verifier": "block"}),
        ("gamma -1", {"gamma": -1}),
        ("no array verifier 'blok'", {"verifier": "blok"}),
        ("use the fixed window", {"verifier": "greedy_block", "window": HalfWindow()}),
    ]
    for message, settings in refused:
        arguments = {"prompts": [[0]], "max_new_tokens": 4} | settings
        with pytest.raises(ValueError, match=message):
            decode(target, draft, **arguments)


@pytest.mark.parametrize("draft_too", [False, True])
def test_a_nan_names_the_request_and_the_position(draft_too: bool) -> None:
    target = tiny(5)
    with torch.no_grad():
        target.model.get_input_embeddings().weight[4] = torch.nan
    draft = None if not draft_too else noised(tiny(5), 0.1)
    with pytest.raises(ValueError, match=r"\(target\), request 1, position 3"):
        decode(
            target,
            draft,
            [[0, 1], [2, 3, 4]],
            processor=Processor(allowed=(0, 1, 2, 3)),
            max_new_tokens=4,
        )


def test_a_nan_of_the_drafter_is_refused() -> None:
    draft = noised(tiny(4), 0.1)
    with torch.no_grad():
        draft.model.get_input_embeddings().weight[3] = torch.nan
    with pytest.raises(ValueError, match=r"tiny-draft \(draft\), row"):
        decode(tiny(4), draft, [[0, 3]], max_new_tokens=4)


def test_stop_ids_at_once_and_prompts_of_one_token() -> None:
    target, draft = pair()
    (got,) = decode(target, draft, ["2"], eos=[0, 1, 2, 3])
    assert (len(got.tokens), got.finish) == (1, "eos")
    assert got.text == str(got.tokens[0])


def test_every_verifier_is_covered() -> None:
    assert {name for name, _ in CASES} == set(VERIFIERS)
    assert not isinstance(VERIFIERS["token"], Forced)
    assert np.unique([len(prompt) for prompt in PROMPTS]).size == 3
