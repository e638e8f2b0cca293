"""Faults inside the token rule: acceptance, residual, bonus."""

from __future__ import annotations

import operator

from sim.mutants import _programs as exact
from sim.mutants import _token as array
from sim.mutants._parts import token_rule
from sim.mutants.mutant import Mutant, spoiled

RULE = "token"

FAULTS: tuple[Mutant, ...] = (
    Mutant(
        "always_accept",
        RULE,
        "every drafted token is accepted (constant uniform)",
        ("vllm-project/vllm-ascend#13766",),
        spoiled(RULE, "always_accept", token_rule(tests=array.always)),
        exact.token_program(accept=lambda p, q, x: 1),
    ),
    Mutant(
        "residual_from_target",
        RULE,
        "after a rejection the token is redrawn from p",
        ("eth-sri/language-model-arithmetic#14", "ShopeeLLM/Spec-RL#14"),
        spoiled(RULE, "residual_from_target", token_rule(array.from_target)),
        exact.token_program(correct=lambda p, q, x, h: p),
    ),
    Mutant(
        "residual_softmax",
        RULE,
        "the correction is drawn from softmax((p - q)_+)",
        ("huggingface/transformers#28508",),
        spoiled(RULE, "residual_softmax", token_rule(array.softmax_of_difference)),
        exact.token_program(correct=exact.softmax_of_residual),
        exact=False,
    ),
    Mutant(
        "residual_at_index",
        RULE,
        "q is subtracted at the drafted index only",
        ("SafeAILab/EAGLE#20", "xLLM-AI/xllm#2175"),
        spoiled(RULE, "residual_at_index", token_rule(array.difference_at_index)),
        exact.token_program(correct=exact.subtract_at_index),
    ),
    Mutant(
        "residual_clamped",
        RULE,
        "the residual is clamped to a tiny positive number (the precision of 16-bit floats), so "
        "that tokens of probability zero are emitted",
        ("jaymody/speculative-sampling#5", "lablup/mlxcel#992"),
        spoiled(RULE, "residual_clamped", token_rule(array.clamped)),
        exact.token_program(correct=exact.clamped_residual),
        pair="sparse",
    ),
    Mutant(
        "target_overwritten",
        RULE,
        "p is overwritten by its residual before the ratios are taken",
        ("vllm-project/vllm-ascend#2881",),
        spoiled(RULE, "target_overwritten", token_rule(tests=array.corrupted_tests)),
        exact.token_program(accept=exact.corrupted_ratio),
    ),
    Mutant(
        "bonus_from_draft",
        RULE,
        "the bonus token is drawn from a draft row",
        (),
        spoiled(RULE, "bonus_from_draft", token_rule(array.bonus_from_draft)),
        exact.token_program(bonus=lambda p, q: q),
    ),
    Mutant(
        "ensemble_unmarked",
        RULE,
        "verification against (p + q)/2, bonus from p, sold as lossless",
        ("huggingface/transformers#45979", "youssofal/MTPLX#485"),
        spoiled(RULE, "ensemble_unmarked", token_rule(tests=array.half_ensemble_tests)),
        exact.token_program(accept=exact.half_ensemble_ratio),
    ),
    Mutant(
        "ensemble_bonus",
        RULE,
        "verification against (p + q)/2, bonus from the mixture too",
        ("huggingface/transformers#45979",),
        spoiled(RULE, "ensemble_bonus", token_rule()),
        exact.token_program(),
        mixed=True,
    ),
    Mutant(
        "closed_comparison",
        RULE,
        "a test passes at u <= h, so a token of probability zero passes at u = 0",
        ("sgl-project/sglang#35771", "vllm-project/vllm#23803"),
        spoiled(RULE, "closed_comparison", token_rule(passes=operator.le)),
        exact.token_program(),
        found_by="ties",
    ),
    Mutant(
        "closed_coarse_coin",
        RULE,
        f"a test passes at u <= h with a uniform of {exact.COIN_BITS} bits, as bfloat16 has",
        ("vllm-project/vllm#23803", "xLLM-AI/xllm#2175"),
        spoiled(
            RULE,
            "closed_coarse_coin",
            token_rule(passes=operator.le, coins=array.coarse_coins),
        ),
        exact.token_program(accept=exact.coarse_closed_coin),
        pair="sparse",
    ),
    Mutant(
        "draft_as_point_mass",
        RULE,
        "q is replaced by 1 at the drafted token: lossless, but accepts sum p q instead of "
        "sum min(p, q)",
        ("vllm-project/vllm#40819", "vllm-project/vllm-ascend#7603"),
        spoiled(
            RULE,
            "draft_as_point_mass",
            token_rule(array.point_mass_residual, array.point_mass_tests),
        ),
        exact.token_program(accept=lambda p, q, x: p[x], correct=exact.without_rejected),
        found_by="length",
    ),
)
