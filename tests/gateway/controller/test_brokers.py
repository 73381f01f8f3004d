"""Broker sessions that end, UnregisterBroker, and AllocateProducerIds."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.controller.sessions import Registered, Sessions
from kwire.protocol import ErrorCode
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import create, made

SESSION_MS = 9_000
LOOK_MS = SESSION_MS // 8


def fenced(it: BrokerCluster) -> set[int]:
    return {broker_id for broker_id, broker in it.image.brokers.items() if broker.fenced}


def test_stale_brokers_are_fenced_one_at_a_time_oldest_first() -> None:
    it = BrokerCluster([1, 2, 3])
    it.create([1, 2, 3])
    for broker_id in (3, 1):
        it.now_ms += 100
        it.heartbeat(broker_id)
    assert it.poll(SESSION_MS - 201) == [] and fenced(it) == set()
    assert it.poll(LOOK_MS) == ["maybeFenceStaleBroker"] and fenced(it) == {2}
    assert it.poll(0) == ["maybeFenceStaleBroker"] and fenced(it) == {2, 3}
    assert it.partition().leader == 1
    assert it.poll(0) == ["maybeFenceStaleBroker"] and fenced(it) == {1, 2, 3}
    assert it.partition().leader == -1
    assert it.poll(0) == [] and it.poll(60_000) == []


def test_broker_with_heartbeats_is_not_fenced() -> None:
    it = BrokerCluster([1])
    for _ in range(10):
        assert it.poll(SESSION_MS // 2) == []
        it.heartbeat(1)


def test_broker_is_fenced_within_one_check_after_its_session() -> None:
    it = BrokerCluster([1])
    while not fenced(it):
        deadline_ms = it.controller.deadline_ms
        assert deadline_ms is not None and deadline_ms > it.now_ms
        it.poll(deadline_ms - it.now_ms)
    assert SESSION_MS < it.now_ms <= SESSION_MS + LOOK_MS


def test_sessions_are_timed_by_the_monotonic_clock() -> None:
    it = BrokerCluster([1])
    assert it.controller.poll(10**12, steady_ms=SESSION_MS) == []
    assert it.controller.poll(0, steady_ms=SESSION_MS + 2 * LOOK_MS) != []


def test_new_controller_waits_a_whole_session() -> None:
    it = BrokerCluster([1])
    it.now_ms += SESSION_MS
    it.elect()
    assert it.poll(SESSION_MS) == []
    assert it.poll(LOOK_MS) == ["maybeFenceStaleBroker"]


def test_session_of_an_earlier_incarnation_ends_without_a_record() -> None:
    it = BrokerCluster([1])
    it.heartbeat(1, want_shut_down=True)
    it.now_ms += SESSION_MS + 1
    it.come(1)
    assert it.poll(LOOK_MS) == [] and fenced(it) == set()


def test_inactive_controller_fences_no_broker() -> None:
    it = BrokerCluster([1])
    it.controller.deactivate()
    assert it.controller.poll(it.now_ms + 60_000) == [] and it.controller.deadline_ms is None


def test_unregistered_broker_can_register_again() -> None:
    it = BrokerCluster([1, 2])
    it.create([1, 2])
    answer = it.ask(made("UnregisterBrokerRequest", broker_id=1))
    assert (answer.error_code, answer.error_message) == (0, "")  # as Kafka has it
    assert set(it.image.brokers) == {2}
    assert (it.partition().replicas, it.partition().isr, it.partition().leader) == ([1, 2], [2], 2)
    assert it.poll(0) == []
    it.come(1)


def test_unregistering_an_unknown_broker_is_refused() -> None:
    answer = BrokerCluster().ask(made("UnregisterBrokerRequest", broker_id=1))
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert answer.error_message == "Broker ID 1 is not currently registered"


def test_unregister_broker_needs_alter_on_the_cluster() -> None:
    it = BrokerCluster([1])
    answer = it.ask(
        made("UnregisterBrokerRequest", broker_id=1), forbidden=[("ALTER", "CLUSTER", "*")]
    )
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and 1 in it.image.brokers


# --- ids for producers
# ------------------------------------------------------------------------------------------------


def block(it: BrokerCluster, broker_id: int) -> range:
    request = made(
        "AllocateProducerIdsRequest",
        broker_id=broker_id,
        broker_epoch=it.broker(broker_id).broker_epoch,
    )
    answer = it.ask(request)
    assert answer.error_code == 0
    return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)


def test_producer_ids_are_unique_across_controllers() -> None:
    it = BrokerCluster([1, 2])
    blocks = [block(it, 1), block(it, 2)]
    it.elect()
    blocks.append(block(it, 1))
    assert blocks == [range(1000), range(1000, 2000), range(2000, 3000)]
    assert it.image.next_producer_id == 3000


def test_producer_ids_need_a_registered_broker() -> None:
    it = BrokerCluster([1])
    wrong = made(
        "AllocateProducerIdsRequest", broker_id=1, broker_epoch=it.broker(1).broker_epoch + 1
    )
    assert it.ask(wrong).error_code == ErrorCode.STALE_BROKER_EPOCH
    right = made("AllocateProducerIdsRequest", broker_id=1, broker_epoch=it.broker(1).broker_epoch)
    assert (
        it.ask(right, forbidden=[("CLUSTER_ACTION", "CLUSTER", "*")]).error_code
        == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


def test_producer_ids_end_at_64_bits() -> None:
    it = BrokerCluster([1])
    assert it.controller.image is not None
    it.controller.image.next_producer_id = 2**63 - 1000
    request = made(
        "AllocateProducerIdsRequest", broker_id=1, broker_epoch=it.broker(1).broker_epoch
    )
    answer: Any = it.decide(request, 0).answer
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# --- sessions against the plainest model there is
# ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_sessions_agree_with_a_table_of_times(seed: int) -> None:
    rng, sessions, heard = random.Random(seed), Sessions(10), dict[Registered, int]()
    brokers = [Registered(broker_id, epoch) for broker_id in range(4) for epoch in range(2)]
    for now_ms in _times(rng):
        match rng.randrange(4):
            case 0 | 1:
                broker = rng.choice(brokers)
                sessions.touch(broker, now_ms)
                heard[broker] = now_ms
            case 2:
                broker = rng.choice(brokers)
                sessions.forget(broker)
                heard.pop(broker, None)
            case _:
                silent = sessions.expired(now_ms)
                assert (silent is None) == all(at + 10 >= now_ms for at in heard.values())
                assert silent is None or heard[silent] == min(heard.values())
        assert all(
            sessions.is_valid(one, now_ms) == (one in heard and heard[one] + 10 >= now_ms)
            for one in brokers
        )
        assert sessions.deadline_ms == min((at + 10 for at in heard.values()), default=None)


def _times(rng: random.Random) -> Iterable[int]:
    now_ms = 0
    for _ in range(300):
        now_ms += rng.randrange(5)
        yield now_ms


# --- any life of brokers
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_exactly_the_stale_brokers_are_fenced_in_any_sequence(seed: int) -> None:
    rng, it = random.Random(seed), BrokerCluster(nodes=(1,), seed=seed)
    heard: dict[int, int] = {}
    for _ in range(150):
        it.now_ms += rng.choice((0, 100, 2_000))
        broker_id = rng.randrange(1, 5)
        match rng.randrange(10):
            case 0:
                it.register(broker_id, previous_epoch=rng.choice((-1, 3)))
            case 1:
                it.elect()
                heard = dict.fromkeys(it.image.brokers, it.now_ms)  # every broker has a new session
            case 2:
                it.ask(
                    create(
                        {
                            "name": f"t{rng.randrange(5)}",
                            "num_partitions": 2,
                            "replication_factor": 2,
                        }
                    )
                )
            case _ if broker_id in it.image.brokers:
                it.heartbeat(
                    broker_id, want_fence=rng.random() < 0.1, want_shut_down=rng.random() < 0.1
                )
                heard[broker_id] = it.now_ms
            case _:
                pass
        while it.poll(0):
            pass
        for one in it.image.brokers.keys() - fenced(it):
            assert (
                it.now_ms - heard[one] <= SESSION_MS + LOOK_MS + 2_000
            )  # looked at no later than in the next step
    it.poll(SESSION_MS + LOOK_MS)
    while it.poll(LOOK_MS):
        pass
    assert fenced(it) == set(it.image.brokers)
