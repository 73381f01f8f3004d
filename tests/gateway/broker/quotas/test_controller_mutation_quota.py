"""Quotas of changes of partitions, strict and permissive."""

from __future__ import annotations

import pytest

from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.controller_mutation_quota import (
    ControllerMutationQuota,
    QuotaExceeded,
)
from gateway.broker.quotas.samples import QuotaSettings
from kwire.protocol import ApiKey
from tests.gateway.broker.quotas.clocks import Clock


class Controller:
    """Quotas with one of 5 partitions a second, in 10 windows."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.quotas = ClientQuotas(QuotaSettings(), QuotaSettings(10, 1000), self.clock)
        self.quotas.mutations.limits.set((("user", "ann"),), 5)

    def quota(self, version: int = 7) -> ControllerMutationQuota:
        made = self.quotas.of_mutations("User:ann", "app", ApiKey.CREATE_TOPICS, version)
        assert made is not None
        return made


def test_strict_quota_allows_a_change_while_a_token_is_left_and_refuses_the_next() -> None:
    controller = Controller()
    first = controller.quota()
    first.record(90)
    assert first.throttle_ms() == 0
    second = controller.quota()
    with pytest.raises(QuotaExceeded):
        second.record(1)
    assert second.throttle_ms() == 8_000  # 40 partitions too many


def test_throttle_time_is_what_is_left_of_it_at_the_response() -> None:
    controller = Controller()
    controller.quota().record(90)
    late = controller.quota()
    with pytest.raises(QuotaExceeded):
        late.record(1)
    controller.clock.now += 3
    assert late.throttle_ms() == 5_000
    controller.clock.now += 30
    assert late.throttle_ms() == 0


def test_refused_change_takes_no_token() -> None:
    controller = Controller()
    controller.quota().record(51)
    for _ in range(10):
        with pytest.raises(QuotaExceeded):
            controller.quota().record(50)
    controller.clock.now += 0.2
    controller.quota().record(1)


@pytest.mark.parametrize(
    ("api_key", "strict_since"),
    [(ApiKey.CREATE_TOPICS, 6), (ApiKey.DELETE_TOPICS, 5), (ApiKey.CREATE_PARTITIONS, 3)],
)
def test_version_that_does_not_know_the_error_is_let_pass_and_throttled(
    api_key: int, strict_since: int
) -> None:
    controller = Controller()
    old = controller.quotas.of_mutations("User:ann", "app", api_key, strict_since - 1)
    assert old is not None
    old.record(60)
    assert old.throttle_ms() == 2_000
    new = controller.quotas.of_mutations("User:ann", "app", api_key, strict_since)
    assert new is not None
    with pytest.raises(QuotaExceeded):
        new.record(1)


def test_request_without_a_quota_has_none() -> None:
    quotas = Controller().quotas
    assert quotas.of_mutations("User:bob", "app", ApiKey.CREATE_TOPICS, 7) is None
    assert quotas.of_mutations("User:ann", "app", ApiKey.CREATE_ACLS, 3) is None
