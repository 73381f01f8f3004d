"""Defines the messages of the codec bench: of the size that a busy client sends. All values are
fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

from kwire import Message, Uuid
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_TOPICS, _PARTITIONS, _RECORDS = 1000, 500, bytes(range(256)) * 4


@dataclass(frozen=True)
class Sample:
    """A message at a version, and its description for the table."""

    title: str
    message: Message
    version: int


def samples(*, flexible: bool) -> list[Sample]:
    """Return the messages at versions with tagged fields, or at the last ones before (all that
    aiokafka has).
    """
    metadata, fetch = (12, 12) if flexible else (5, 11)
    found = [
        Sample(f"Metadata response v{metadata}, {_TOPICS} topics", _metadata(), metadata),
        Sample(f"Fetch request v{fetch}, {_PARTITIONS} partitions", _fetch_request(), fetch),
        Sample(
            f"Fetch response v{fetch}, {_PARTITIONS} partitions of 1 KiB", _fetch_response(), fetch
        ),
    ]
    return (
        [Sample("ApiVersions response v3, 60 APIs", _api_versions(), 3), *found]
        if flexible
        else found
    )


def _metadata() -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=n, host=f"broker-{n}.example", port=9092, rack="r1")
        for n in range(3)
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id="KR9e8RRwTOOrXOZhLElimQ",
        controller_id=1,
        topics=[_topic(n) for n in range(_TOPICS)],
    )


def _topic(number: int) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(
            partition_index=index,
            leader_id=index,
            leader_epoch=7,
            replica_nodes=[0, 1, 2],
            isr_nodes=[0, 1, 2],
            offline_replicas=[],
        )
        for index in range(3)
    ]
    topic_id = Uuid(number.to_bytes(16, "big"))
    return MetadataResponseTopic(
        name=f"topic-{number:05d}", topic_id=topic_id, partitions=partitions
    )


def _api_versions() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=n, min_version=0, max_version=9) for n in range(60)]
    )


def _fetch_request() -> FetchRequest:
    partitions = [
        FetchPartition(
            partition=n, current_leader_epoch=5, fetch_offset=1000 + n, partition_max_bytes=1 << 20
        )
        for n in range(_PARTITIONS)
    ]
    topics = [FetchTopic(topic="topic-00000", partitions=partitions)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=topics, rack_id="")


def _fetch_response() -> FetchResponse:
    partitions = [
        PartitionData(
            partition_index=n,
            high_watermark=2000,
            last_stable_offset=2000,
            log_start_offset=0,
            aborted_transactions=None,
            records=_RECORDS,
        )
        for n in range(_PARTITIONS)
    ]
    return FetchResponse(
        responses=[FetchableTopicResponse(topic="topic-00000", partitions=partitions)]
    )
