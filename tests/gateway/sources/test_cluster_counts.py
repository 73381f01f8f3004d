"""Counts of a cluster: those of deltas are those of the whole image, and cost what has changed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from gateway.sources import cluster_counts
from gateway.sources.cluster_counts import BrokerCounts, ClusterCounter, ClusterCounts
from kwire.cluster import Delta, Image, apply
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.config_record import ConfigRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.messages.unregister_broker_request import UnregisterBrokerRequest
from kwire.uuid import Uuid
from tests.gateway.controller.broker_cluster import TOPIC, BrokerCluster

TOPICS = [Uuid(bytes([number]) * 16) for number in range(1, 6)]


def counts(image: Image) -> ClusterCounts:
    counter = ClusterCounter()
    counter.load(image)
    return counter.counts()


def plain(image: Image) -> ClusterCounts:
    """The counts as the definitions of Kafka's metrics have them, one after the other."""
    everything = [
        (image.topics[topic_id], one)
        for topic_id, partitions in image.partitions.items()
        for one in partitions.values()
    ]

    def min_isr(topic: str, partition: PartitionRecord) -> int:
        found = image.configs.get((2, topic), {}).get("min.insync.replicas")
        found = found or image.configs.get((4, ""), {}).get("min.insync.replicas", "1")
        return min(int(found), len(partition.replicas))

    def led(broker_id: int, condition: Any) -> int:
        return sum(one.leader == broker_id and condition(name, one) for name, one in everything)

    def of(broker_id: int) -> BrokerCounts:
        return BrokerCounts(
            sum(broker_id in one.replicas for _, one in everything),
            led(broker_id, lambda _, one: True),
            led(
                broker_id,
                lambda _, one: len(one.isr) < len(one.replicas) - len(one.adding_replicas),
            ),
            led(broker_id, lambda name, one: len(one.isr) < min_isr(name, one)),
            led(broker_id, lambda name, one: len(one.isr) == min_isr(name, one)),
            led(broker_id, lambda _, one: bool(one.adding_replicas or one.removing_replicas)),
        )

    brokers = {id: None for _, one in everything for id in (*one.replicas, one.leader) if id >= 0}
    return ClusterCounts(
        len(image.topics),
        len(everything),
        sum(one.leader < 0 for _, one in everything),
        sum(one.leader != one.replicas[0] for _, one in everything),
        brokers={id: of(id) for id in sorted(brokers)},
    )


def some_record(image: Image, rng: random.Random) -> Any:
    topic_id, number = rng.choice(TOPICS), rng.randrange(4)
    if topic_id not in image.topics:
        return TopicRecord(name=str(topic_id), topic_id=topic_id)
    match rng.randrange(12):
        case 0:
            return RemoveTopicRecord(topic_id=topic_id)
        case 1:
            kind, name = rng.choice(((2, str(topic_id)), (4, ""), (2, "none"), (4, "1")))
            value = rng.choice(("2", "3", None))
            return ConfigRecord(
                resource_type=kind, resource_name=name, name="min.insync.replicas", value=value
            )
        case 2:
            return ClearElrRecord(topic_name=str(topic_id))
        case 3 | 4 | 5:
            if number in image.partitions.get(topic_id, {}):
                return PartitionChangeRecord(
                    topic_id=topic_id,
                    partition_id=number,
                    leader=rng.choice((-2, -1, 1, 2)),
                    isr=rng.choice((None, [1], [1, 2])),
                )
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=number,
        leader=rng.choice((-1, 1, 2)),
        replicas=rng.choice(([1, 2], [2, 1], [3, 1, 2])),
        isr=rng.choice(([1], [1, 2], [])),
        adding_replicas=rng.choice(([], [2])),
        removing_replicas=rng.choice(([], [1])),
        eligible_leader_replicas=rng.choice((None, [2])),
    )


@pytest.mark.parametrize("seed", range(20))
def test_counts_of_deltas_are_those_of_the_whole_image(seed: int) -> None:
    image, rng, counter = Image(), random.Random(seed), ClusterCounter()
    for _ in range(60):
        delta = Delta(image)
        for _ in range(rng.randrange(8)):
            apply(delta.image, some_record(delta.image, rng))
        counter.update(image, delta)
        delta.commit()
        found = counter.counts()._replace(unclean_elections=0, eligible_elections=0)
        assert found == counts(image)
        assert found._replace(size=0) == plain(image)
    assert found.partitions > 0


def test_change_of_one_topic_counts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    image, counter = Image(), ClusterCounter()
    for topic_id in TOPICS:
        apply(image, TopicRecord(name=str(topic_id), topic_id=topic_id))
        for number in range(200):
            apply(
                image,
                PartitionRecord(
                    topic_id=topic_id, partition_id=number, leader=1, replicas=[1], isr=[1]
                ),
            )
    counter.load(image)
    calls, add = Counter[str](), ClusterCounter._add

    def counted(self: ClusterCounter, *arguments: Any) -> None:
        calls["add"] += 1
        add(self, *arguments)

    monkeypatch.setattr(ClusterCounter, "_add", counted)
    delta = Delta(image)
    apply(delta.image, PartitionChangeRecord(topic_id=TOPICS[0], partition_id=7, leader=-1))
    apply(delta.image, ConfigRecord(resource_type=2, resource_name="x", name="y", value="z"))
    counter.update(image, delta)
    delta.commit()
    assert calls["add"] == 2, "the partition before, and after"
    assert counter.counts().offline == 1


def test_reading_for_counts_is_no_change_of_the_delta() -> None:
    image = Image()
    apply(image, TopicRecord(name="a", topic_id=TOPICS[0]))
    apply(image, ConfigRecord(resource_type=2, resource_name="a", name="b", value="c"))
    delta = Delta(image)
    ClusterCounter().update(image, delta)
    assert not any(delta.changes(name) for name in ("topics", "partitions", "configs"))


def elections(it: BrokerCluster, before: Image) -> tuple[int, int]:
    """(unclean, eligible) elections of what happened since ``before``."""
    counter = ClusterCounter()
    delta = Delta(before)
    delta.image.partitions[it.image.topic_ids[TOPIC]] = it.image.partitions[
        it.image.topic_ids[TOPIC]
    ]
    counter.update(before, delta)
    found = counter.counts()
    return found.unclean_elections, found.eligible_elections


def copied(image: Image) -> Image:
    return Image(
        topics=image.topics.copy(),
        partitions={key: value.copy() for key, value in image.partitions.items()},
    )


def test_unclean_elections_and_those_of_eligible_replicas_are_counted_apart() -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2, 3], min_insync_replicas="2")
    it.alter([1, 2])
    it.alter([1])
    before = copied(it.image)
    it.fence(1)
    assert (it.partition().leader, elections(it, before)) == (2, (0, 1))
    it = BrokerCluster((1, 2), level=15)
    it.create([1, 2], topic=TOPIC, unclean_leader_election_enable="true")
    it.alter([1])
    before = copied(it.image)
    it.fence(1)
    assert (it.partition().leader, elections(it, before)) == (2, (1, 0))
    assert elections(it, copied(it.image)) == (0, 0)


def test_memory_of_partitions_grows_with_their_number() -> None:
    it = BrokerCluster((1, 2))
    it.create([1, 2], topic="a")
    one = counts(it.image).size
    it.create(*([1, 2] for _ in range(100)), topic="b")
    assert 150 < (counts(it.image).size - one) / 100 < 300


def test_min_isr_counts_as_java_reads_it_and_as_one_where_it_is_no_number() -> None:
    numbers = {"2": 2, " 2": 2, "+2\n": 2, "002": 2, "\u0662": 2}
    others = ("", "x", "-1", "\u00a02", "2_0", "9" * 5000)
    for text, expected in {**numbers, **dict.fromkeys(others, 1)}.items():
        configs = {(2, "a"): {"min.insync.replicas": text}}
        assert cluster_counts._min_isr(configs, "a") == expected


@pytest.mark.parametrize("fenced_first", [False, True])
def test_partition_placed_on_a_dead_broker_is_offline_once_that_is_fenced_or_unregistered(
    fenced_first: bool,
) -> None:
    """Until its session ends a dead broker counts as usable, as in Kafka's
    ``ClusterControlManager.usableBrokers``; replicas stay assigned to it for ever.
    """
    cluster = BrokerCluster((1, 2))
    cluster.create([2])
    assert counts(cluster.image).offline == 0
    if fenced_first:
        cluster.fence(2)
        assert counts(cluster.image).offline == 1
    answer = cluster.ask(UnregisterBrokerRequest(broker_id=2))
    assert answer.error_code == 0
    assert counts(cluster.image).offline == 1
    assert (cluster.partition().replicas, cluster.partition().leader) == ([2], -1)
