"""Kafka's broker and kwire's answer ListOffsets and OffsetForLeaderEpoch equally over the same
records: those of one batch and of several segments, deleted ones, and transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from kwire.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol import ErrorCode
from kwire.records import Compression, Record, encode_batch
from tests.interop.clients import need_java
from tests.interop.transaction_cases import Side
from tests.waiting import until
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop

#: Topics by what is special about their records, and their configs.
TOPICS: Final[dict[str, dict[str, str]]] = {
    "empty": {},
    "times": {},
    "segments": {"segment.bytes": str(1 << 20)},
    "deleted": {},
    "emptied": {},
    "open": {},
    "committed": {},
    "aborted": {},
}
#: A timestamp that a server gave, that of a marker, is shown as this one.
NOW: Final = 1_000_000_000_000
#: Of these Kafka tells the largest timestamp of any record, though it is deleted.
DELETED: Final = ("deleted", "emptied")
MAX_TIMESTAMP: Final = -3
#: Of the records in TOPICS, those between and around them, and the special ones.
TIMESTAMPS: Final = (*range(-8, 1), 999, 1000, 1001, 2000, 2500, 3000, 4000, 5000, 5001, 1 << 62)


class OffsetsSide(Side):
    """One of the servers, with the same records as the other one."""

    def write(
        self, topic: str, *timestamps: int, name: str = "", size: int = 1, **more: Any
    ) -> None:
        """Append a batch with these timestamps; in the transaction of id ``name``, if given."""
        records = [
            Record(offset=offset, timestamp=timestamp, value=bytes(size))
            for offset, timestamp in enumerate(timestamps)
        ]
        partition = PartitionProduceData(index=0, records=encode_batch(records, **more))
        request = ProduceRequest(
            transactional_id=name or None,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
        )
        answer = self.call(request, 11).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer

    def write_in_transaction(self, topic: str, name: str) -> Callable[[bool], None]:
        """Append a batch in a transaction, and one outside of it; return what ends it."""
        producer = self.producer(name)
        assert self.add(name, producer, topic=topic) == "NONE"
        self.write(topic, 1000, 2000)
        self.write(
            topic,
            5000,
            3000,
            name=name,
            is_transactional=True,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
        )
        self.write(topic, 4000)
        return lambda commits: self._end(name, producer, commits)

    def _end(self, name: str, producer: tuple[int, int], commits: bool) -> None:
        assert self.end(name, producer, commits=commits, version=4)[0] == "NONE"
        self.state(name)  # waits for the markers

    def delete(self, topic: str, before: int) -> None:
        partition = DeleteRecordsPartition(partition_index=0, offset=before)
        topics = [DeleteRecordsTopic(name=topic, partitions=[partition])]
        answer = self.call(DeleteRecordsRequest(topics=topics, timeout_ms=60_000), 2)
        assert answer.topics[0].partitions[0].error_code == 0

    def fill(self) -> None:
        """Make the topics and their records."""
        self.call(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic,
                        num_partitions=1,
                        replication_factor=1,
                        configs=[
                            CreatableTopicConfig(name=key, value=value)
                            for key, value in {"retention.ms": "-1", **configs}.items()
                        ],
                    )
                    for topic, configs in TOPICS.items()
                ],
                timeout_ms=60_000,
            ),
            7,
        )
        for topic in TOPICS:
            until(lambda topic=topic: self.offset(topic)[0] == "NONE", f"{topic} has a leader")  # type: ignore[misc]
        for topic in ("times", "deleted", "emptied"):
            self.write(topic, 1000, 3000, 2000)
            self.write(topic, 5000, 3000, compression=Compression.GZIP)
            self.write(topic, 4000, 5000, 5000)
            self.write(topic, -1)
        for timestamp in (3000, 1000, 5000, 2000):
            self.write("segments", timestamp, timestamp, size=300_000)
        self.delete("deleted", 4)
        self.delete("emptied", -1)
        self.write_in_transaction("open", self.name())
        self.write_in_transaction("committed", self.name())(True)
        self.write_in_transaction("aborted", self.name())(False)

    def offset(
        self, *topics: str, timestamp: int = -1, version: int = 11, **more: Any
    ) -> tuple[Any, ...]:
        """Return the error, and what it says of the timestamp, of each partition in turn."""
        partition = ListOffsetsPartition(
            partition_index=more.pop("index", 0),
            current_leader_epoch=more.pop("epoch", -1) if version >= 4 else -1,
            timestamp=timestamp,
        )
        asked = [ListOffsetsTopic(name=topic, partitions=[partition]) for topic in topics]
        answer = self.call(ListOffsetsRequest(replica_id=-1, topics=asked, **more), version)
        return tuple(
            part
            for topic in answer.topics
            for one in topic.partitions
            for part in (
                ErrorCode(one.error_code).name,
                min(one.timestamp, NOW),
                one.offset,
                one.leader_epoch if version >= 4 else None,
            )
        )

    def end_of_epoch(
        self, topic: str, epoch: int, *, current: int = -1, version: int = 4, index: int = 0
    ) -> tuple[Any, ...]:
        partition = OffsetForLeaderPartition(
            partition=index, current_leader_epoch=current, leader_epoch=epoch
        )
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[partition])]
        answer = self.call(OffsetForLeaderEpochRequest(topics=topics), version)
        (one,) = answer.topics[0].partitions
        return ErrorCode(one.error_code).name, one.leader_epoch, one.end_offset


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OffsetsSide, OffsetsSide]]:
    """Kafka and kwire."""
    need_java()
    own: list[str] = ["--process-roles", "broker,controller", "--offsets-topic-num-partitions", "1"]
    own += ["--transaction-state-log-num-partitions", "1"]
    own += ["--data-dir", str(tmp_path_factory.mktemp("node") / "data")]
    with (
        kafka() as cluster,
        gateway(*own) as server,
        WireClient(cluster.nodes[0].broker_address) as one,
        WireClient(server.bootstrap) as other,
    ):
        found = OffsetsSide(one), OffsetsSide(other)
        for side in found:
            side.prepare()
            side.fill()
        yield found


def differences(of_kwire: dict[Any, Any], of_kafka: dict[Any, Any]) -> dict[Any, Any]:
    """Return the answers that are not equal, with Kafka's last."""
    return {
        key: (answer, of_kafka[key]) for key, answer in of_kwire.items() if answer != of_kafka[key]
    }


@pytest.mark.parametrize("topic", TOPICS)
def test_offset_of_each_timestamp_is_that_of_kafka(
    sides: tuple[OffsetsSide, OffsetsSide], topic: str
) -> None:
    timestamps = [it for it in TIMESTAMPS if it != MAX_TIMESTAMP or topic not in DELETED]
    of_kafka, of_kwire = (
        {
            (timestamp, level, version): side.offset(
                topic, timestamp=timestamp, version=version, isolation_level=level
            )
            for timestamp in timestamps
            for level in (0, 1)
            for version in (2, 6, 7, 8, 9, 10, 11)
        }
        for side in sides
    )
    assert differences(of_kwire, of_kafka) == {}


@pytest.mark.parametrize("topic", ["unknown", *TOPICS])
def test_epochs_are_compared_and_end_as_at_kafka(
    sides: tuple[OffsetsSide, OffsetsSide], topic: str
) -> None:
    of_kafka, of_kwire = (
        {
            **{
                ("offset", timestamp, epoch): side.offset(topic, timestamp=timestamp, epoch=epoch)
                for timestamp in (-1, -2, 3000)
                for epoch in (-2, -1, 0, 1)
            },
            **{
                ("end", epoch, current, version): side.end_of_epoch(
                    topic, epoch, current=current, version=version
                )
                for epoch in (-2, -1, 0, 1, 7)
                for current in (-2, -1, 0, 1)
                for version in (2, 3, 4)
            },
            "no such partition": (
                side.offset(topic, index=9),
                side.end_of_epoch(topic, 0, index=9),
            ),
        }
        for side in sides
    )
    assert differences(of_kwire, of_kafka) == {}
