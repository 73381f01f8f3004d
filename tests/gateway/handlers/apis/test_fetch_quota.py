"""Fetch of a client that is throttled: an empty response, and the records with the next one."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.samples import QuotaSettings
from gateway.handlers import fetch_quota
from gateway.handlers.apis import fetch
from gateway.handlers.context import Context
from gateway.ports.streamed import WHOLE_MAX
from kwire.cluster import Image
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from tests.gateway.handlers.apis.test_fetch import BY_ID
from tests.gateway.handlers.apis.test_fetch_sessions import DataWorld, named
from tests.gateway.handlers.world import build

#: Bytes of a second, and ten windows of one second are measured.
QUOTA = 1000


class ThrottledWorld(DataWorld):
    """A broker whose clients may fetch ``QUOTA`` bytes a second. ``now`` is its clock."""

    def __init__(self, count: int = 3, **quotas: float) -> None:
        super().__init__(count)
        self.now = 1000.0
        self.quotas = ClientQuotas(QuotaSettings(), QuotaSettings(), lambda: self.now)
        image = Image()
        image.quotas[(("client-id", "test"),)] = quotas or {"consumer_byte_rate": QUOTA}
        self.quotas.on_update(None, image)

    def reads(self) -> int:
        return sum(log.open_reads for log in self.logs)


@pytest.mark.parametrize(("count", "quota"), [(3, 60), (WHOLE_MAX + 1, 10_000)])
def test_throttled_session_gets_nothing_and_later_all(count: int, quota: float) -> None:
    world = ThrottledWorld(count, consumer_byte_rate=quota)
    session = world.begin()
    world.now += 60
    for log in world.logs:
        log.append(2)
    everything = dict.fromkeys(range(count), 100)
    assert named(world.fetch((session, 1))) == everything
    for epoch in (2, 3):
        empty = world.fetch((session, epoch))
        assert (empty.session_id, empty.error_code, empty.responses) == (session, 0, [])
    world.now += 60
    assert named(world.fetch((session, 4))) == everything
    assert world.reads() == 0


def test_response_above_the_quota_is_empty_and_counts_nothing() -> None:
    world = ThrottledWorld(1)
    session = world.begin()
    world.logs[0].append(2, size=6000)
    world.replicas.fetched.clear()
    assert named(world.fetch((session, 1))) == {0: 6000}
    for epoch in (2, 3, 4):
        assert named(world.fetch((session, epoch))) == {}
        assert world.reads() == 0
    assert world.quotas is not None and world.quotas.fetch.throttled == 3
    world.now += 12
    assert named(world.fetch((session, 5))) == {0: 6000}
    # Nor do the metrics count what was not sent.
    assert world.replicas.fetched == [(6000, False)] * 2


def test_throttled_full_fetch_begins_no_session() -> None:
    world = ThrottledWorld(1)
    world.logs[0].append(2, size=6000)
    assert named(world.fetch((0, -1), {0: 0})) == {0: 6000}
    answer = world.fetch((0, 0), {0: 0})
    assert (answer.session_id, answer.responses, len(world.fetch_sessions)) == (0, [], 0)


def test_partition_that_was_forgotten_meanwhile_stays_forgotten() -> None:
    world = ThrottledWorld(2)
    session = world.begin()
    for log in world.logs:
        log.append(2, size=6000)
    world.fetch((session, 1))
    assert named(world.fetch((session, 2))) == {}
    forgotten: Any = [{"topic_id": world.id, "partitions": [0]}]
    world.now += 12
    assert 0 not in named(world.fetch((session, 3), forgotten_topics_data=forgotten))


def test_fetch_asks_for_no_more_than_its_quota_allows_at_once() -> None:
    world = ThrottledWorld(1, consumer_byte_rate=100)
    for _ in range(50):
        world.logs[0].append(1, size=100)
    # Ten windows of 100 bytes, whatever the client's limit is. With the rest of the response that
    # is too much for ten windows, but not for eleven.
    assert named(world.fetch((0, -1), {0: 0})) == {}
    world.now += 10.9
    assert named(world.fetch((0, -1), {0: 0})) == {0: 1000}


def test_broker_that_follows_has_no_quota_of_clients_and_a_client_cannot_pass_for_one() -> None:
    world = ThrottledWorld(1)
    world.logs[0].append(2, size=6000)
    assert world.quotas is not None
    replica = {"replica_state": {"replica_id": 3, "replica_epoch": 1}}
    for _ in range(3):
        world.fetch((0, -1), {0: 0}, **replica)
    assert (len(world.quotas.fetch), world.quotas.fetch.throttled) == (0, 0)
    world.authorizer.forbidden.add(("CLUSTER_ACTION", "CLUSTER", "*"))
    assert named(world.fetch((0, -1), {0: 0}, **replica)) == {0: 0}
    assert len(world.quotas.fetch) == 1


@pytest.mark.parametrize("count", [1, WHOLE_MAX + 1])
def test_response_is_encoded_for_its_size_only_if_the_client_has_a_quota_of_bytes(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def size_of(response: FetchResponse, context: Context) -> int:
        sizes.append(fetch_size(response, context))
        return sizes[-1]

    fetch_size = fetch_quota.size_of
    monkeypatch.setattr(fetch_quota, "size_of", size_of)
    for quotas, expected in (({"producer_byte_rate": 1}, 0), ({"consumer_byte_rate": 1e9}, 1)):
        ThrottledWorld(count, **quotas).fetch((0, -1), dict.fromkeys(range(count), 0))
        assert len(sizes) == expected
    assert sizes[0] > 10 * count


def test_size_of_a_long_response_is_found_in_a_thread() -> None:
    world = ThrottledWorld(WHOLE_MAX + 1, consumer_byte_rate=1e9)
    partitions = [{"partition": index} for index in range(WHOLE_MAX + 1)]
    topics = [{"topic_id": world.id, "partitions": partitions}]
    request = build(FetchRequest, {"session_epoch": -1, "topics": topics})
    work: Any = fetch.handle(request, world.context(BY_ID))
    in_thread = next(step for step in work if step is not None)
    assert in_thread.func is fetch_quota.size_of
    work.close()


def test_client_that_took_too_much_time_gets_no_records() -> None:
    world = ThrottledWorld(1, request_percentage=1)
    world.logs[0].append(2)
    assert world.quotas is not None
    world.quotas.request.record("ANONYMOUS", "test", 100, world.quotas.now_ms())
    assert named(world.fetch((0, -1), {0: 0})) == {}
