"""PACER (arXiv 2602.01274): draft in blocks, stop after a block of low estimated acceptance.

After each block of b tokens the mean of its acceptance estimates is compared with a threshold:
below it drafting stops and **all** tokens, the failing block included, go to the target; otherwise
the threshold grows by a factor and the next block is drafted. The paper does not state b, the
threshold or the growth; the defaults here are ours.

What they should be, derived here. With survival surv_k of the k tokens so far, another block is
worth its time iff

    surv_k * E[a_1 + a_1 a_2 + ... + a_1 .. a_b] >= lambda (b (c + d) + e) ,

lambda being the long-run rate in tokens per unit of time. Taking b times the block mean for the
expectation and alpha^k for the survival, this is PACER's rule with

    threshold lambda (c + d + e/b) ,   growth alpha^(-b) :

multiplicative growth is the first-order form of optimal stopping (``theory.windows.optimal``
uses the running survival itself). These values ask, of a block already drafted, whether it
was worth it, so the window runs one block past the first-order rule; asking about the *next* block
takes one more factor of growth in the first threshold. A ceiling below 1 keeps the grown threshold
from ending every round after a fixed number of blocks.
"""

from __future__ import annotations

import math
from fractions import Fraction

from theory.fields import Number
from theory.inputs import whole
from theory.models import Prefix, Rows
from theory.windows.costs import Costs
from theory.windows.estimators import Estimator, true_acceptance
from theory.windows.rule import Rule
from theory.windows.scalars import below, common, probability
from theory.windows.scalars import threshold as number


def rule(
    block: int = 4,
    threshold: Number = "1/2",
    growth: Number = "5/4",
    ceiling: Number = "19/20",
    acceptance: Estimator = true_acceptance,
) -> Rule:
    """Stop after a block whose mean estimate is below the grown threshold.

    Args:
        block: tokens per block (b), >= 1; ``threshold``: of the first block, in [0, 1];
            ``growth``: factor per block, >= 1; ``ceiling``: largest threshold.

    Raises:
        ValueError: a setting outside its range.
    """
    block = whole(block, "block")
    first, most = probability(threshold, "threshold"), probability(ceiling, "ceiling")
    factor = number(growth, "growth")
    if factor < 1:
        raise ValueError(f"growth {growth!r} loosens the threshold with depth; use 1 or more")

    def stop(path: Prefix, draft: Rows) -> bool:
        blocks, rest = divmod(len(path), block)
        if blocks == 0 or rest:
            return False
        estimates = acceptance(path, draft)[-block:]
        mean = sum(estimates[1:], start=estimates[0]) / block
        return below(mean, grown(first, factor, most, blocks))

    return stop


def grown(first: Fraction, factor: Fraction, most: Fraction, blocks: int) -> Fraction:
    """The threshold of the given block, counted from 1."""
    return min(first * factor ** (blocks - 1), most)


def best_threshold(rate: Number, costs: Costs) -> Number:
    """lambda (c + d + e/b): the threshold of the first block, derived in the module's text."""
    field, (lam, draft, verify, overhead) = common(rate, costs.draft, costs.verify, costs.overhead)
    return field.public(lam * (draft + verify + overhead / costs.block))


def best_growth(alpha: Number, block: int) -> Number:
    """alpha^(-b): how fast survival falls with each block."""
    field, (a,) = common(alpha)
    return field.public(1 / a**block)


def most_blocks(threshold: float, growth: float) -> int:
    """Blocks after which a threshold without ceiling has reached 1: every round ends there."""
    return math.ceil(math.log(1 / threshold) / math.log(growth))


def best_block(alpha: float, costs: Costs) -> float:
    """Block size (real) that a perfect pre-verifier wants under a small overhead e.

    b = sqrt(2e / ((c + d)(-ln alpha))), the small-e optimum of ``iid.visible`` with blocks.
    """
    step = float(costs.draft) + float(costs.verify)
    return math.sqrt(2 * float(costs.overhead) / (step * -math.log(alpha)))
