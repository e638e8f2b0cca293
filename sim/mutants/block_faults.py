"""Faults of block verification, of its greedy form, and of several drafts."""

from __future__ import annotations

from sim.mutants import _block_programs as exact
from sim.mutants import _blocks as array
from sim.mutants._parts import block_rule, changed
from sim.mutants.mutant import Mutant, spoiled

FAULTS: tuple[Mutant, ...] = (
    Mutant(
        "stale_row",
        "block",
        "every target row after the first is the row before it",
        ("vllm-project/vllm#41768", "HabanaAI/vllm-fork#1780"),
        spoiled("block", "stale_row", changed("block", target=array.stale)),
        exact.stale,
        gamma=3,
    ),
    Mutant(
        "token_residual_in_block",
        "block",
        "the residual lacks the factor W: (p - q)_+",
        ("vllm-project/vllm-ascend#7807",),
        spoiled("block", "token_residual_in_block", block_rule(scaled=False)),
        exact.token_residual,
        gamma=3,
    ),
    Mutant(
        "unscaled_threshold_in_block",
        "block",
        "the residual mass of the tests lacks the factor W",
        ("vllm-project/vllm-ascend#7807",),
        spoiled("block", "unscaled_threshold_in_block", block_rule(tests=array.unscaled_tests)),
        exact.unscaled_threshold,
        gamma=3,
    ),
    Mutant(
        "first_failure_in_block",
        "block",
        "tests stop at the first failure instead of the deepest success",
        ("vllm-project/vllm-ascend#11985",),
        spoiled("block", "first_failure_in_block", block_rule(array.first_failure)),
        exact.first_failure,
        gamma=3,
    ),
    Mutant(
        "greedy_without_carry",
        "greedy_block",
        "later targets are not modified",
        ("vllm-project/vllm#46781",),
        spoiled("greedy_block", "greedy_without_carry", array.without_carry),
        exact.without_carry,
        gamma=3,
    ),
    Mutant(
        "greedy_carry_cut",
        "greedy_block",
        "the modification ends one position early",
        (),
        spoiled("greedy_block", "greedy_carry_cut", array.carry_cut),
        exact.carry_cut,
        gamma=3,
    ),
    Mutant(
        "kseq_small_rho",
        "kseq",
        "rho = 1: the residual is negative and clipped",
        (),
        spoiled("kseq", "kseq_small_rho", array.rho_one),
        exact.rho_one,
    ),
    Mutant(
        "kseq_copies_skipped",
        "kseq",
        "copies of a tested draft are not tried again",
        ("NJUNLP/MCSD#5",),
        spoiled("kseq", "kseq_copies_skipped", array.copies_skipped),
        exact.copies_skipped,
    ),
)
