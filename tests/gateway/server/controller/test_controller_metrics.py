"""Metrics of the controller: counts of the committed cluster, and figures of decisions."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gateway.controller.partition_index import Elections
from gateway.server.controller.controller_metrics import (
    ClusterCounts,
    ControllerFacts,
    ControllerMeasures,
    ImageCounter,
)
from gateway.slices import run as run_slices
from gateway.sources.metadata_loader import MetadataLoader
from kwire.cluster import Delta, Image, apply
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.create_topics_request import CreateTopicsRequest
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.register_broker_record import RegisterBrokerRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.uuid import Uuid
from tests.gateway.controller.broker_cluster import TOPIC, BrokerCluster
from tests.gateway.server.harness import run, until
from tests.gateway.server.own_nodes import lone_node
from tests.gateway.server.test_alter_isr import scene
from tests.gateway.server.test_own_quorum import metric
from tests.gateway.steps import calls_per_step

PREFIX = "kafka_controller_kafkacontroller_"


def test_memory_of_partitions_grows_with_their_number() -> None:
    it = BrokerCluster((1, 2))
    it.create([1, 2], topic="a")
    counter = ImageCounter()
    run_slices(counter.count(it.image))
    one = counter.image_bytes
    it.create(*([1, 2] for _ in range(100)), topic="b")
    run_slices(counter.count(it.image))
    assert 150 < (counter.image_bytes - one) / 100 < 300


def test_brokers_and_partitions_are_counted() -> None:
    it = BrokerCluster((1, 2, 3, 4))
    it.create([1, 2], [2, 1], topic="a")
    it.create([3], topic="b")
    it.create([1, 4])
    assert run_slices(ImageCounter().count(it.image)) == ClusterCounts(4, 0, 0, 3, 4, 0, 0)
    it.heartbeat(1, want_shut_down=True)
    assert run_slices(ImageCounter().count(it.image)) == ClusterCounts(4, 0, 1, 3, 4, 0, 2), (
        "a broker that is about to leave is active, and leads nothing"
    )
    it.fence(3)
    assert run_slices(ImageCounter().count(it.image)) == ClusterCounts(3, 1, 1, 3, 4, 1, 3), (
        "who is led by nobody is not led by its first replica"
    )


def test_image_is_counted_again_only_after_records_that_change_counts() -> None:
    image, looks = Image(), []

    class Brokers(dict[int, RegisterBrokerRecord]):
        def values(self) -> Any:
            looks.append(1)
            return super().values()

    image.brokers = Brokers()
    loader = SimpleNamespace(
        image=image,
        records={},
        snapshot_loads=0,
        skipped={"damaged": 2, "does not fit": 1},
        next_offset=8,
    )
    told = ControllerFacts(cast(MetadataLoader, loader), lambda: None)
    assert told.cluster.partitions == 0
    at_first = len(looks)
    loader.records = {"NO_OP_RECORD": 9, "CONFIG_RECORD": 1}
    run_slices(told.count())
    assert told.cluster.partitions == 0 and len(looks) == at_first
    loader.records["PARTITION_RECORD"] = 1
    topic_id = Uuid(bytes(16))
    image.partitions = {topic_id: {0: PartitionRecord(leader=-1, replicas=[1])}}
    run_slices(told.count())
    assert (
        told.cluster.partitions,
        told.cluster.offline_partitions,
        told.cluster.imbalanced_partitions,
    ) == (1, 1, 1)
    image.partitions = {}
    loader.snapshot_loads = 1
    run_slices(told.count())
    assert told.cluster.partitions == 0, "a snapshot has no records of the log"
    assert (told.errors, told.applied_offset, told.is_active) == (3, 7, False)


def test_incremental_count_equals_a_full_count() -> None:
    """The image changes as a node's does: by deltas."""
    image, generator, counting = Image(), random.Random(1), ImageCounter()
    topics = [Uuid(bytes([number]) * 16) for number in range(1, 6)]
    for _ in range(200):
        delta = Delta(image)
        for topic_id in generator.sample(topics, 2):
            if topic_id not in delta.image.topics:
                apply(delta.image, TopicRecord(name=str(topic_id), topic_id=topic_id))
            elif generator.random() < 0.1:
                apply(delta.image, RemoveTopicRecord(topic_id=topic_id))
                continue
            leader, replicas = generator.choice((-1, 1, 2)), generator.choice(([1, 2], [2, 1]))
            index = generator.randrange(4)
            apply(
                delta.image,
                PartitionRecord(
                    topic_id=topic_id, partition_id=index, leader=leader, replicas=replicas
                ),
            )
        delta.commit()
        assert run_slices(counting.count(image)) == run_slices(ImageCounter().count(image))


def test_a_large_cluster_is_counted_in_slices() -> None:
    image = Image()
    for number in range(100):
        topic_id = Uuid(number.to_bytes(16, "big"))
        image.partitions[topic_id] = {
            index: PartitionRecord(leader=1, replicas=[1]) for index in range(200)
        }
    counts, calls = calls_per_step(ImageCounter().count(image))
    assert counts.partitions == 20_000
    assert calls < 5_000


def test_decisions_are_counted_and_timed() -> None:
    measures = ControllerMeasures()
    measures.decided(0.01)
    measures.too_late([CreateTopicsRequest(), BrokerHeartbeatRequest()])
    assert (measures.started, measures.timed_out, measures.heartbeats_timed_out) == (1, 2, 1)
    assert 0 < (measures.processing.percentile(0.99) or 0) < 1
    for epoch, leader_id in ((-1, -1), (1, 2), (1, 2), (2, -1), (3, 2), (4, 1)):
        measures.leader_is(epoch, leader_id)
    assert measures.new_controllers == 3, (
        "the same one in another epoch is a new one, and nobody is none"
    )


def test_elections_of_earlier_controllers_are_kept() -> None:
    measures, told = ControllerMeasures(), Elections(2, 1)
    assert measures.elections(told) == told
    measures.leads_no_more(told)
    assert measures.elections(Elections()) == told
    assert measures.elections(Elections(1, 1)) == (3, 2)


def test_unclean_elections_and_those_of_eligible_replicas_are_counted_apart() -> None:
    it = BrokerCluster((1, 2, 3))
    it.create([1, 2, 3], min_insync_replicas="2")
    assert it.controller.elections == Elections()
    it.alter([1, 2])
    it.alter([1])
    it.fence(1)
    assert (it.partition().leader, it.controller.elections) == (2, Elections(unclean=0, eligible=1))
    it = BrokerCluster((1, 2), level=15)
    it.create([1, 2], topic=TOPIC, unclean_leader_election_enable="true")
    it.alter([1])
    it.fence(1)
    assert (it.partition().leader, it.controller.elections) == (2, Elections(unclean=1, eligible=0))


def test_running_controller_has_kafkas_metrics(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data", management_listener="127.0.0.1:0") as node:
            await scene(node)
            seen = node.quorum.controller.facts.measures
            await until(lambda: seen.new_controllers == 1)
            told = {
                name: (await metric(node, PREFIX + name))[""]
                for name in (
                    "activecontrollercount",
                    "activebrokercount",
                    "fencedbrokercount",
                    "globaltopiccount",
                    "globalpartitioncount",
                    "offlinepartitionscount",
                    "preferredreplicaimbalancecount",
                    "metadataerrorcount",
                    "newactivecontrollerscount",
                    "eventqueueoperationstimedoutcount",
                )
            }
            assert list(told.values()) == [1, 2, 0, 1, 1, 0, 0, 0, 1, 0]
            [started] = (await metric(node, PREFIX + "eventqueueoperationsstartedcount")).values()
            assert started >= 5, "two registrations, two heartbeats, a topic"
            [took_ms] = (
                await metric(
                    node, "kafka_controller_controllereventmanager_eventqueueprocessingtimems_p99"
                )
            ).values()
            assert 0 < took_ms < 5000

    run(main)
