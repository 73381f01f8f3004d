"""Rates over windows, against the definition in Kafka's ``Rate`` and ``SampledStat``."""

from __future__ import annotations

import pytest

from gateway.broker.quotas.samples import QuotaSettings, Samples

SETTINGS = QuotaSettings(samples=11, window_ms=1000)


def test_first_burst_is_measured_over_all_windows_but_one() -> None:
    samples = Samples(SETTINGS)
    samples.record(5000, 1_000)
    assert samples.measured_ms(1_000) == 10_000
    assert samples.rate(1_000) == 500


def test_rate_is_over_the_time_since_the_oldest_window() -> None:
    samples = Samples(SETTINGS)
    for second in range(20):
        samples.record(100, second * 1000)
    assert samples.measured_ms(19_500) == 10_500
    assert samples.rate(19_500) == pytest.approx(1100 / 10.5)


def test_window_that_reaches_into_the_measured_time_counts_as_a_whole() -> None:
    samples = Samples(SETTINGS)
    for half in range(40):
        samples.record(50, half * 500)
    # Of the window from 8,000 on only its second half is measured still.
    assert samples.measured_ms(19_499) == 11_499
    assert samples.rate(19_499) == pytest.approx(1200 / 11.499)


def test_window_ends_after_its_time_whenever_the_next_value_comes() -> None:
    samples = Samples(QuotaSettings(samples=2, window_ms=1000))
    samples.record(1, 0)
    samples.record(2, 999)
    samples.record(4, 1_000)
    samples.record(8, 2_000)
    assert samples.rate(2_000) == 15 / 2


def test_value_counts_no_longer_when_all_windows_have_passed_since() -> None:
    samples = Samples(SETTINGS)
    samples.record(7000, 500)
    assert samples.rate(11_499) > 0
    assert samples.rate(11_500) == 0


def test_negative_value_takes_one_back() -> None:
    samples = Samples(SETTINGS)
    samples.record(500, 0)
    samples.record(-500, 10)
    assert samples.rate(10) == 0


def test_mean_is_that_of_the_values_in_the_windows() -> None:
    samples = Samples(QuotaSettings(samples=2, window_ms=30_000))
    assert samples.mean(0) is None
    samples.record(10, 0)
    samples.record(30, 100)
    assert samples.mean(200) == 20
    assert samples.mean(60_100) is None


def test_one_window_of_no_length_divides_by_no_zero() -> None:
    samples = Samples(QuotaSettings(samples=1, window_ms=1000))
    samples.record(3, 50)
    assert samples.rate(50) == 3000
