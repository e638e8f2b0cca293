"""Faulty verifiers, each with a fault seen in public engines: what a losslessness test must find.

A mutant has the signature of the verifier it spoils (``sim.verifiers``). ``found_by`` names the
evidence that exposes it:

* ``law``: the joint law of the first tokens differs from the target's;
* ``length``: the law is right, only the accepted length is wrong;
* ``ties``: wrong only when a uniform meets a threshold exactly (half-open against closed).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace

from sim.mutants import _blocks, _token
from sim.mutants._parts import Mutant, block_rule, changed, token_rule
from sim.verifiers import VERIFIERS, ArrayVerifier, Verdict

__all__ = ["MUTANTS", "Mutant"]


def _spoiled(rule: str, name: str, verify: Callable[..., Verdict]) -> ArrayVerifier:
    return replace(VERIFIERS[rule], name=name, verify=verify, survival=None)


_FAULTS: tuple[tuple[str, str, str, Callable[..., Verdict], tuple[str, ...]], ...] = (
    (
        "always_accept",
        "token",
        "every drafted token is accepted (constant uniform)",
        token_rule(tests=_token.always),
        ("vllm-project/vllm-ascend#13766",),
    ),
    (
        "residual_from_target",
        "token",
        "after a rejection the token is redrawn from p",
        token_rule(_token.from_target),
        ("eth-sri/language-model-arithmetic#14", "ShopeeLLM/Spec-RL#14"),
    ),
    (
        "residual_softmax",
        "token",
        "the correction is drawn from softmax((p - q)_+)",
        token_rule(_token.softmax_of_difference),
        ("huggingface/transformers#28508",),
    ),
    (
        "residual_at_index",
        "token",
        "q is subtracted at the drafted index only",
        token_rule(_token.difference_at_index),
        ("SafeAILab/EAGLE#20", "xLLM-AI/xllm#2175"),
    ),
    (
        "reused_uniform",
        "token",
        "the acceptance uniform also draws the correction",
        token_rule(reuse_uniform=True),
        ("vllm-project/vllm#47386", "vllm-project/vllm#54282"),
    ),
    (
        "bonus_from_draft",
        "token",
        "the bonus token is drawn from a draft row",
        token_rule(_token.bonus_from_draft),
        (),
    ),
    (
        "raw_draft_law",
        "token",
        "the ratio uses the unfiltered q, the draft the filtered one",
        changed("token", draft=_token.softened),
        ("huggingface/transformers#47932", "deepseek-ai/DeepSpec#31"),
    ),
    (
        "missing_temperature",
        "token",
        "the target rows of verification lack the temperature",
        changed("token", target=_token.untempered),
        ("ohdearquant/lattice#388",),
    ),
    (
        "argmax_rows",
        "token",
        "draft rows compare with the argmax of p, the bonus row is sampled",
        changed("token", target=_token.argmax_rows),
        ("ROCm/ATOM#2318", "Luce-Org/lucebox#374"),
    ),
    (
        "shared_stream",
        "token",
        "all requests of a batch read one stream of uniforms",
        _token.shared_stream,
        ("vllm-project/vllm#6038", "NVIDIA/TensorRT-LLM#19487"),
    ),
    (
        "stale_row",
        "block",
        "every target row after the first is the row before it",
        changed("block", target=_blocks.stale),
        ("vllm-project/vllm#41768", "HabanaAI/vllm-fork#1780"),
    ),
    (
        "token_residual_in_block",
        "block",
        "the residual lacks the factor W: (p - q)_+",
        block_rule(scaled=False),
        ("vllm-project/vllm-ascend#7807",),
    ),
    (
        "first_failure_in_block",
        "block",
        "tests stop at the first failure instead of the deepest success",
        block_rule(_blocks.first_failure),
        ("vllm-project/vllm-ascend#11985",),
    ),
    (
        "greedy_without_carry",
        "greedy_block",
        "later targets are not modified",
        _blocks.without_carry,
        ("vllm-project/vllm#46781",),
    ),
    (
        "greedy_carry_cut",
        "greedy_block",
        "the modification ends one position early",
        _blocks.carry_cut,
        (),
    ),
    (
        "kseq_small_rho",
        "kseq",
        "rho = 1: the residual is negative and clipped",
        _blocks.rho_one,
        (),
    ),
    (
        "kseq_copies_skipped",
        "kseq",
        "copies of a tested draft are not tried again",
        _blocks.copies_skipped,
        ("NJUNLP/MCSD#5",),
    ),
)

MUTANTS: Mapping[str, Mutant] = {
    **{
        name: Mutant(name, rule, fault, _spoiled(rule, name, verify), references)
        for name, rule, fault, verify, references in _FAULTS
    },
    "closed_comparison": Mutant(
        "closed_comparison",
        "token",
        "a test passes at u <= h, so a token of probability zero passes at u = 0",
        _spoiled("token", "closed_comparison", token_rule(passes=operator.le)),
        ("sgl-project/sglang#35771", "vllm-project/vllm#23803"),
        "ties",
    ),
    "draft_as_point_mass": Mutant(
        "draft_as_point_mass",
        "token",
        "q is replaced by 1 at the drafted token: lossless, but accepts sum p q instead of "
        "sum min(p, q)",
        _spoiled(
            "token",
            "draft_as_point_mass",
            token_rule(_token.point_mass_residual, _token.point_mass_tests),
        ),
        ("vllm-project/vllm#40819", "vllm-project/vllm-ascend#7603"),
        "length",
    ),
}
