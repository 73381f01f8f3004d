"""Throttle times of one kind of quota, and the memory that its measurements take."""

from __future__ import annotations

from gateway.broker.quotas import client_quota_manager
from gateway.broker.quotas.client_quota_manager import IDLE_MS, ClientQuotaManager
from gateway.broker.quotas.samples import QuotaSettings
from tests.gateway.broker.quotas.clocks import Clock

SETTINGS = QuotaSettings(samples=11, window_ms=1000)
ANY_CLIENT = (("client-id", None),)


def manager(limit: float = 500, **options: int) -> ClientQuotaManager:
    made = ClientQuotaManager(SETTINGS, **options)
    made.limits.set(ANY_CLIENT, limit)
    return made


def test_client_within_its_quota_is_not_throttled() -> None:
    one = manager()
    assert [one.record("u", "c", 450, second * 1000) for second in range(30)] == [0] * 30


def test_client_above_its_quota_waits_until_its_rate_is_the_quota() -> None:
    # As ClientQuotaManagerTest of Kafka: 500 a second, a burst that makes 600 over 10.5 s.
    one, clock = manager(), Clock(0)
    for _ in range(10):
        assert one.record("u", "c", 400, clock.ms) == 0
        clock.now += 1
    clock.now += 0.5
    # (4000 + 2300) / 10.5 s = 600: 20 % above, so 20 % of 10.5 s.
    assert one.record("u", "c", 2300, clock.ms) == 2100


def test_rate_of_a_client_that_obeys_is_its_quota() -> None:
    one, clock, sent = manager(1000), Clock(0), 0
    while clock.now < 300:
        sent += 1700
        clock.now += one.record("u", "c", 1700, clock.ms) / 1000 or 0.001
    # The first burst is allowed: 10 windows.
    assert 1000 * 300 <= sent <= 1000 * 300 + 10 * 1000 + 1700


def test_throttle_time_of_requests_has_a_limit() -> None:
    assert manager(1, throttle_max_ms=1000).record("u", "c", 10_000, 0) == 1000


def test_largest_throttle_time_fits_into_a_response() -> None:
    assert manager(1).record("u", "c", 2.0**60, 0) == 2**31 - 1


def test_clients_are_measured_apart_and_clients_of_a_user_together() -> None:
    one = manager()
    assert one.record("u", "a", 6000, 0) > 0
    assert one.record("u", "b", 10, 0) == 0
    one.limits.set((("user", "u"),), 500)
    assert one.record("u", "a", 3000, 0) == 0
    assert one.record("u", "b", 3000, 0) > 0


def test_changed_quota_counts_for_what_was_measured_before() -> None:
    one = manager()
    assert one.record("u", "c", 4000, 0) == 0
    one.limits.set(ANY_CLIENT, 100)
    assert one.record("u", "c", 0, 0) == 30_000
    one.limits.set(ANY_CLIENT, None)
    assert one.record("u", "c", 1e9, 0) == 0


def test_value_that_is_taken_back_does_not_throttle() -> None:
    one = manager()
    one.record("u", "c", 100_000, 0)
    one.record_only("u", "c", -100_000, 0)
    assert one.record("u", "c", 10, 0) == 0


def test_most_at_once_is_what_an_idle_client_may_use() -> None:
    one = manager(300)
    assert one.most_at_once("u", "c") == 3000
    assert one.record("u", "c", 3000, 0) == 0
    one.limits.set(ANY_CLIENT, None)
    assert one.most_at_once("u", "c") == float("inf")


def test_measurements_end_after_an_hour_without_use() -> None:
    one = manager()
    one.record("u", "old", 1, 0)
    one.record("u", "used", 1, 0)
    one.record("u", "used", 1, IDLE_MS - 1)
    one.record("u", "new", 1, IDLE_MS)
    assert [group.client_id for group, _ in one.sensors()] == ["used", "new"]


def test_clients_that_choose_ids_take_no_more_than_the_limit() -> None:
    one = manager()
    for number in range(client_quota_manager.SENSORS_MAX + 50):
        one.record("u", f"c{number}", 1, number)
    assert len(one) == client_quota_manager.SENSORS_MAX
    assert next(iter(one.sensors()))[0].client_id == "c50"


def test_client_without_a_quota_is_not_measured() -> None:
    one = ClientQuotaManager(SETTINGS)
    one.limits.set((("client-id", "other"),), 1)
    assert one.record("u", "c", 1e9, 0) == 0
    assert len(one) == 0
