"""AlterReplicaLogDirs: a log is in a directory of its node, or cannot get there."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import alter_replica_log_dirs
from gateway.ports.pending_response import WorkType
from gateway.ports.work import completed
from kwire.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import NODE, build, over_the_wire


class Directories(dict[str, bool]):
    """The directories of a broker, all of whose logs are in the first."""

    def directories(self) -> dict[str, bool]:
        return self

    def move(self, record: Any, path: str) -> ErrorCode:
        assert path == next(iter(self)), "one that is online"
        return ErrorCode.NONE if NODE in record.replicas else ErrorCode.REPLICA_NOT_AVAILABLE


class BrokerWorld(OwnWorld):
    """A node with a topic, one of whose partitions is on another node."""

    def __init__(self) -> None:
        super().__init__()
        self.create("t", [NODE], [NODE + 1])
        self.replicas: Any = Directories({self.directory: True, "/failed": False})

    def alter(self, version: int, path: str, topics: dict[str, list[int]]) -> list[Any]:
        wanted = {
            "dirs": [
                {
                    "path": path,
                    "topics": [
                        {"name": name, "partitions": indexes} for name, indexes in topics.items()
                    ],
                }
            ]
        }
        data = build(AlterReplicaLogDirsRequest, wanted).encode(version)
        request = AlterReplicaLogDirsRequest.decode(data, version)
        answer = alter_replica_log_dirs.handle(request, self.context(version))
        answer = completed(answer) if isinstance(answer, WorkType) else answer
        return [
            (topic.topic_name, part.partition_index, part.error_code)
            for topic in over_the_wire(answer, version).results
            for part in topic.partitions
        ]

    @property
    def directory(self) -> str:
        return str(self.context(2).gateway.partition.log_dir)


@pytest.mark.parametrize("version", alter_replica_log_dirs.VERSIONS)
def test_log_that_is_in_the_directory_stays_there(version: int) -> None:
    world = BrokerWorld()
    asked = {"t": [0, 1, 2], "u": [0], CLUSTER_METADATA_TOPIC: [0]}
    assert world.alter(version, world.directory, asked) == [
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.REPLICA_NOT_AVAILABLE),
        ("t", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("u", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (CLUSTER_METADATA_TOPIC, 0, ErrorCode.REPLICA_NOT_AVAILABLE),
    ]


def test_directory_that_the_node_does_not_have_is_not_found() -> None:
    found = BrokerWorld().alter(2, "/elsewhere", {"t": [0], "u": [0]})
    assert found == [("t", 0, ErrorCode.LOG_DIR_NOT_FOUND), ("u", 0, ErrorCode.LOG_DIR_NOT_FOUND)]


def test_directory_that_is_offline_takes_no_log() -> None:
    found = BrokerWorld().alter(2, "/failed", {"t": [0]})
    assert found == [("t", 0, ErrorCode.KAFKA_STORAGE_ERROR)]


def test_node_that_is_no_broker_has_no_log_of_the_topic() -> None:
    world = BrokerWorld()
    world.replicas = None
    found = world.alter(2, world.directory, {"t": [0]})
    assert found == [("t", 0, ErrorCode.REPLICA_NOT_AVAILABLE)]


def test_request_of_many_partitions_is_answered_in_slices() -> None:
    world = BrokerWorld()
    found = world.alter(2, world.directory, {"t": [0] * 20_000})
    assert found == [("t", 0, ErrorCode.NONE)] * 20_000
