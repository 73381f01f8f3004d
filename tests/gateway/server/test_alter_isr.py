"""AlterIsr of KIP-497's text, and AlterPartition by topic name, over a socket: bytes in, bytes out,
and malformed requests.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any, NamedTuple

import trio

from gateway.controller.features import SUPPORTED
from gateway.handlers.table import controller_handlers
from kwire.frame import frame
from kwire.messages.alter_partition_request import AlterPartitionRequest, PartitionData, TopicData
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import made, offered
from tests.gateway.server.harness import Client, connect, run
from tests.gateway.server.own_nodes import OwnNode, lone_node
from tests.waiting import until_async

KEY = 56
#: Partition index, error, leader, epoch, ISR, recovery, partition epoch, and no tags of partition,
#: topic and answer.
ISR_OF_ONE = struct.pack(">ihiibibi", 0, 0, 101, 0, 2, 101, 0, 1) + b"\0\0\0"
ERROR_NONE, UNKNOWN_TOPIC, INVALID_REQUEST, FENCED_LEADER_EPOCH, STALE_BROKER_EPOCH = (
    0,
    3,
    42,
    74,
    77,
)


async def register(node: OwnNode, broker_id: int) -> int:
    """Register and unfence the broker; returns its epoch."""
    directory = Uuid(bytes([broker_id]) * 16)
    request = made(
        "BrokerRegistrationRequest",
        broker_id=broker_id,
        cluster_id=node.log.cluster_id,
        incarnation_id=directory,
        listeners=[{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9092}],
        features=offered(SUPPORTED),
        log_dirs=[directory],
    )
    answer = await node.ask(request, 4, "CONTROLLER")
    assert answer.error_code == 0
    epoch: int = answer.broker_epoch
    beat = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=1 << 40
    )
    assert not (await node.ask(beat, 2, "CONTROLLER")).is_fenced
    return epoch


class Scene(NamedTuple):
    """Brokers 101 and 102 have a partition, which 101 leads."""

    node: OwnNode
    epoch: int

    @property
    def partition(self) -> Any:
        image = self.node.quorum.image
        return image.partitions[image.topic_ids["orders"]][0]


async def scene(node: OwnNode) -> Scene:
    epoch = await register(node, 101)
    await register(node, 102)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[101, 102])
    topic = CreatableTopic(
        name="orders", num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    assert (await node.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)).topics[
        0
    ].error_code == 0
    await until_async(lambda: "orders" in node.topics)
    return Scene(node, epoch)


def alter_isr(
    epoch: int, isr: list[int], *, topic: bytes = b"orders", leader_epoch: int = 0, version: int = 0
) -> bytes:
    """A request by the grammar of KIP-497, behind a header of version 1: the KIP knows no tagged
    fields.
    """
    header = struct.pack(">hhih4s", KEY, 0, 7, 4, b"test")
    body = struct.pack(f">iqih{len(topic)}si", 101, epoch, 1, len(topic), topic, 1)
    partition = struct.pack(f">iiii{len(isr)}ii", 0, 101, leader_epoch, len(isr), *isr, version)
    return frame(header, body + partition)


async def answered(client: Client, request: bytes) -> tuple[int, list[int]]:
    """Decode top-level error and partition errors by hand."""
    await client.send(request)
    data = await client.frame()
    correlation_id, error, topics = struct.unpack_from(">ihi", data)
    assert correlation_id == 7
    at, errors = 10, []
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, at)
        (partitions,) = struct.unpack_from(">i", data, at + 2 + length)
        at += 6 + length
        for _ in range(partitions):
            errors.append(struct.unpack_from(">ih", data, at)[1])
            at += 6
    assert at == len(data), "the answer has what the grammar says and nothing else"
    return error, errors


def test_alter_isr_request_and_response_have_the_bytes_of_kip_497(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data") as node:
            it = await scene(node)
            async with await connect(node.ports["CONTROLLER"]) as client:
                assert await answered(client, alter_isr(it.epoch, [101])) == (0, [ERROR_NONE])
                await until_async(lambda: it.partition.isr == [101])
                assert it.partition.partition_epoch == 1
                assert await answered(client, alter_isr(it.epoch, [101, 102], leader_epoch=-1)) == (
                    0,
                    [FENCED_LEADER_EPOCH],
                )
                assert await answered(client, alter_isr(it.epoch, [101, 103], version=1)) == (
                    0,
                    [INVALID_REQUEST],
                )
                assert await answered(client, alter_isr(it.epoch, [101], topic=b"other")) == (
                    0,
                    [UNKNOWN_TOPIC],
                )
                assert await answered(client, alter_isr(it.epoch + 1, [101])) == (
                    STALE_BROKER_EPOCH,
                    [],
                )
                assert await answered(client, alter_isr(it.epoch, [101, 102], version=1)) == (
                    0,
                    [ERROR_NONE],
                )
                await until_async(lambda: it.partition.isr == [101, 102])

    run(main)


def test_old_versions_are_not_advertised_and_not_served_to_clients(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data") as node:
            versions = await node.ask(
                ApiVersionsRequest(client_software_name="test", client_software_version="1"),
                4,
                "CONTROLLER",
            )
            assert [
                (one.min_version, one.max_version)
                for one in versions.api_keys
                if one.api_key == KEY
            ] == [(2, 3)]
            async with await connect(node.ports["PLAINTEXT"]) as client:
                await client.send(alter_isr(0, [1]))
                assert await client.closed() == b""

    run(main)


def test_version_1_names_topics_by_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with lone_node(tmp_path / "data") as node:
            it = await scene(node)
            old = controller_handlers()[KEY].request_type(1)
            # Header 2 and a flexible body: KIP-704 as it shipped, with the leader's recovery behind
            # the ISR.
            header = struct.pack(">hhih4sb", KEY, 1, 7, 4, b"test", 0)
            isr = struct.pack(">bi", 2, 101)
            partition = struct.pack(">ii", 0, 0) + isr + struct.pack(">bib", 0, 0, 0)
            body = struct.pack(">iqbb6sb", 101, it.epoch, 2, 7, b"orders", 2) + partition + b"\0\0"
            assert old.decode(body, 1).encode(1) == body
            async with await connect(node.ports["CONTROLLER"]) as client:
                await client.send(frame(header, body))
                start = struct.pack(">ibihbb6sb", 7, 0, 0, 0, 2, 7, b"orders", 2)
                assert await client.frame() == start + ISR_OF_ONE

    run(main)


def test_malformed_request_closes_its_connection_and_changes_nothing(tmp_path: Path) -> None:
    rand = random.Random(56)

    async def main() -> None:
        async with lone_node(tmp_path / "data") as node:
            it = await scene(node)
            whole = alter_isr(it.epoch, [101])[4:]
            for number in range(300):
                data = bytearray(whole)
                for _ in range(1 + number % 4):
                    at = rand.randrange(4, len(data))
                    match rand.randrange(3):
                        case 0:
                            data[at] = rand.choice((0, 1, 0x7F, 0x80, 0xFF))
                        case 1:
                            del data[max(at, 8) :]
                        case _:
                            data[at:at] = rand.randbytes(3)
                async with await connect(node.ports["CONTROLLER"]) as client:
                    await client.send(frame(bytes(data)))
                    with trio.move_on_after(1):
                        await client.stream.receive_some()
            counts = node.ready.reports.counts
            assert counts["internal error"] == 0 and counts["controller request failed"] == 0
            assert counts["bad request"] > 50
            now = await node.ask(
                AlterPartitionRequest(
                    broker_id=101,
                    broker_epoch=it.epoch,
                    topics=[
                        TopicData(
                            topic_id=it.partition.topic_id,
                            partitions=[PartitionData(partition_index=7)],
                        )
                    ],
                ),
                3,
                "CONTROLLER",
            )
            assert now.topics[0].partitions[0].error_code == UNKNOWN_TOPIC

    run(main)
