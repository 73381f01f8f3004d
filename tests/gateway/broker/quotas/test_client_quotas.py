"""Quotas as the metadata log has them, and one request in all of them."""

from __future__ import annotations

from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.broker.quotas.request_quota import RequestQuota
from gateway.broker.quotas.samples import QuotaSettings
from kwire.cluster import Delta, Image
from kwire.cluster.fold import apply
from kwire.messages.client_quota_record import ClientQuotaRecord, EntityData
from tests.gateway.broker.quotas.clocks import Clock


class Node:
    """A node whose image changes by deltas."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.image = Image()
        self.quotas = ClientQuotas(QuotaSettings(), QuotaSettings(), self.clock)
        self.quotas.on_update(None, self.image)

    def set(self, key: str, value: float | None, **entity: str | None) -> None:
        delta = Delta(self.image)
        names = [
            EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in entity.items()
        ]
        apply(
            delta.image,
            ClientQuotaRecord(entity=names, key=key, value=value or 0, remove=value is None),
        )
        delta.commit()
        self.quotas.on_update(delta, self.image)


def test_quotas_follow_the_deltas_of_the_image() -> None:
    node = Node()
    assert not node.quotas.is_set
    node.set("producer_byte_rate", 1000, user="ann")
    node.set("consumer_byte_rate", 2000, user="ann", client_id=None)
    assert node.quotas.is_set
    assert node.quotas.produce.limits.find("ann", "app") == (("ann", ""), 1000)
    assert node.quotas.fetch.limits.find("ann", "app") == (("ann", "app"), 2000)
    node.set("producer_byte_rate", None, user="ann")
    assert not node.quotas.produce.limits
    node.set("consumer_byte_rate", None, user="ann", client_id=None)
    assert not node.quotas.is_set


def test_quotas_of_another_image_replace_all() -> None:
    node = Node()
    node.set("producer_byte_rate", 1000, user="ann")
    other = Image()
    other.quotas[(("user", "bob"),)] = {"request_percentage": 50.0}
    node.quotas.prepare(None, other)
    node.quotas.on_update(None, other)
    assert node.quotas.is_set
    assert not node.quotas.produce.limits
    assert node.quotas.request.limits.find("bob", "") == (("bob", ""), 50)


def test_quota_of_an_address_is_no_quota_of_clients() -> None:
    node = Node()
    node.set("connection_creation_rate", 5, ip="10.0.0.1")
    assert not node.quotas.is_set


def test_produce_request_is_throttled_by_its_bytes() -> None:
    node = Node()
    node.set("producer_byte_rate", 1000, client_id=None)
    request = RequestQuota(node.quotas, "User:ann", "app", node.clock())
    request.produced = 12_000
    # 1,200 a second over 10 s: 20 % too much.
    assert request.answered() == 2_000
    assert request.throttle_ms == 2_000
    assert (node.quotas.produce.throttled, node.quotas.produce.throttled_ms) == (1, 2_000)


def test_request_is_throttled_by_the_time_that_the_server_worked_on_it() -> None:
    node = Node()
    node.set("request_percentage", 1, user=None)
    request = RequestQuota(node.quotas, "User:ann", None, node.clock())
    node.clock.now += 0.1
    request.paused()
    node.clock.now += 50  # it waits for records
    request.spent(0.005)
    # 10.5 % in a window of 10 s: 1.05 % on average.
    assert request.answered() == 500
    request.spent(0.5)  # the response is encoded: that counts for the next request
    again = RequestQuota(node.quotas, "User:ann", None, node.clock())
    assert again.answered() == 1_000


def test_response_names_the_longest_of_its_throttle_times() -> None:
    node = Node()
    node.set("request_percentage", 1, user=None)
    request = RequestQuota(node.quotas, "User:ann", None, node.clock())
    node.clock.now += 0.105
    assert request.answered(300) == 500
    assert RequestQuota(node.quotas, "User:ann", None, node.clock()).answered(7_000) == 7_000


def test_fetch_that_is_throttled_is_not_counted() -> None:
    node = Node()
    node.set("consumer_byte_rate", 1000, client_id="app")
    request = RequestQuota(node.quotas, "User:ann", "app", node.clock())
    assert request.fetch_bytes_max() == 10_000
    assert request.fetched(10_000)
    again = RequestQuota(node.quotas, "User:ann", "app", node.clock())
    assert not again.fetched(1_000)
    assert again.answered() == again.throttle_ms == 1_000
    node.clock.now += 10.1
    assert RequestQuota(node.quotas, "User:ann", "app", node.clock()).fetched(100)


def test_time_of_another_broker_is_not_counted() -> None:
    node = Node()
    node.set("request_percentage", 1, user=None)
    request = RequestQuota(node.quotas, "User:ann", None, node.clock())
    request.is_exempt = True
    node.clock.now += 1
    assert request.answered() == 0
    request.spent(1)
    assert len(node.quotas.request) == 0
