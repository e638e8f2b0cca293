"""Samples and their files, rounds and places, greedy engines, saved states, the pytest helper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim.losslessness import checkpoint
from sim.losslessness.asserting import assert_lossless, audit_sampler
from sim.losslessness.eprocess import Audit
from sim.losslessness.greedy import GreedyAudit, ulp
from sim.losslessness.report import greedy_result, result
from sim.losslessness.sample_files import Header, append_samples, read_samples, start_file
from sim.losslessness.sample_files import write_samples as write
from sim.losslessness.samples import Sample, after_end, chunk
from sim.losslessness.scoring import scorer
from sim.rows import tabulate
from theory.models import MarkovModel, TableModel

TARGET = MarkovModel(["1/2", "3/10", "1/5"])
SAMPLES = [
    Sample((1, 5), (7, 9, 2), (2, 1), (4, 4), (1, 0)),
    Sample((), (3,)),
    Sample((4,), ()),
]
HEADER = Header("m", 12, {"temperature": 1.0, "top_k": 50}, (2,), True, extra={"note": "x"})


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_files_come_back_as_they_were_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"samples{suffix}"
    write(path, HEADER, SAMPLES)
    assert read_samples(path) == (HEADER, SAMPLES)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


BROKEN: tuple[tuple[str, Callable[[list[str]], str], str], ...] = (
    ("no last line", lambda text: "".join(text[:-1]), "is partial: it has 3 samples"),
    (
        "a line too few",
        lambda text: text[0] + "".join(text[2:]),
        "should hold 3 samples and holds 2",
    ),
    ("cut inside a line", lambda text: "".join(text)[:-30], "is it cut off"),
    ("cut in the header", lambda text: text[0][:20], "line 1 is no JSON"),
    ("empty", lambda text: "", "is empty"),
    ("lines after the last", lambda text: "".join(text + text[1:2]), "lines follow the last one"),
    ("another format", lambda text: '{"format": "x"}\n' + "".join(text[1:]), "header must say"),
    ("no prompt", lambda text: text[0] + '{"output": [1]}\n', "the prompt is missing"),
    ("no output", lambda text: text[0] + '{"prompt": [1]}\n', "the output is missing"),
    ("a list", lambda text: text[0] + "[1]\n", "each line is one JSON object"),
    ("text ids", lambda text: text[0] + '{"prompt": ["a"], "output": [1]}\n', "prompt must list"),
    (
        "rounds that do not add up",
        lambda text: text[0] + '{"prompt": [1], "output": [1, 2], "emitted": [1]}\n',
        "but the output has 2",
    ),
)


@pytest.mark.parametrize(("name", "spoil", "message"), BROKEN, ids=[case[0] for case in BROKEN])
def test_broken_files_are_refused(
    tmp_path: Path, name: str, spoil: Callable[[list[str]], str], message: str
) -> None:
    path = tmp_path / "samples.jsonl"
    write(path, HEADER, SAMPLES)
    path.write_text(spoil(lines(path)))
    with pytest.raises(ValueError, match=message):
        read_samples(path)


def test_partial_files_can_only_be_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    start_file(path, HEADER)
    append_samples(path, SAMPLES[:2])
    with path.open("a") as file:
        file.write('{"prompt": [1], "outp')
    assert read_samples(path, partial=True) == (HEADER, SAMPLES[:2])
    with pytest.raises(ValueError, match="no file"):
        read_samples(tmp_path / "nothing.jsonl")
    parquet = tmp_path / "samples.parquet"
    write(parquet, HEADER, SAMPLES)
    parquet.write_bytes(parquet.read_bytes()[:-20])
    with pytest.raises(ValueError, match="no readable Parquet file"):
        read_samples(parquet)


def test_places_follow_the_rounds() -> None:
    place, before = Sample((), (5, 6, 7, 8), (2, 1, 1), (1, 2, 2), (1, 0, 1)).places()
    assert place.tolist() == [0, 1, 0, 0]
    assert before.tolist() == [-1, -1, 1, 0]
    assert Sample((), (5, 6)).places()[0].tolist() == [-1, -1]
    sizes_only, unknown = Sample((), (5, 6), (2,)).places()
    assert sizes_only.tolist() == [0, 1]
    assert unknown.tolist() == [-1, -1]
    with pytest.raises(ValueError, match="2 rounds of drafted for 1 of emitted"):
        Sample((), (5,), (1,), (1, 2), (0,))


def test_text_after_an_end_of_sequence() -> None:
    assert after_end([Sample((), (1, 2))], [2]) is None
    assert "sample 7 goes on" in str(after_end([Sample((), (2, 1))], [2], 7))


def test_contexts_tell_prompts_and_prefixes_apart() -> None:
    rows = np.log(np.full((2, 3), 1 / 3))
    made = chunk([Sample((1,), (0, 2)), Sample((2,), (0, 2)), Sample((1,), (0, 1))], [rows] * 3)
    keys = made.context.reshape(3, 2)
    assert keys[0, 0] == keys[2, 0] != keys[1, 0]
    assert keys[0, 1] == keys[2, 1] != keys[1, 1]
    assert len(set(keys.ravel().tolist())) == 4
    with pytest.raises(ValueError, match="sample 4 has 1 output tokens and 2 rows"):
        chunk([Sample((), (0,))], [rows], numbers=[4])


def text_sampler(weights: list[float]) -> Callable[[int, int], list[list[int]]]:
    def draw(count: int, seed: int) -> list[list[int]]:
        rng = np.random.default_rng(seed)
        return rng.choice(3, size=(count, 6), p=weights).tolist()

    return draw


def test_assert_lossless() -> None:
    """False failures have probability 1e-6; a mean shift of 0.1 is found at once."""
    passed = assert_lossless(text_sampler([0.5, 0.3, 0.2]), TARGET)
    assert passed.lossless
    assert passed.tokens == 12_000
    assert "no deviation found in 12000 tokens of 2000 samples" in passed.verdict
    assert max(passed.detectable.values()) < 0.05
    with pytest.raises(AssertionError, match="NOT LOSSLESS: p = "):
        assert_lossless(text_sampler([0.4, 0.4, 0.2]), TARGET)
    biased = audit_sampler(text_sampler([0.4, 0.4, 0.2]), TARGET)
    assert biased.tokens < 12_000
    assert 0 < biased.mean_tv_lower < 0.1
    assert json.dumps(biased.document()["curve"])


def test_targets_of_every_kind_score_alike() -> None:
    table = TableModel({"": ["1/3", "2/3"], "0": ["1/2", "1/2"], "1": ["1/4", "3/4"]})
    as_model = scorer(table)((0,), (1,))
    as_source = scorer(tabulate(MarkovModel(["1/2", "1/2"]), 0))
    np.testing.assert_allclose(np.exp(as_model), [[0.5, 0.5]])
    assert scorer(lambda prompt, output: as_model) is not None
    with pytest.raises(ValueError, match="is no target"):
        scorer(3)  # type: ignore[arg-type]
    del as_source


def test_samplers_that_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="outside the target's vocabulary of 3"):
        assert_lossless(lambda count, seed: [[7]] * count, lambda p, o: np.log([[0.5, 0.3, 0.2]]))
    with pytest.raises(ValueError, match="gave no tokens"):
        assert_lossless(lambda count, seed: [[]], TARGET)
    with pytest.raises(ValueError, match="is no law"):
        assert_lossless(lambda count, seed: [[0]], lambda p, o: np.log([[0.5, 0.3, 0.3]]))
    with pytest.raises(AssertionError, match="token 1 has target probability 0"):
        assert_lossless(lambda count, seed: [[1]], MarkovModel(["1", "0"]))
    with pytest.raises(AssertionError, match="goes on after the end of sequence 0"):
        assert_lossless(lambda count, seed: [[0, 1]] * count, TARGET, eos=[0])
    with pytest.raises(ValueError, match="level is 2"):
        Audit(2)


def test_states_are_taken_up_where_they_were_left(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    outputs = [Sample((1,), tuple(row), (3,), (2,), (2,)) for row in rng.choice(3, (400, 3))]
    score, path = scorer(TARGET), tmp_path / "state.npz"
    whole, half = Audit(places=True), Audit(places=True)
    for audit, part in ((whole, outputs[:200]), (half, outputs[:200])):
        audit.update(chunk(part, [score((), s.output) for s in part]))
    checkpoint.save(path, half, 200, {"run": 1})
    taken, done = checkpoint.load(path, {"run": 1})
    assert done == 200
    rest = outputs[done:]
    for audit in (whole, taken):
        rows = [score((), s.output) for s in rest]
        audit.update(chunk(rest, rows, numbers=range(done, 400)))
    assert result(taken) == result(whole)
    with pytest.raises(ValueError, match=r"state of another audit \(run differ\)"):
        checkpoint.load(path, {"run": 2})
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match="no readable state"):
        checkpoint.load(path, {"run": 1})


def test_greedy_tokens_are_judged_by_their_gap() -> None:
    """Scores in bfloat16 near 10 have units of 1/16: a gap of 1/2 is a near tie, 1 is not."""
    assert ulp(np.array([10.0, 1.0, 0.3]), "bfloat16").tolist() == [1 / 16, 1 / 128, 1 / 512]
    assert ulp(np.array([10.0]), "float32")[0] == 2.0**-20
    scores = np.array([[10.0, 9.5, 0.0]] * 3 + [[10.0, 10.0, 0.0]])
    audit, numbers = GreedyAudit("bfloat16"), np.arange(4)
    audit.update(scores, np.array([0, 1, 2, 1]), numbers * 0, numbers)
    assert [audit.counts[kind] for kind in ("argmax", "tie", "near", "wrong")] == [1, 1, 1, 1]
    found = greedy_result(audit, 1)
    assert not found.lossless
    assert "sample 0, position 2: token 2 lies 10 below the best, 0" in found.verdict
    assert found.margins["min"] == 0.0
    assert found.margins["median"] == 8.0
    strict = GreedyAudit("float32")
    strict.update(scores[1:2], np.array([1]), numbers[:1], numbers[:1])
    assert strict.counts["wrong"] == 1


def test_rounding_of_two_sums_is_a_near_tie() -> None:
    """The same row in float32 and in bfloat16: another argmax, and no fault."""
    exact = np.array([[10.0, 10.03, 9.0]], dtype=np.float32)
    audit, zero = GreedyAudit("bfloat16"), np.zeros(1, dtype=np.int64)
    audit.update(exact, np.array([0]), zero, zero)
    assert audit.counts["near"] == 1
    with pytest.raises(ValueError, match="hold a NaN"):
        audit.update(exact * np.nan, np.array([0]), zero, zero)
    with pytest.raises(ValueError, match="another tokenizer"):
        audit.update(exact, np.array([3]), zero, zero)
    with pytest.raises(ValueError, match="unknown dtype"):
        GreedyAudit("float8")
