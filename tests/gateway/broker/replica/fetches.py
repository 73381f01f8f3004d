"""Builds a fetcher, its partitions and a leader's answers."""

from gateway.broker.replica.fetcher import Fetcher, FetcherSettings
from gateway.broker.replica.followed import Followed, Position
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kwire.uuid import Uuid

TOPIC = Uuid(bytes(15) + b"\x01")
OTHER = Uuid(bytes(15) + b"\x02")
BROKER_EPOCH = 55
BACKOFF_S = 1.0


def fetcher(*indexes: int) -> tuple[Fetcher, list[Followed]]:
    """A fetcher of partitions of TOPIC, each in leader epoch 4 at offset 10 with epoch 3."""
    made = Fetcher(1, FetcherSettings(backoff_s=BACKOFF_S))
    return made, [made.follow(TOPIC, index, 4, Position(0, 10, 3)) for index in indexes]


def data(index: int = 0, **fields: object) -> PartitionData:
    return PartitionData(partition_index=index, **fields)  # type: ignore[arg-type]


def diverging(index: int, epoch: int, end: int) -> PartitionData:
    return data(index, diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end))


def answer(*partitions: PartitionData, session: int = 7, error: int = 0) -> FetchResponse:
    topics = [FetchableTopicResponse(topic_id=TOPIC, partitions=list(partitions))]
    return FetchResponse(
        error_code=error, session_id=session, responses=topics if partitions else []
    )


def request(made: Fetcher, now: float = 0.0) -> FetchRequest:
    """The next request, which there is."""
    found = made.request(now, BROKER_EPOCH)
    assert found is not None
    return found


def named(found: FetchRequest) -> dict[int, tuple[int, int, int]]:
    """Leader epoch, offset and last epoch of each partition of TOPIC in a request."""
    return {
        one.partition: (one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch)
        for topic in found.topics
        if topic.topic_id == TOPIC
        for one in topic.partitions
    }


def forgotten(found: FetchRequest) -> list[int]:
    """The partitions of TOPIC that a request takes out of the session."""
    return [
        index
        for topic in found.forgotten_topics_data
        if topic.topic_id == TOPIC
        for index in topic.partitions
    ]
