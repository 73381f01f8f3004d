"""The precedence of quotas."""

from __future__ import annotations

from itertools import combinations

import pytest

from gateway.broker.quotas.quota_limits import Group, QuotaLimits

USER, CLIENT = "user", "client-id"
#: In the order of the documentation of Kafka, with the group whose rate is measured.
LEVELS = (
    (((CLIENT, "app"), (USER, "ann")), Group("ann", "app")),
    (((CLIENT, None), (USER, "ann")), Group("ann", "app")),
    (((USER, "ann"),), Group("ann", "")),
    (((CLIENT, "app"), (USER, None)), Group("ann", "app")),
    (((CLIENT, None), (USER, None)), Group("ann", "app")),
    (((USER, None),), Group("ann", "")),
    (((CLIENT, "app"),), Group("", "app")),
    (((CLIENT, None),), Group("", "app")),
)


@pytest.mark.parametrize("size", range(1, len(LEVELS) + 1))
def test_most_special_of_several_quotas_counts(size: int) -> None:
    for chosen in combinations(range(len(LEVELS)), size):
        limits = QuotaLimits()
        for level in chosen:
            limits.set(LEVELS[level][0], 100.0 + level)
        assert limits.find("ann", "app") == (LEVELS[chosen[0]][1], 100.0 + chosen[0])


def test_quota_of_another_user_or_client_id_does_not_count() -> None:
    limits = QuotaLimits()
    limits.set(((USER, "bob"),), 1)
    limits.set(((CLIENT, "other"),), 2)
    limits.set(((CLIENT, "app"), (USER, "bob")), 3)
    assert limits.find("ann", "app") is None
    assert limits.find("bob", "app") == (Group("bob", "app"), 3)
    assert limits.find("bob", "third") == (Group("bob", ""), 1)


def test_client_without_an_id_has_quotas_of_its_user_alone() -> None:
    limits = QuotaLimits()
    for entity, _ in LEVELS:
        limits.set(entity, 1)
    limits.set(((USER, "ann"),), 7)
    assert limits.find("ann", "") == (Group("ann", ""), 7)
    limits = QuotaLimits()
    limits.set(((CLIENT, None),), 1)
    assert limits.find("ann", "") is None


def test_removed_quota_and_quota_of_an_address_do_not_count() -> None:
    limits = QuotaLimits()
    limits.set((("ip", "10.0.0.1"),), 5)
    limits.set(((USER, "ann"),), 5)
    limits.set(((USER, "ann"),), None)
    limits.set(((USER, "ann"),), None)
    assert not limits
    assert limits.find("ann", "app") is None
