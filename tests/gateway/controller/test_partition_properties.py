"""Random life of brokers and partitions: the invariants of partitions hold after every request, in
any order.

The cluster checks after every step that the controller's state equals the image of its log.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from gateway.base import slices
from gateway.controller import partition_index
from gateway.controller.partition_change import NO_LEADER
from gateway.controller.partition_index import PartitionIndex
from kwire.cluster import Image
from kwire.message import Message
from kwire.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from kwire.messages.alter_partition_request import AlterPartitionRequest
from kwire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kwire.messages.elect_leaders_request import ElectLeadersRequest
from kwire.messages.kip.kip497.alter_isr_request import AlterIsrRequest
from kwire.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kwire.messages.partition_record import PartitionRecord
from kwire.uuid import Uuid
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import create, made
from tests.kwire.values import random_message

BROKERS = (1, 2, 3, 4)
ASKED = (
    AlterIsrRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
TOPICS = ("a", "b")
Partitions = dict[tuple[Uuid, int], PartitionRecord]


def partitions(image: Image) -> Partitions:
    return {
        (topic_id, index): one
        for topic_id, all_ in image.partitions.items()
        for index, one in all_.items()
    }


def check(before: Partitions, it: BrokerCluster) -> None:
    """Check the invariants of partitions, and of their changes, that Kafka guarantees."""
    for key, one in partitions(it.image).items():
        elr = set(one.eligible_leader_replicas or ())
        assert len(set(one.replicas)) == len(one.replicas) == len(one.directories)
        assert len(set(one.isr)) == len(one.isr)
        assert set(one.isr) | elr | set(one.adding_replicas) | set(one.removing_replicas) <= set(
            one.replicas
        )
        assert not elr & set(one.isr)
        assert one.leader in (NO_LEADER, *one.isr)
        assert (
            one.leader == NO_LEADER
            or one.leader not in it.image.brokers
            or not it.image.brokers[one.leader].fenced
        )
        assert one.isr or elr or one.last_known_elr, "nobody could ever lead"
        if (old := before.get(key)) is not None:
            assert one.partition_epoch >= old.partition_epoch
            assert one.leader_epoch >= old.leader_epoch
            assert one.leader == old.leader or one.leader_epoch > old.leader_epoch
            assert one == old or one.partition_epoch > old.partition_epoch


def fill_a_part(it: BrokerCluster) -> None:
    """Let the controller read one slice of the partitions that its index does not have."""
    next(it.controller.index_partitions(), None)


def check_index(it: BrokerCluster) -> None:
    """Check that the controller's index equals one that is built from the image."""
    state = it.controller._state
    assert state is not None
    slices.run(state.index_partitions())
    kept, found = state.partitions, PartitionIndex(state.image)
    slices.run(found.fill())
    for name in ("leaderless", "imbalanced", "reassigning", "_led_by", "_in_isr", "_eligible"):
        assert getattr(kept, name) == getattr(found, name), name


class Life:
    """One random cluster: each method does something that may or may not come to anything."""

    def __init__(self, it: BrokerCluster, rng: random.Random) -> None:
        self.it, self.rng = it, rng

    def create(self) -> None:
        configs = [{"name": "min.insync.replicas", "value": self.rng.choice("123")}]
        configs.append(
            {"name": "unclean.leader.election.enable", "value": self.rng.choice(("true", "false"))}
        )
        topic = {
            "name": self.rng.choice(TOPICS),
            "num_partitions": 2,
            "replication_factor": self.rng.randint(1, 3),
        }
        self.it.ask(create({**topic, "configs": configs}))

    def delete(self) -> None:
        if self.rng.random() < 0.1:
            self.it.ask(made("DeleteTopicsRequest", topic_names=[self.rng.choice(TOPICS)]), 5)

    def come(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        broker = self.it.image.brokers.get(broker_id)
        clean = broker is not None and self.rng.random() < 0.5
        self.it.now_ms += self.rng.choice((0, 20_000))
        self.it.register(
            broker_id, previous_epoch=broker.broker_epoch if broker is not None and clean else -1
        )

    def heartbeat(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        if broker_id in self.it.image.brokers:
            wants = {
                "want_fence": self.rng.random() < 0.2,
                "want_shut_down": self.rng.random() < 0.1,
            }
            failed = [self.it.directory(broker_id, 1)] if self.rng.random() < 0.05 else []
            self.it.heartbeat(broker_id, offline_log_dirs=failed, **wants)

    def unregister(self) -> None:
        if self.rng.random() < 0.1:
            self.it.ask(made("UnregisterBrokerRequest", broker_id=self.rng.choice(BROKERS)))

    def alter(self) -> None:
        topic, index = self.some_partition()
        if topic is not None:
            now = self.it.partition(index, topic)
            isr = self.rng.sample(now.replicas, self.rng.randint(0, len(now.replicas)))
            if now.leader not in isr and now.leader >= 0:
                isr.insert(0, now.leader)
            self.it.alter(isr, index=index, topic=topic, version=self.rng.choice((2, 3)))

    def reassign(self) -> None:
        topic, index = self.some_partition()
        if topic is not None:
            to = (
                None
                if self.rng.random() < 0.2
                else self.rng.sample(BROKERS, self.rng.randint(1, 3))
            )
            self.it.reassign(to, index=index, topic=topic)

    def elect(self) -> None:
        self.it.ask(
            made("ElectLeadersRequest", election_type=self.rng.randrange(2), topic_partitions=None)
        )

    def assign(self) -> None:
        broker_id, (topic, index) = self.rng.choice(BROKERS), self.some_partition()
        if topic is not None and broker_id in self.it.image.brokers:
            where = {
                "topic_id": self.it.image.topic_ids[topic],
                "partitions": [{"partition_index": index}],
            }
            directory = {
                "id": self.it.directory(broker_id, self.rng.randrange(3)),
                "topics": [where],
            }
            epoch = self.it.broker(broker_id).broker_epoch
            request = {"broker_id": broker_id, "broker_epoch": epoch, "directories": [directory]}
            self.it.ask(made("AssignReplicasToDirsRequest", **request))

    def list(self) -> None:
        self.it.ask(made("ListPartitionReassignmentsRequest", topics=None))

    def wait(self) -> None:
        self.it.now_ms += self.rng.choice((100, 3_000, 400_000))
        for operation in self.it.controller.poll(self.it.now_ms):
            self.it.commit(operation)
        self.it.check()

    def lose_the_controller(self) -> None:
        self.it.elect()

    def some_partition(self) -> tuple[str | None, int]:
        topics = sorted(self.it.image.topic_ids)
        return (self.rng.choice(topics), self.rng.randrange(2)) if topics else (None, 0)


#: The events, and how often each occurs.
HAPPENS: tuple[tuple[Callable[[Life], None], int], ...] = (
    (Life.create, 4),
    (Life.delete, 2),
    (Life.come, 6),
    (Life.heartbeat, 20),
    (Life.unregister, 1),
    (Life.alter, 20),
    (Life.reassign, 6),
    (Life.elect, 3),
    (Life.assign, 3),
    (Life.list, 1),
    (Life.wait, 2),
    (Life.lose_the_controller, 1),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [7, 15, 17, 22, 30])
def test_partitions_keep_their_invariants_in_random_life(
    level: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_index, "_PARTITIONS_PER_SLICE", 1)
    rng = random.Random(f"{level}-{seed}")
    it = BrokerCluster(BROKERS, level=level, directories=2, seed=seed)
    life = Life(it, rng)
    life.create()
    names, weights = zip(*HAPPENS, strict=True)
    changes: dict[str, Any] = {}
    for what in rng.choices(names, weights, k=120):
        before, length = partitions(it.image), len(it.log)
        what(life)
        check(before, it)
        # A new controller makes decisions before its index is complete.
        (check_index if rng.random() < 0.3 else fill_a_part)(it)
        changes[what.__name__] = changes.get(what.__name__, 0) + len(it.log) - length
    assert changes["alter"], "no ISR was ever changed"


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.NAME)
@pytest.mark.parametrize("seed", range(5))
def test_random_request_never_raises(kind: type[Message], seed: int) -> None:
    rng = random.Random(seed)
    it = BrokerCluster((1, 2), seed=seed)
    it.create([1, 2], topic="a")
    for version in kind.VERSIONS:
        for _ in range(10):
            request: Any = random_message(kind, version, rng, tags=False)
            if (
                hasattr(request, "broker_epoch") and rng.random() < 0.8
            ):  # of a broker that may speak
                request.broker_id, request.broker_epoch = 1, it.broker(1).broker_epoch
            for topic in getattr(request, "topics", None) or ():
                if hasattr(topic, "topic_id") and rng.random() < 0.8:
                    topic.topic_id = it.image.topic_ids["a"]
            it.ask(request, version)
            check_index(it)
