"""SpecDec++ (arXiv 2405.19715): stop once some rejection has become likely.

With estimates a_i of acceptance, drafting ends when 1 - a_1 .. a_{i-1} > threshold. The estimate
of a token is read off the draft's hidden state after feeding it, that is one step later: the
decision lags one token, and that token is kept. At least ``floor`` tokens are drafted; the
official code uses 2, and 20 as the cap.
"""

from __future__ import annotations

from theory.fields import Number
from theory.models import Prefix, Rows
from theory.windows.estimators import Estimator, survival, true_acceptance
from theory.windows.rule import Rule
from theory.windows.scalars import below, probability


def rule(
    threshold: Number = "3/10", acceptance: Estimator = true_acceptance, floor: int = 2
) -> Rule:
    """Stop when the estimated probability of a rejection before the last token is too large.

    Raises:
        ValueError: threshold outside [0, 1], or floor below 1.
    """
    limit = 1 - probability(threshold, "threshold")
    if floor < 1:
        raise ValueError(f"floor {floor} lets the window close for good; use 1 or more")

    def stop(path: Prefix, draft: Rows) -> bool:
        if len(path) < floor:
            return False
        return below(survival(acceptance(path, draft)[:-1]), limit)

    return stop
