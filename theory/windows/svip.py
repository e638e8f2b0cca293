"""SVIP (arXiv 2411.18462): stop after a token drawn from a row of high entropy; it is kept.

The overlap of a row is at least about 1 - sqrt(scale * entropy); drafting ends once
sqrt(scale * entropy) exceeds the threshold. Entropy is that of the row as given: with one-hot rows
(temperature 0) it is 0 and the rule never stops, so hand it the unscaled softmax.
"""

from __future__ import annotations

import math

from theory.fields import Number
from theory.laws import entropy
from theory.models import Prefix, Rows
from theory.windows.rule import Rule
from theory.windows.scalars import threshold as number

SCALE = "3/20"


def rule(threshold: Number = "3/10", scale: Number = SCALE) -> Rule:
    """Stop after a token whose row has sqrt(``scale`` Ent(q)) > ``threshold``."""
    limit, factor = float(number(threshold)), float(number(scale, "scale"))

    def stop(path: Prefix, draft: Rows) -> bool:
        return bool(path) and math.sqrt(factor * float(entropy(draft(path[:-1])))) > limit

    return stop
