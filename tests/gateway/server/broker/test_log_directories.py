"""A broker with several log directories (KIP-113, 858): partitions are spread over them, are there
after a restart, and a directory whose disk fails takes its own partitions offline alone.
"""

from __future__ import annotations

import errno
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.config.config import ConfigError
from gateway.log.files.clean_shutdown import FILE_NAME as CLEAN_SHUTDOWN
from gateway.log.files.errors import DiskFailed
from gateway.log.files.meta_properties import FILE_NAME as META_PROPERTIES
from gateway.log.partition.data_directory import read_meta
from gateway.server.broker.replica_manager import ReplicaManager
from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.server.broker.test_broker_alone import broker_of, controller_in
from tests.gateway.server.broker.test_broker_node import (
    consume,
    in_loop,
    produce,
    unfenced,
    with_topic,
)
from tests.gateway.server.own_nodes import OwnNode, lone_node
from tests.waiting import until_async

TOPICS = "abcd"


def broker(directory: Path, *names: str, **more: Any) -> Any:
    """A node with its metadata log in ``m``, and the log directories ``names``."""
    paths = tuple(directory / name for name in names)
    return lone_node(directory / "m", process_roles="broker,controller", log_dirs=paths, **more)


def logs_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name[:-2] in TOPICS)


async def described(node: OwnNode) -> dict[str, tuple[int, list[str]]]:
    """The error of each directory, and the topics of clients in it."""
    answer = await node.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        Path(one.log_dir).name: (
            one.error_code,
            sorted(topic.name for topic in one.topics if not topic.name.startswith("__")),
        )
        for one in answer.results
    }


def assigned(node: OwnNode, topic: str) -> Any:
    """The directory that the image names for the one replica of a topic."""
    image = node.quorum.image
    (directory,) = image.partitions[image.topic_ids[topic]][0].directories
    return directory


def is_assigned(node: OwnNode, topic: str, id: Uuid) -> bool:
    return bool(assigned(node, topic) == id)


def has_log(directory: Path, name: str) -> bool:
    return name in logs_in(directory)


async def all_assigned(node: OwnNode, directory: Path) -> dict[str, str]:
    """Wait until the controller knows in which of ``m`` and ``x`` each topic is; return that."""
    homes = {log[0]: home for home in ("m", "x") for log in logs_in(directory / home)}
    for topic, home in homes.items():
        id = directory_id(directory / home)
        await until_async(partial(is_assigned, node, topic, id), "the controller knows")
    return homes


def directory_id(path: Path) -> Any:
    known = read_meta(path)
    assert known is not None
    return known.directory_id


@in_loop
async def test_new_partitions_go_to_the_directory_with_the_fewest_logs(tmp_path: Path) -> None:
    async with broker(tmp_path, "m", "x") as node:
        for name in TOPICS:
            await with_topic(node, name)
            await produce(node, name.encode(), topic=name)
        assert [len(logs_in(tmp_path / name)) for name in ("m", "x")] == [2, 2]
        assert await described(node) == {
            "m": (0, [one[0] for one in logs_in(tmp_path / "m")]),
            "x": (0, [one[0] for one in logs_in(tmp_path / "x")]),
        }
        ids = {name: directory_id(tmp_path / name) for name in ("m", "x")}
        assert ids["m"] != ids["x"]
        (own,) = node.quorum.image.brokers.values()
        assert sorted(own.log_dirs) == sorted(ids.values())
        await all_assigned(node, tmp_path)
    assert (tmp_path / "m" / CLEAN_SHUTDOWN).exists() and (tmp_path / "x" / CLEAN_SHUTDOWN).exists()
    before = logs_in(tmp_path / "x")
    # The order of the directories, and the one with the metadata log, do not matter to the others.
    async with broker(tmp_path, "x", "y", "m") as node:
        await unfenced(node)
        for name in TOPICS:
            assert await consume(node, name) == [(0, name.encode())]
        assert logs_in(tmp_path / "x") == before and logs_in(tmp_path / "y") == []
        await with_topic(node, "e")
        assert (await described(node))["y"] == (0, ["e"])


@in_loop
async def test_log_is_found_in_the_directory_that_it_was_moved_to(tmp_path: Path) -> None:
    async with broker(tmp_path, "m", "x") as node:
        await with_topic(node, "a")
        await produce(node, b"1", topic="a")
        await with_topic(node, "b")
        await produce(node, b"2", topic="b")
        await all_assigned(node, tmp_path)
    (first,) = logs_in(tmp_path / "m")
    (second,) = logs_in(tmp_path / "x")
    shutil.move(tmp_path / "m" / first, tmp_path / "x" / first)
    # A copy that is left behind is not used, and not lost.
    shutil.copytree(tmp_path / "x" / second, tmp_path / "m" / second)
    async with broker(tmp_path, "m", "x") as node:
        await unfenced(node)
        id = directory_id(tmp_path / "x")
        await until_async(lambda: assigned(node, first[0]) == id, "the controller is told")
        assert [value for _, value in await consume(node, first[0])] == [
            b"1" if first[0] == "a" else b"2"
        ]
        assert logs_in(tmp_path / "x") == sorted((first, second))
        assert len(list((tmp_path / "m").glob(second + ".*-stray"))) == 1


@in_loop
async def test_metadata_log_may_be_outside_the_log_directories(tmp_path: Path) -> None:
    async with broker(tmp_path, "x", "y") as node:
        await with_topic(node, "a")
        assert (await described(node)).keys() == {"x", "y"}
    assert logs_in(tmp_path / "m") == [] and not (tmp_path / "m" / CLEAN_SHUTDOWN).exists()


async def refusal(directory: Path, *names: str) -> str:
    with pytest.RaisesGroup(ConfigError, flatten_subgroups=True) as raised:
        async with broker(directory, *names):
            pass
    return str(raised.value.exceptions[0])


@in_loop
async def test_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async with broker(tmp_path, "m", "x"):
        pass
    shutil.copy(tmp_path / "x" / META_PROPERTIES, tmp_path / "copied")
    (tmp_path / "y").mkdir()
    shutil.move(tmp_path / "copied", tmp_path / "y" / META_PROPERTIES)
    assert "the same directory.id" in await refusal(tmp_path, "m", "x", "y")
    text = (tmp_path / "y" / META_PROPERTIES).read_text().replace("node.id=1", "node.id=7")
    (tmp_path / "y" / META_PROPERTIES).write_text(text)
    assert "belongs to node 7" in await refusal(tmp_path, "m", "y")


def replicas_of(node: OwnNode) -> ReplicaManager:
    broker = node.ready.services.source.broker
    assert broker is not None
    return broker.replicas


def fail(directory: Path) -> None:
    """Let every change of a file in the directory fail from now on."""
    directory.rename(directory.with_name(directory.name + "-failed"))
    directory.write_bytes(b"")


@in_loop
async def test_failed_directory_takes_its_own_partitions_offline(tmp_path: Path) -> None:
    async with broker(tmp_path, "m", "x") as node:
        for name in TOPICS:
            await with_topic(node, name)
            await produce(node, b"1", topic=name)
        id, homes = directory_id(tmp_path / "m"), await all_assigned(node, tmp_path)
        fail(tmp_path / "x")
        own = replicas_of(node)
        for directory in own.logs.directories:
            directory.saved.high_watermarks.note("any", 0, 1)  # the next write is due
        await until_async(lambda: own.offline_count == 2, "the directory is offline")
        assert (await described(node))["x"] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        await until_async(
            lambda: [one.log_dirs for one in node.quorum.image.brokers.values()] == [[id]],
            "the controller knows that the directory is offline",
        )
        for name, home in homes.items():
            if home == "m":
                await produce(node, b"2", topic=name)
                assert [value for _, value in await consume(node, name)] == [b"1", b"2"]
            else:
                image = node.quorum.image
                (record,) = image.partitions[image.topic_ids[name]].values()
                assert record.leader == -1
        await with_topic(node, "e")
        await produce(node, b"1", topic="e")
        assert (tmp_path / "m" / "e-0").exists()
    # The other logs are not made anew while the disk is away.
    async with broker(tmp_path, "m", "x") as node:
        await unfenced(node)
        assert replicas_of(node).offline_count == 2
        assert (await described(node))["x"] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    (tmp_path / "x").unlink()
    (tmp_path / "x-failed").rename(tmp_path / "x")
    async with broker(tmp_path, "m", "x") as node:
        await unfenced(node)
        for name, home in homes.items():
            values = [b"1", b"2"] if home == "m" else [b"1"]
            await produce(node, b"3", topic=name)
            assert [value for _, value in await consume(node, name)] == [*values, b"3"]


@in_loop
async def test_broker_ends_when_its_last_log_directory_fails(tmp_path: Path) -> None:
    async with broker(tmp_path, "x") as node:
        await with_topic(node, "a")
        await produce(node, b"1", topic="a")
        fail(tmp_path / "x")
        await until_async(lambda: bool(node.stopped), "the broker has ended")
        assert "each of log.dirs is offline" in node.stopped[0]


@in_loop
async def test_controllers_elsewhere_are_told_and_move_the_leader_away(tmp_path: Path) -> None:
    async with controller_in(tmp_path) as controller:
        paths = tuple(tmp_path / name for name in ("m", "x"))
        async with (
            broker_of(controller, tmp_path / "m", log_dirs=paths) as first,
            broker_of(controller, tmp_path / "second", node_id=12),
        ):
            topics = [
                CreatableTopic(
                    name=name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=0, broker_ids=[11, 12])
                    ],
                )
                for name in "ab"
            ]
            answer = await first.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
            assert [one.error_code for one in answer.topics] == [0, 0]

            def records() -> list[Any]:
                image = controller.quorum.image
                return [image.partitions[image.topic_ids[name]][0] for name in "ab"]

            ids = {directory_id(path) for path in paths}
            await until_async(
                lambda: {one.directories[0] for one in records()} == ids, "the controller is told"
            )
            await until_async(lambda: all(len(one.isr) == 2 for one in records()))
            failed = directory_id(tmp_path / "x")
            error = DiskFailed("write", "00.log", OSError(errno.EIO, "I/O error"), "")
            first.replicas.disk_failed(first.replicas.logs.directories[1], error)
            await until_async(
                lambda: (
                    sorted(
                        (one.directories[0] == failed, one.leader, sorted(one.isr))
                        for one in records()
                    )
                    == [(False, 11, [11, 12]), (True, 12, [12])]
                ),
                "the other broker leads what was in the directory",
            )


async def alter(node: OwnNode, path: Path, topic: str) -> int:
    """Have the log of a topic moved; returns the error code."""
    wanted = AlterReplicaLogDir(
        path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    )
    answer = await node.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
    code: int = answer.results[0].partitions[0].error_code
    return code


@in_loop
async def test_log_is_moved_while_it_is_written_and_read(tmp_path: Path) -> None:
    async with broker(tmp_path, "m", "x", metadata_audit_enable=False) as node:
        await with_topic(node, "a")
        values = [b"%d" % number for number in range(40)]
        for value in values[:10]:
            await produce(node, value, topic="a")
        homes = await all_assigned(node, tmp_path)
        for number, home in enumerate(("x", "m", "x")):
            if home == homes["a"]:
                continue
            assert await alter(node, tmp_path / home, "a") == 0
            for value in values[10 * (number + 1) : 10 * (number + 2)]:
                await produce(node, value, topic="a")
            await until_async(partial(has_log, tmp_path / home, "a-0"), "the log is there")
            homes["a"] = home
            id = directory_id(tmp_path / home)
            await until_async(partial(is_assigned, node, "a", id), "the controller knows")
            assert (await described(node))[home] == (0, ["a"])
        written = [value for _, value in await consume(node, "a")]
        assert written == values[: len(written)] and len(written) >= 20
        assert logs_in(tmp_path / "m") == [] and logs_in(tmp_path / "x") == ["a-0"]
        assert [
            one for path in ("m", "x") for one in os.listdir(tmp_path / path) if "a-0." in one
        ] == []
    async with broker(tmp_path, "m", "x") as node:
        await unfenced(node)
        await produce(node, b"last", topic="a")
        assert [value for _, value in await consume(node, "a")] == [*written, b"last"]


@in_loop
async def test_directory_is_chosen_before_the_replica_comes(tmp_path: Path) -> None:
    async with controller_in(tmp_path) as controller:
        paths = tuple(tmp_path / name for name in ("m", "x", "y"))
        async with (
            broker_of(controller, tmp_path / "m", log_dirs=paths) as first,
            broker_of(controller, tmp_path / "second", node_id=12) as second,
        ):
            topic = CreatableTopic(
                name="a",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[12])],
            )
            await second.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            await until_async(lambda: "a" in first.image.topic_ids)
            error = await alter(cast(OwnNode, first), tmp_path / "y", "a")
            assert error == ErrorCode.REPLICA_NOT_AVAILABLE
            moved = ReassignableTopic(
                name="a", partitions=[ReassignablePartition(partition_index=0, replicas=[11, 12])]
            )
            request = AlterPartitionReassignmentsRequest(topics=[moved], timeout_ms=10_000)
            assert (await first.ask(request, 0)).error_code == 0
            await until_async(lambda: (tmp_path / "y" / "a-0").exists())


@in_loop
async def test_move_to_a_disk_that_fails_leaves_the_log_where_it_is(tmp_path: Path) -> None:
    async with broker(tmp_path, "x", "y") as node:
        await with_topic(node, "a")
        await produce(node, b"1", topic="a")
        assert await alter(node, tmp_path / "x", "a") == 0
        await until_async(partial(has_log, tmp_path / "x", "a-0"), "the log is there")
        fail(tmp_path / "y")
        assert await alter(node, tmp_path / "y", "a") == 0
        first, second = replicas_of(node).logs.directories
        await until_async(lambda: not second.is_online, "the disk has failed")
        assert first.is_online
        assert await alter(node, tmp_path / "y", "a") == ErrorCode.KAFKA_STORAGE_ERROR
        await produce(node, b"2", topic="a")
        assert [value for _, value in await consume(node, "a")] == [b"1", b"2"]


@in_loop
async def test_directory_of_the_file_has_failed_and_not_that_of_the_partition(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path, "x", "x/y") as node:
        await unfenced(node)
        first, second = replicas_of(node).logs.directories
        file = str(tmp_path / "x" / "y" / "a-0" / "0.log")
        full = DiskFailed("write", file, OSError(errno.ENOSPC, "No space left on device"), "")
        replicas_of(node).disk_failed(first, full)
        assert first.is_online and second.is_online
        error = DiskFailed("write", file, OSError(errno.EIO, "I/O error"), "")
        replicas_of(node).disk_failed(first, error)
        assert first.is_online and not second.is_online
