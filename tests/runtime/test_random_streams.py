"""Counter-based streams: addresses never share a uniform."""

import itertools

import numpy as np
import pytest

from gpu_runtime.engine import request_keys
from gpu_runtime.random_streams import Stream, fresh_seed, tape, uniforms


def test_addresses_are_disjoint_and_repeatable() -> None:
    drawn: list[float] = []
    for seed, request, stream, position in itertools.product((0, 1), (0, 1), Stream, range(6)):
        values = uniforms(seed, request, stream, position, 40)
        assert (values == uniforms(seed, request, stream, position, 40)).all()
        drawn += values.tolist()
    assert len(set(drawn)) == len(drawn)


def test_a_longer_draw_only_appends() -> None:
    long = uniforms(3, 4, Stream.DRAFT, 5, 30)
    assert (long[:7] == uniforms(3, 4, Stream.DRAFT, 5, 7)).all()


def test_a_row_of_the_tape_depends_on_its_own_key_only() -> None:
    alone = tape([(7, 2)], Stream.VERIFY, [11], 5)
    together = tape([(7, 1), (7, 2), (8, 2)], Stream.VERIFY, [11, 11, 11], 5)
    assert (together[1] == alone[0]).all()
    assert tape([], Stream.DRAFT, [], 5).shape == (0, 5)


def test_uniforms_are_uniform_and_below_one() -> None:
    values = np.concatenate([uniforms(0, r, Stream.DRAFT, 0, 50) for r in range(400)])
    assert ((values >= 0) & (values < 1)).all()
    # Kolmogorov's bound: sup |F_n - F| > 3.3/sqrt(n) has probability below 1e-9.
    gap = np.abs(np.sort(values) - (np.arange(values.size) + 0.5) / values.size).max()
    assert gap < 3.3 / np.sqrt(values.size)


@pytest.mark.parametrize("bad", [{"seed": -1}, {"request": 2**64}, {"position": -3}])
def test_addresses_are_checked(bad: dict[str, int]) -> None:
    address = {"seed": 0, "request": 0, "position": 0} | bad
    with pytest.raises(ValueError, match=next(iter(bad))):
        uniforms(address["seed"], address["request"], Stream.DRAFT, address["position"], 1)


def test_unseeded_batches_differ() -> None:
    assert fresh_seed() != fresh_seed()
    assert request_keys(2, None, None) != request_keys(2, None, None)


def test_keys_of_a_batch() -> None:
    assert request_keys(3, 5, None) == [(5, 0), (5, 1), (5, 2)]
    assert request_keys(2, [5, 6], None) == [(5, 0), (6, 0)]
    assert request_keys(2, 5, [9, 4]) == [(5, 9), (5, 4)]
    with pytest.raises(ValueError, match="1 seeds"):
        request_keys(2, [5], None)
