"""The quota of replication, and the replicas that it is for."""

from __future__ import annotations

import math

import pytest

from gateway.broker.quotas.replication_quota import ReplicationQuota, ThrottledReplicas


@pytest.mark.parametrize(
    ("text", "throttled"),
    [
        ("", []),
        ("*", [0, 1, 2, 3]),
        ("0:7,1:8, 2:7", [0, 2]),
        ("3:70,,1:7", [1]),
    ],
)
def test_replicas_are_throttled_that_are_named_for_the_broker(
    text: str, throttled: list[int]
) -> None:
    replicas = ThrottledReplicas(text, 7)
    assert [index for index in range(4) if index in replicas] == throttled


def test_quota_is_exceeded_until_the_rate_since_the_first_byte_is_within_it() -> None:
    quota = ReplicationQuota()
    quota.record(10_000, 0)
    assert not quota.is_exceeded(0), "there is no limit"
    quota.limit = 1000
    quota.record(5000, 20_000)
    assert [quota.is_exceeded(20_000 + ms) for ms in (0, 900, 4900, 5100)] == [
        True,
        True,
        True,
        False,
    ]
    quota.limit = math.inf
    assert not quota.is_exceeded(20_000)


def test_idle_quota_forgets_what_was_recorded() -> None:
    quota = ReplicationQuota()
    quota.limit = 10
    quota.record(1 << 20, 0)
    assert quota.is_exceeded(9_000) and not quota.is_exceeded(12_000)
