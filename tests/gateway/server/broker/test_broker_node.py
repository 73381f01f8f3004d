"""A node that is broker and controller: topics get logs, batches are kept, and everything that was
acknowledged is there after a crash.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.broker.lifecycle import BrokerState
from gateway.config.checks import check
from gateway.config.config import Config, ConfigError
from gateway.log.files.clean_shutdown import FILE_NAME
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.init_producer_id_request import InitProducerIdRequest
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol import ErrorCode
from kwire.records import decode_batches
from tests.gateway.broker.produce.batches import NOW_MS, produced
from tests.gateway.server.harness import connect, request, run
from tests.gateway.server.own_nodes import OwnNode, lone_config, lone_node, own_node
from tests.waiting import until_async


def in_loop(test: Callable[[Path], Awaitable[None]]) -> Callable[[Path], None]:
    """Make a test of an async function."""

    def wrapped(tmp_path: Path) -> None:
        run(partial(test, tmp_path))

    wrapped.__name__ = wrapped.__qualname__ = test.__name__
    return wrapped


def broker(data_dir: Path, **more: Any) -> Any:
    return lone_node(data_dir, process_roles="broker,controller", **more)


def log_of(data_dir: Path, pattern: str) -> bytes:
    """The first segment of the one directory with that name."""
    (directory,) = data_dir.glob(pattern)
    return (directory / "00000000000000000000.log").read_bytes()


async def unfenced(node: OwnNode) -> None:
    """Wait until the broker of the node leads what it can."""
    own = node.ready.services.source.broker
    assert own is not None
    await until_async(lambda: own.lifecycle.state is BrokerState.RUNNING)


async def with_topic(node: OwnNode, name: str = "t") -> None:
    await unfenced(node)
    assert await node.create(name) == 0


async def produce(
    node: OwnNode, *values: bytes, topic: str = "t", acks: int = -1, **header: Any
) -> Any:
    """Produce one batch; send it again while the leader is not known, as clients do."""
    data = produced(*values, **header)
    message = ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        transactional_id=None,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(data))]
            )
        ],
    )
    found: Any = None
    while found is None or found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        answer = await node.ask(message, 12)
        (found,) = answer.responses[0].partition_responses
    return found


async def set_retention(node: OwnNode, topic: str, retention_ms: int) -> None:
    """Set ``retention.ms`` of a topic."""
    await alter_config(node, TOPIC_RESOURCE, topic, "retention.ms", str(retention_ms))


async def alter_config(node: OwnNode, kind: int, resource: str, name: str, value: str) -> None:
    """Set a config of a topic, or of brokers."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    altered = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])
    answer = await node.ask(IncrementalAlterConfigsRequest(resources=[altered]), 1)
    assert answer.responses[0].error_code == 0


async def consume(
    node: OwnNode, topic: str = "t", offset: int = 0
) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record from ``offset`` on."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    message = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    answer = await node.ask(message, 12)
    (part,) = answer.responses[0].partitions
    assert part.error_code == 0
    return [
        (record.offset, record.value)
        for batch in decode_batches(part.records)
        for record in batch.records
    ]


@in_loop
async def test_records_of_a_topic_are_there_after_the_process_was_killed(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        assert (await produce(node, b"a", b"b")).base_offset == 0
        assert (await produce(node, b"c", acks=1)).base_offset == 2
        await node.cut_off()
    (tmp_path / FILE_NAME).unlink()  # a killed process leaves none
    async with broker(tmp_path) as node:
        await unfenced(node)
        assert (await produce(node, b"d")).base_offset == 3
        assert await consume(node) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
        # A new leader: consumers that have the old epoch ask for the end of it.
        (record,) = node.quorum.image.partitions[node.quorum.image.topic_ids["t"]].values()
        assert record.leader_epoch > 0


@in_loop
async def test_clean_stop_is_noted_and_the_note_is_taken_at_the_next_start(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"a")
        epoch = node.quorum.image.brokers[1].broker_epoch
    assert f'"brokerEpoch":{epoch}' in (tmp_path / FILE_NAME).read_text()
    async with broker(tmp_path) as node:
        await unfenced(node)
        assert not (tmp_path / FILE_NAME).exists()
        assert await consume(node) == [(0, b"a")]


@in_loop
async def test_fetch_that_waits_is_answered_by_an_append(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"a")
        wanted = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        waiting = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])]
        )
        async with await connect(node.ports["PLAINTEXT"]) as client:
            await client.send(request(1, 12, waiting.encode(12)))
            await produce(node, b"b")
            _, answer = await client.answer(1, 12)
        assert answer.responses[0].partitions[0].high_watermark == 2


@in_loop
async def test_deleted_topic_takes_its_records_with_it(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"a")
        assert (tmp_path / "t-0").exists()
        deletion = DeleteTopicsRequest(
            topics=[DeleteTopicState(name="t")], topic_names=[], timeout_ms=10_000
        )
        answer = await node.ask(deletion, 6)
        assert answer.responses[0].error_code == 0
        await until_async(lambda: not (tmp_path / "t-0").exists())
        assert (await produce(node, b"b")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await node.create("t") == 0
        assert (await produce(node, b"c")).base_offset == 0
        assert await consume(node) == [(0, b"c")]


@in_loop
async def test_directory_of_no_topic_is_set_aside_and_its_records_are_kept(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"a")
    (tmp_path / "t-0").rename(tmp_path / "gone-0")
    async with broker(tmp_path) as node:
        await unfenced(node)
        await until_async(lambda: (tmp_path / "t-0").exists())
        assert b"a" in log_of(tmp_path, "gone-0.*-stray")
        assert log_of(tmp_path, "__cluster_metadata-0")
        assert await consume(node) == []


@in_loop
async def test_requests_without_acks_are_handled_and_not_answered(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"a")
        data = PartitionProduceData(index=0, records=bytes(produced(b"b")))
        silent = ProduceRequest(
            acks=0,
            transactional_id=None,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        async with await connect(node.ports["PLAINTEXT"]) as client:
            await client.send(request(0, 12, silent.encode(12), 1) * 3)
            await client.send(
                request(22, 4, InitProducerIdRequest(transactional_id=None).encode(4), 7)
            )
            correlation_id, answer = await client.answer(22, 4)
            assert (correlation_id, answer.error_code) == (7, 0)
        values = [value for _, value in await consume(node)]
        assert values == [b"a", b"b", b"b", b"b"]


@in_loop
async def test_request_without_acks_that_fails_ends_the_connection(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"a")
        data = PartitionProduceData(index=0, records=b"wrong")
        silent = ProduceRequest(
            acks=0,
            transactional_id=None,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        async with await connect(node.ports["PLAINTEXT"]) as client:
            await client.send(request(0, 12, silent.encode(12)))
            assert await client.closed() == b""


@in_loop
async def test_producers_get_ids_that_no_other_has_also_after_a_restart(tmp_path: Path) -> None:
    wanted = InitProducerIdRequest(transactional_id=None)
    async with broker(tmp_path) as node:
        await unfenced(node)
        found = [(await node.ask(wanted, 4)).producer_id for _ in range(3)]
    async with broker(tmp_path) as node:
        await unfenced(node)
        found += [(await node.ask(wanted, 4)).producer_id for _ in range(3)]
    assert len(set(found)) == 6 and min(found) >= 0


@in_loop
async def test_idempotent_batch_is_kept_once_across_a_restart(tmp_path: Path) -> None:
    header: Any = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    async with broker(tmp_path) as node:
        await with_topic(node)
        assert (await produce(node, b"a", **header)).base_offset == 0
        assert (await produce(node, b"a", **header)).base_offset == 0
        await node.cut_off()
    async with broker(tmp_path) as node:
        await unfenced(node)
        assert (await produce(node, b"a", **header)).base_offset == 0
        assert await consume(node) == [(0, b"a")]


@in_loop
async def test_producer_ids_are_those_of_the_registered_broker(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await unfenced(node)
        epoch = node.quorum.image.brokers[1].broker_epoch
        stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1)
        answer = await node.ask(stale, 0, "CONTROLLER")
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_broker_needs_a_quorum_of_one_in_one_process(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="workers"):
        check(Config(process_roles="broker,controller", data_dir=tmp_path, workers=2))
    with pytest.raises(ConfigError, match=r"process\.roles"):
        check(Config(process_roles="broker,controller", source="sample"))


@in_loop
async def test_controller_alone_keeps_no_records(tmp_path: Path) -> None:
    async with own_node(lone_config(tmp_path)) as node:
        await until_async(lambda: node.quorum.controller.is_active)
        assert await node.create("t") == 0
        refused = await produce(node, b"a")
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert node.quorum.image.brokers == {} and not (tmp_path / "t-0").exists()


@in_loop
async def test_retention_deletes_old_segments_of_a_topic_and_no_others(tmp_path: Path) -> None:
    async with broker(tmp_path, log_retention_check_interval_ms=20) as node:
        await with_topic(node, "old")
        await with_topic(node, "new")
        await set_retention(node, "new", -1)
        await produce(node, b"a", topic="old")  # its timestamp is years before retention.ms
        await produce(node, b"a", topic="new", acks=1)
        find = node.ready.services.partitions.find
        old: Any = find("old", 0)
        await until_async(lambda: old.log_start_offset == 1)
        assert await consume(node, "new") == [(0, b"a")]
        assert (await produce(node, b"b", topic="old")).base_offset == 1


@in_loop
async def test_sizes_and_producers_of_a_partition_are_described(tmp_path: Path) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        header: Any = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 7}
        await produce(node, b"a", b"b", **header)
        answer = await node.ask(DescribeLogDirsRequest(topics=None), 4)
        (found,) = answer.results
        sizes = {topic.name: topic.partitions[0].partition_size for topic in found.topics}
        assert sizes["t"] == (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size
        assert sizes["__cluster_metadata"] > 0
        asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])])
        answer = await node.ask(asked, 0)
        here, missing = answer.topics[0].partitions
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (one,) = here.active_producers
        assert (one.producer_id, one.producer_epoch, one.last_sequence) == (5, 2, 8)
        assert (one.last_timestamp, one.current_txn_start_offset) == (NOW_MS, -1)


@in_loop
async def test_directory_of_a_partition_that_is_placed_elsewhere_is_set_aside(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"kept")
        await node.cut_off()
    shutil.copytree(tmp_path / "t-0", tmp_path / "t-7")
    async with broker(tmp_path) as node:
        await unfenced(node)
        assert await consume(node) == [(0, b"kept")]
    assert not (tmp_path / "t-7").exists()
    assert b"kept" in log_of(tmp_path, "t-7.*-stray")


@in_loop
async def test_rack_of_the_broker_is_registered(tmp_path: Path) -> None:
    async with broker(tmp_path, broker_rack="r1") as node:
        await unfenced(node)
        assert [one.rack for one in node.quorum.image.brokers.values()] == ["r1"]


@in_loop
async def test_topic_made_again_waits_until_the_old_directory_is_gone(tmp_path: Path) -> None:
    async with broker(tmp_path, metadata_audit_enable=False) as node:
        await with_topic(node)
        await produce(node, b"old")
        own = node.ready.services.source.broker
        assert own is not None
        manager = own.replicas
        remove, begun, may_end = manager.logs.remove, threading.Event(), threading.Event()

        def slowly(directory: Path, *, delay_ms: int) -> None:
            begun.set()
            may_end.wait()
            remove(directory, delay_ms=delay_ms)

        manager.logs.remove = slowly
        try:
            name = DeleteTopicState(name="t")
            await node.ask(DeleteTopicsRequest(topics=[name], timeout_ms=5000), 6)
            await until_async(begun.is_set, "the directory is being removed")
            assert await node.create("t") == 0
            await until_async(lambda: len(manager.partitions) == 1, "the new topic is known")
            # A thread that did not wait would have opened it by then.
            await trio.sleep(0.5)
            (new,) = manager.partitions
            assert new.stored.log is None
        finally:
            may_end.set()
        await produce(node, b"new")
        assert await consume(node) == [(0, b"new")]


@in_loop
async def test_partition_whose_log_is_not_open_yet_is_led_elsewhere_for_clients(
    tmp_path: Path,
) -> None:
    """They ask again. An error about offsets would tell some of them that records are gone."""
    async with broker(tmp_path) as node:
        await with_topic(node)
        await produce(node, b"a")
        image = node.quorum.image
        (record,) = image.partitions[image.topic_ids["t"]].values()
        replicas = node.ready.services.replicas
        assert replicas is not None
        found: Any = replicas.find(record)
        assert found.high_watermark == 1
        found.close()
        assert replicas.find(record) is ErrorCode.NOT_LEADER_OR_FOLLOWER
