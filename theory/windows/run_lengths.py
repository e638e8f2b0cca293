"""Fixed window against the oracle for any law of the run length, and where the bound breaks.

Let N = tau + 1 be the length of a round under an unlimited window, s_i = P(N > i) its survival
(s_0 = 1) and Nbar its mean. Then S_gamma = (s_0 + ... + s_gamma)/(1 + c gamma) and S_or =
Nbar/(1 + c (Nbar - 1)).

The bound oracle / best fixed < e/(e - 1) of ``theory.windows.ratio`` holds for every N that is NBUE
(new better than used in expectation: E[N - n | N > n] <= Nbar for all n; in particular for
acceptance that does not increase with depth), because then E min(N, Nbar) >= (1 - 1/e) Nbar.
Without it the ratio is unbounded up to 1/c: a mixture of easy and hard rounds has acceptance that
rises with depth, e.g. s_i = 1/(i + 1) (:func:`harmonic`). Derived here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from theory.fields import Array, Number

Survival = NDArray[np.float64] | Array
"""s_0 .. s_{M-1}; zero beyond."""


def fixed(survival: Survival, c: Number) -> Array:
    """S_gamma for gamma = 0 .. M - 1."""
    return np.asarray(np.cumsum(survival) / (1 + c * np.arange(len(survival))))


def oracle(survival: Survival, c: Number) -> Number:
    """S_or."""
    mean = survival.sum()
    return mean / (1 + c * (mean - 1))


def is_nbue(survival: Survival) -> bool:
    """Whether the remaining length never exceeds Nbar in expectation, whatever was survived."""
    tails = np.cumsum(survival[::-1])[::-1]
    return bool((tails <= survival * tails[0] * (1 + 1e-12 * (survival.dtype != object))).all())


def harmonic(cut: int) -> NDArray[np.float64]:
    """s_i = 1/(i + 1) for i < ``cut``: a mixture over alpha uniform in (0, 1), cut off."""
    return 1.0 / np.arange(1, cut + 1)
