"""Small worked examples of miscounted metrics and miscalibrated tests, with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sim import metrics
from sim.losslessness.joint import joint_test, pearson_p
from theory import power as pw


class TestRaggedBatch:
    def test_row_index(self) -> None:
        start, bonus, total = metrics.flattened_rows([2, 0, 3, 1])
        assert start.tolist() == [0, 3, 4, 8]
        assert bonus.tolist() == [2, 3, 7, 9]
        assert total == 10

    def test_placeholders(self) -> None:
        n = metrics.real_drafts([[3, 1, 2], [4, -1, -1], [-1, -1, -1]])
        assert n.tolist() == [3, 1, 0]
        assert (n + 1).tolist() == [4, 2, 1]
        assert n.sum() == 4
        with pytest.raises(ValueError, match="row 0"):
            metrics.real_drafts([[-1, 3]])


class TestMetrics:
    def test_definitions(self) -> None:
        found = metrics.summarise([3, 0, 1, 2], [3, 3, 3, 3])
        assert found.per_proposed == 1 / 2
        assert found.mean_accepted == 3 / 2
        assert found.tokens_per_call == 5 / 2
        assert found.unconditional == (3 / 4, 1 / 2, 1 / 4)
        assert found.conditional == pytest.approx((3 / 4, 2 / 3, 1 / 2), abs=1e-12)
        assert found.emitted == 10
        assert metrics.completion_over_calls(6, 4, prefill_tokens=1) == 11 / 4

    def test_short_drafts(self) -> None:
        tokens, rounds, drafted, accepted, gamma = 256, 87, 259, 167, 3
        assert metrics.ratio(accepted, drafted) == pytest.approx(167 / 259, abs=1e-12)
        assert metrics.ratio(accepted + rounds, rounds) == pytest.approx(254 / 87, abs=1e-12)
        assert metrics.implied_rounds(tokens, accepted) == 89
        assert metrics.missing_drafts(gamma, rounds, drafted) == 2

    def test_pooled_is_not_averaged(self) -> None:
        assert metrics.pooled([10, 6], [10, 2]) == pytest.approx(4 / 3, abs=1e-12)
        assert metrics.averaged([10, 6], [10, 2]) == 2
        assert metrics.pooled([20, 8], [10, 2]) == pytest.approx(7 / 3, abs=1e-12)

    def test_no_drafts(self) -> None:
        found = metrics.summarise([0] * 5, [0] * 5)
        assert (found.per_proposed, found.per_verified, found.mean_overlap) == (None, None, None)
        assert found.tokens_per_call == 1
        assert found.emitted == 5
        assert metrics.summarise([], []).tokens_per_call is None

    def test_last_window_is_censored(self) -> None:
        found = metrics.summarise([3, 3, 2], [3, 3, 3], censored=[False, False, True])
        assert found.per_proposed == pytest.approx(8 / 9, abs=1e-12)
        assert found.per_verified == 1
        assert found.conditional == (1, 1, 1)
        assert metrics.summarise([3, 3, 2], [3, 3, 3]).per_verified == pytest.approx(8 / 9)

    def test_counts_by_position(self) -> None:
        unconditional, conditional = metrics.rates_from_counts([10, 10, 8], [9, 6, 2])
        assert unconditional == pytest.approx((9 / 10, 3 / 5, 1 / 4), abs=1e-12)
        assert conditional == pytest.approx((9 / 10, 2 / 3, 5 / 12), abs=1e-12)
        with pytest.raises(ValueError, match="swap"):
            metrics.rates_from_counts([9, 6, 2], [10, 10, 8])

    def test_accepted_beyond_drafted_is_refused(self) -> None:
        with pytest.raises(ValueError, match="round 1 accepted 4 of 3"):
            metrics.summarise([3, 4], [3, 3])


def distance(a: object, b: object) -> float:
    return float(np.abs(np.subtract(a, b)).sum() / 2)


class TestStatistics:
    LAW = (0.5, 0.3, 0.2)

    def test_degrees_of_freedom(self) -> None:
        assert pearson_p(17.09, 9) == pytest.approx(0.047325098159475235, abs=1e-9)
        assert pearson_p(17.09, 6) == pytest.approx(0.00895811042394611, abs=1e-9)
        counts = np.full(10, 10)
        assert joint_test(counts, np.full(10, 0.1)).df == 9

    def test_power(self) -> None:
        faulty = (0.52, 0.28, 0.2)
        assert distance(faulty, self.LAW) == pytest.approx(0.02, abs=1e-12)
        assert stats.chi2.isf(1e-6, 2) == pytest.approx(27.631021115928547, abs=1e-6)
        rate = pw.noncentrality(self.LAW, faulty)
        assert rate == pytest.approx(0.0021333333333333334, abs=1e-12)
        n = pw.sample_size(self.LAW, faulty, level=1e-6, power=0.99)
        assert n == pytest.approx(26390.539257479675, abs=0.5)
        assert pw.power_against(self.LAW, faulty, 2000, 1e-6) == pytest.approx(
            0.0011729632941939528, abs=1e-6
        )

    def test_negative_control(self) -> None:
        faulty = np.array([11 / 20, 51 / 200, 39 / 200])
        assert distance(faulty, self.LAW) == pytest.approx(1 / 20, abs=1e-12)
        mean = 2 + 20_000 * pw.noncentrality(self.LAW, faulty)
        assert mean == pytest.approx(479 / 2, abs=1e-9)
        draws = np.random.default_rng(0).multinomial(20_000, faulty, 200)
        statistics = [joint_test(row, self.LAW, level=1e-6).statistic for row in draws]
        assert np.mean(statistics) == pytest.approx(239.413125, abs=5 * np.std(statistics) / 14)
        assert all(joint_test(row, self.LAW, level=1e-6).rejected for row in draws)

    def test_repeat_until_green(self) -> None:
        assert pw.passes_any(0.9, 3) == pytest.approx(0.271, abs=1e-12)
        assert pw.false_alarm(0.01, 3) == pytest.approx(0.029700999999999977, abs=1e-12)

    def test_laws_not_paths(self) -> None:
        one = pw.same_string(self.LAW)
        assert one**4 == pytest.approx(130321 / 6250000, abs=1e-12)
        joint = np.einsum("a,b,c,d->abcd", *[np.array(self.LAW)] * 4)
        assert pw.same_string(joint) == pytest.approx(130321 / 6250000, abs=1e-12)
