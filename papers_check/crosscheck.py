"""The cross-check: is what theory predicts what simulation and the decoder do?

For every pair of models and every verifier, three witnesses that share no verification code:

* exact: the closed form of E[tau] over the rows of both models, and the enumerated output law;
* simulated: the array function on those rows;
* decoded: the running decoder on the networks that the rows were read from.

A row agrees when both intervals contain the exact length and neither law test rejects. Each
interval and each test is wrong with probability at most ``ERROR``, so a false alarm in a report
of a thousand rows is a one-in-a-hundred-thousand event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.estimators import Interval, expected_accepted
from sim.losslessness.joint import JointResult, joint_test
from sim.rounds import simulate_generations, simulate_rounds
from sim.rows import string_law, string_numbers
from sim.verifiers import VERIFIERS
from theory import catalogue
from theory.analysis import Analysis, analyse
from theory.fields import Number
from theory.models import Model

ERROR = 1e-9
"""False-alarm probability of one interval or test."""

Ints = NDArray[np.int64]


class Samples(NamedTuple):
    """What a decoder did: accepted length of each first round [n], strings [n, horizon]."""

    accepted: Ints
    tokens: Ints


Decode = Callable[[str, int, int, int, int], Samples]
"""``decode(verifier, gamma, num_drafts, horizon, n)``: n independent generations."""


@dataclass(frozen=True)
class Pair:
    """A target and a draft whose every row is known.

    Attributes:
        name: shown in reports.
        target, draft: their rows (rationals, or the float rows of a network).
        gamma, horizon: draft length, and tokens of the law that is tested.
        num_drafts: K for rules that take several drafts.
        enumerate_law: whether the output law is also enumerated by the exact program.
        decode: the running decoder on the networks, or None for models given as tables.
        rounds: rounds to decode.
        verifiers: the rules to check; None for all of :func:`checked_verifiers`.
    """

    name: str
    target: Model
    draft: Model
    gamma: int
    horizon: int
    num_drafts: int = 2
    enumerate_law: bool = True
    decode: Decode | None = None
    rounds: int = 0
    verifiers: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Row:
    """One line of the cross-check; ``agrees`` is its verdict."""

    model: str
    verifier: str
    gamma: int
    num_drafts: int
    exact_accepted: Number
    iid_accepted: Number
    simulated: Interval
    decoded: Interval | None
    distance: Number | None
    simulated_law: JointResult
    decoded_law: JointResult | None

    @property
    def lossless(self) -> str:
        """How losslessness is known: by equality of rationals, or by a test."""
        if self.distance == 0:
            return "exact"
        broken = self.simulated_law.rejected or (
            self.decoded_law is not None and self.decoded_law.rejected
        )
        if broken or (self.distance is not None and self.distance > 1e-9):
            return "NO"
        return "tested" if self.distance is None else "to rounding"

    @property
    def agrees(self) -> bool:
        lengths = [self.simulated, *([self.decoded] if self.decoded else [])]
        inside = all(interval.contains(float(self.exact_accepted)) for interval in lengths)
        return inside and self.lossless != "NO"


def checked_verifiers() -> list[str]:
    """Lossless verifiers that have an array face, in catalogue order."""
    return [
        entry.name for entry in catalogue.VERIFIERS if entry.lossless and entry.name in VERIFIERS
    ]


def cross_check(pair: Pair, verifier: str, rounds: int, seed: int = 0) -> Row:
    """Exact, simulated and decoded behaviour of one verifier on one pair."""
    rng = np.random.default_rng([seed, checked_verifiers().index(verifier)])
    drafts = pair.num_drafts if VERIFIERS[verifier].multi_draft else 1
    field = pair.target.field
    analysis = analyse(
        pair.target, pair.draft, verifier, pair.gamma, drafts, pair.horizon, field=field
    )
    models = (pair.target, pair.draft, verifier, pair.gamma, drafts)
    accepted = simulate_rounds(*models, rounds, rng)
    strings = simulate_generations(*models, pair.horizon, rounds, rng).tokens
    law = string_law(pair.target, pair.horizon)
    decoded = _decoded(pair, verifier, drafts, law)
    return Row(
        model=pair.name,
        verifier=verifier,
        gamma=pair.gamma,
        num_drafts=drafts,
        exact_accepted=_length(analysis),
        iid_accepted=analysis.iid_prediction.accepted,
        simulated=expected_accepted(accepted, pair.gamma, ERROR),
        decoded=None if decoded is None else decoded[0],
        distance=analysis.distance if pair.enumerate_law else None,
        simulated_law=joint_test(_counts(strings, pair.target.vocab), law, ERROR),
        decoded_law=None if decoded is None else decoded[1],
    )


def rules_of(pair: Pair) -> list[str]:
    """The rules to check on a pair, in catalogue order."""
    known = checked_verifiers()
    return known if pair.verifiers is None else [rule for rule in known if rule in pair.verifiers]


def _length(analysis: Analysis) -> Number:
    closed = analysis.closed_form
    return analysis.expected_accepted if closed is None else closed


def _decoded(
    pair: Pair, verifier: str, drafts: int, law: NDArray[np.float64]
) -> tuple[Interval, JointResult] | None:
    if pair.decode is None:
        return None
    samples = pair.decode(verifier, pair.gamma, drafts, pair.horizon, pair.rounds)
    return (
        expected_accepted(samples.accepted, pair.gamma, ERROR),
        joint_test(_counts(samples.tokens, pair.target.vocab), law, ERROR),
    )


def _counts(strings: Ints, vocab: int) -> Ints:
    numbers = string_numbers(strings, vocab)
    return np.bincount(numbers, minlength=vocab ** strings.shape[1])
