"""Valid requests of a client, as frames."""

from __future__ import annotations

from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.gateway.server.harness import Client, request
from tests.hostile.target import METADATA

FETCH, LIST_OFFSETS = 1, 2
TOPIC = "__cluster_metadata"


def metadata(names: list[str] | None = None) -> bytes:
    """A Metadata request for ``names``, for all topics without them."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return request(METADATA, 12, MetadataRequest(topics=topics).encode(12))


def fetch(
    offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, correlation_id: int = 1
) -> bytes:
    """A Fetch of the metadata topic."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    return request(FETCH, 12, body.encode(12), correlation_id)


async def end_of(client: Client) -> int:
    """The end offset of the metadata topic."""
    asked = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=-1)])],
    )
    await client.send(request(LIST_OFFSETS, 7, asked.encode(7)))
    _, answer = await client.answer(LIST_OFFSETS, 7)
    return int(answer.topics[0].partitions[0].offset)
