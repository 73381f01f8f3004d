"""Starts the two brokers of the bench of the data path, and makes and removes topics on them.

Both have one node, and both are asked by the same requests.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kwire.header import encode_request_header
from kwire.message import Message
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol import ErrorCode
from tools import java
from tools.gateway_process import gateway
from tools.java import KAFKA_VERSION
from tools.kafka import FULL_SPEED, kafka
from tools.wire_client import WireClient

_CREATE, _DELETE, _LIST = 5, 4, 7
_LATEST = -1
_TIMEOUT_MS = 60_000
_CLIENT = "bench"


@dataclass(frozen=True)
class DataServer:
    """A broker that runs."""

    name: str
    address: str
    pid: int

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic; return when its partitions have leaders. Raises OSError."""
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        with WireClient(self.address) as client:
            asked = CreateTopicsRequest(topics=[new], timeout_ms=_TIMEOUT_MS)
            (created,) = client.call(asked, _CREATE).topics
            if created.error_code:
                raise OSError(f"{self.name}: {topic} was not created: {created.error_code}")
        while any(error for error, _ in self._ends(topic, range(partitions))):
            pass

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        with WireClient(self.address) as client:
            client.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=_TIMEOUT_MS), _DELETE)

    def end(self, topic: str, index: int = 0) -> int:
        """Return the end offset of a partition. Raises OSError."""
        ((error, offset),) = self._ends(topic, [index])
        if error:
            raise OSError(f"{self.name}: {topic}-{index} cannot be read: {ErrorCode(error).name}")
        return offset

    def _ends(self, topic: str, indexes: Iterable[int]) -> list[tuple[int, int]]:
        """The error, and the end offset, of each of these partitions."""
        partitions = [
            ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes
        ]
        asked = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
        )
        with WireClient(self.address) as client:
            found = client.call(asked, _LIST).topics[0].partitions
        return [(one.error_code, one.offset) for one in found]


@contextlib.contextmanager
def both() -> Iterator[tuple[DataServer, DataServer]]:
    """Run kwire and Kafka. Raises JavaError, ProcessError."""
    java.java()
    java.class_path()
    properties = {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        # Logs of topics that are gone, which a bench writes by the gigabyte.
        "log.segment.delete.delay.ms": "1000",
    }
    with (
        tempfile.TemporaryDirectory(prefix="kwire-bench-") as scratch,
        gateway("--data-dir", str(Path(scratch) / "node")) as own,
        kafka(properties=properties, options=FULL_SPEED) as cluster,
    ):
        yield (
            DataServer("kwire", own.bootstrap, own.pid),
            DataServer(f"Kafka {KAFKA_VERSION}", cluster.bootstrap, cluster.nodes[0].pid),
        )


def frame_of(message: Message, version: int, correlation_id: int = 1) -> bytes:
    """Return a request with its length."""
    assert message.API_KEY is not None
    header = encode_request_header(message.API_KEY, version, correlation_id, _CLIENT)
    body = message.encode(version)
    return (len(header) + len(body)).to_bytes(4) + header + body
