"""How engines test losslessness in public, re-implemented: what such tests can see, and what not.

Each design gets texts sampled by one decoder on a pair of context-free laws (one row p, one row q
everywhere, as these tests have it) and says whether it would have failed.

* ``ratio_ladder``: the L2 distance of the empirical law to p must shrink from 10 to 100,000
  samples more than 20 times as much as that to random laws (vLLM v1, test_rejection_sampler.py).
* ``position_chi2``: chi-square of every position, threshold df + 10 sqrt(2 df), n = 200,000
  (vLLM model runner v2, test_rejection_sampler_utils.py).
* ``mean_length``: the mean accepted length is at least the expected one less 0.01 (same file).
* ``tv_cutoff``: TV of the first token below 0.008, n = 65,536 (vLLM model runner v2,
  test_gpu_rejection_sampler_dist.py).
* ``order``: likelier tokens appear more often (transformers, the law test of #34553).
* ``cosine``: cosine similarity with p above 0.99 (flashinfer, tests/utils/test_sampling.py).
* ``kl_difference``: KL to p differs by less than 0.01 from that of plain sampling, n = 50,000
  (TensorRT-LLM, test_torch_rejection_sampling.py).
* ``tv_bound``: TV of the second token below the bound of Bretagnolle, Huber and Carol, n = 4000
  (acceptrate, distributional.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import special

from sim.losslessness.observations import Floats, Ints

LARGEST = 200_000
"""Texts that the largest design needs."""
BOUND_ERROR = 1e-3


class Texts(NamedTuple):
    """What a design looks at.

    tokens: [n, L]. accepted: [n] tau of the first rounds. p: [V] the target's row.
    expected: E[tau] of a correct decoder.
    """

    tokens: Ints
    accepted: Ints
    p: Floats
    expected: float


def ratio_ladder(texts: Texts, rng: Generator) -> bool:
    """Whether distances shrink too little."""
    others = special.softmax(rng.random((100, texts.p.size)), axis=1)
    empirical = [_frequencies(texts, 0, n) for n in (10, 100_000)]
    to_target = [float(np.linalg.norm(law - texts.p)) for law in empirical]
    to_others = [float(np.linalg.norm(others - law)) for law in empirical]
    gain = to_target[0] / max(to_target[1], 1e-300)
    return not gain > 20 * to_others[0] / to_others[1]


def position_chi2(texts: Texts, rng: Generator) -> bool:
    """Whether the statistic of some position exceeds df + 10 sqrt(2 df)."""
    n, p = min(len(texts.tokens), LARGEST), texts.p
    df = int((p > 0).sum()) - 1
    for position in range(texts.tokens.shape[1]):
        found = n * _frequencies(texts, position, n)
        if (found[p == 0] > 0).any():
            return True
        statistic = float(((found - n * p)[p > 0] ** 2 / (n * p[p > 0])).sum())
        if statistic > df + 10 * math.sqrt(2 * df):
            return True
    return False


def mean_length(texts: Texts, rng: Generator) -> bool:
    """Whether too little is accepted."""
    return bool(texts.accepted.mean() < texts.expected - 0.01)


def tv_cutoff(texts: Texts, rng: Generator) -> bool:
    """Whether the first token's TV reaches 0.008."""
    return _tv(_frequencies(texts, 0, 65_536), texts.p) >= 0.008


def order(texts: Texts, rng: Generator) -> bool:
    """Whether some token appears at least as often as a likelier one."""
    counts = _frequencies(texts, 0, 100_000)[np.argsort(-texts.p, kind="stable")]
    return bool((np.diff(counts) >= 0).any())


def cosine(texts: Texts, rng: Generator) -> bool:
    """Whether the cosine similarity is 0.99 or less."""
    law, p = _frequencies(texts, 0, LARGEST), texts.p
    return bool(law @ p <= 0.99 * np.linalg.norm(law) * np.linalg.norm(p))


def kl_difference(texts: Texts, rng: Generator) -> bool:
    """Whether the KL to p differs by 0.01 from that of plain sampling."""
    plain = rng.multinomial(50_000, texts.p) / 50_000
    found = _frequencies(texts, 0, 50_000)
    divergence = [float(special.rel_entr(law, texts.p).sum()) for law in (found, plain)]
    return not abs(divergence[0] - divergence[1]) < 0.01


def tv_bound(texts: Texts, rng: Generator) -> bool:
    """Whether the second token's TV exceeds the bound."""
    n, outcomes = 4000, texts.p.size
    distance = math.sqrt(2 * (outcomes * math.log(2) - math.log(BOUND_ERROR)) / n)
    return _tv(_frequencies(texts, 1, n), texts.p) > distance / 2


DESIGNS: Mapping[str, Callable[[Texts, Generator], bool]] = {
    design.__name__: design
    for design in (
        ratio_ladder,
        position_chi2,
        mean_length,
        tv_cutoff,
        order,
        cosine,
        kl_difference,
        tv_bound,
    )
}


def _frequencies(texts: Texts, position: int, n: int) -> Floats:
    column = texts.tokens[:n, position]
    return np.asarray(np.bincount(column, minlength=texts.p.size) / len(column), dtype=np.float64)


def _tv(law: Floats, p: Floats) -> float:
    return float(np.abs(law - p).sum() / 2)
