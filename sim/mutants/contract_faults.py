"""Faults around a correct rule: what it is told, the random numbers, caches, windows and stops."""

from __future__ import annotations

from sim.mutants import _programs as exact
from sim.mutants import _token as array
from sim.mutants._parts import changed, token_rule
from sim.mutants.mutant import Mutant, spoiled
from sim.verifiers import VERIFIERS
from theory.laws import top_k
from theory.models import Prefix
from theory.verifiers import token

RULE = "token"
TOKEN = VERIFIERS[RULE].verify
EOS = 0
"""The token that should end a text in ``eos_inside_block``."""


def trimmed_too_far(prefix: Prefix) -> Prefix:
    """The oldest token of the text is missing from the cache."""
    return prefix[1:]


def other_request(prefix: Prefix) -> Prefix:
    """The first token's cache entry is that of a request that began with the next token id."""
    return ((prefix[0] + 1) % 3, *prefix[1:]) if prefix else prefix


FAULTS: tuple[Mutant, ...] = (
    Mutant(
        "raw_draft_law",
        RULE,
        "the ratio uses the unfiltered q, the draft the filtered one",
        ("huggingface/transformers#47932", "deepseek-ai/DeepSpec#31"),
        spoiled(RULE, "raw_draft_law", changed(RULE, draft=array.softened)),
        exact.on_rows(token.program, draft=exact.softened_row),
    ),
    Mutant(
        "top_k_after_recording",
        RULE,
        "drafts are drawn from the two likeliest tokens, q was recorded before",
        ("huggingface/transformers#47932", "vllm-project/vllm#40269"),
        spoiled(RULE, "top_k_after_recording", TOKEN),
        token.program,
        drawn=lambda row: top_k(row, 2),
    ),
    Mutant(
        "argmax_draft_soft_law",
        RULE,
        "drafts are the argmax of q, the ratio uses the soft q",
        ("jaymody/speculative-sampling#3", "z-lab/dflash#74", "antirez/ds4#482"),
        spoiled(RULE, "argmax_draft_soft_law", TOKEN),
        token.program,
        drawn=exact.argmax_row,
    ),
    Mutant(
        "other_source_law",
        RULE,
        "in a hybrid of two drafters the ratio uses the q of the one that did not draft",
        ("vllm-project/vllm#24344",),
        spoiled(RULE, "other_source_law", TOKEN),
        token.program,
        drawn=lambda row: row[::-1],
    ),
    Mutant(
        "missing_temperature",
        RULE,
        "the target rows of verification lack the temperature",
        ("ohdearquant/lattice#388",),
        spoiled(RULE, "missing_temperature", changed(RULE, target=array.untempered)),
        exact.on_rows(token.program, target=exact.square_root_row),
        exact=False,
    ),
    Mutant(
        "argmax_rows",
        RULE,
        "draft rows compare with the argmax of p, the bonus row is sampled",
        ("ROCm/ATOM#2318", "Luce-Org/lucebox#374"),
        spoiled(RULE, "argmax_rows", changed(RULE, target=array.argmax_rows)),
        exact.argmax_at_drafts(token.program, gamma=2),
    ),
    Mutant(
        "reused_uniform",
        RULE,
        "the acceptance uniform also draws the correction",
        ("vllm-project/vllm#54282",),
        spoiled(RULE, "reused_uniform", token_rule(last_coin=array.rejecting_coin)),
        exact.token_program(correct=exact.from_rejecting_coin),
    ),
    Mutant(
        "draft_noise_accepts",
        RULE,
        "the uniform that drew a draft also tests it",
        ("vllm-project/vllm#47386",),
        spoiled(RULE, "draft_noise_accepts", token_rule(coins=array.coins_of_draft)),
        exact.token_program(accept=exact.coin_of_draft),
    ),
    Mutant(
        "draft_noise_corrects",
        RULE,
        "the uniform that drew the rejected draft also draws the correction",
        ("vllm-project/vllm#47386", "vllm-project/vllm#54282"),
        spoiled(RULE, "draft_noise_corrects", token_rule(last_coin=array.last_coin_of_draft)),
        exact.token_program(correct=exact.from_draft_noise),
    ),
    Mutant(
        "shared_stream",
        RULE,
        "all requests of a batch read one stream of uniforms",
        ("vllm-project/vllm#6038", "NVIDIA/TensorRT-LLM#19487"),
        spoiled(RULE, "shared_stream", array.shared_stream),
        token.program,
        found_by="dependence",
    ),
    Mutant(
        "unsure_dropped",
        RULE,
        "drafted tokens of low probability are dropped after they were drawn",
        ("ggml-org/llama.cpp#27694",),
        spoiled(RULE, "unsure_dropped", array.until_unsure),
        exact.token_program(cut=exact.until_unsure),
    ),
    Mutant(
        "cache_of_other_request",
        RULE,
        "the target reads the cache entry of another request at the first position",
        ("ohdearquant/lattice#243", "vllm-project/vllm#9730"),
        spoiled(RULE, "cache_of_other_request", TOKEN),
        token.program,
        read=other_request,
    ),
    Mutant(
        "cache_trimmed_too_far",
        RULE,
        "the target no longer sees the first token of the text",
        ("lablup/mlxcel#994", "ml-explore/mlx-lm#1109"),
        spoiled(RULE, "cache_trimmed_too_far", TOKEN),
        token.program,
        read=trimmed_too_far,
    ),
    Mutant(
        "eos_inside_block",
        RULE,
        "an end of sequence is seen only at the end of a round",
        ("LostRuins/koboldcpp#1276", "sgl-project/sglang#31599"),
        spoiled(RULE, "eos_inside_block", array.ends_only_at_last(EOS)),
        exact.ends_only_at_last(token.program, EOS),
        eos=EOS,
    ),
)
