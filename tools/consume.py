"""Reads the metadata partition as a consumer does, by ``kwire.messages``: its offsets, and raw
batches of Fetch responses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.records import iter_batches
from kwire.uuid import METADATA_TOPIC_ID
from tools.wire_client import WireClient

EARLIEST, LATEST = -2, -1
_FETCH_VERSION, _LIST_OFFSETS_VERSION = 16, 7
_MAX_BYTES = 1 << 22


class ConsumeError(Exception):
    """The server returned an error, or no records at an offset where it must have some."""


def offset(client: WireClient, which: int) -> int:
    """Return an offset: EARLIEST is the log start, LATEST the high watermark. Raises ConsumeError,
    OSError.
    """
    partition = ListOffsetsPartition(partition_index=0, timestamp=which)
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )
    answer = cast(Any, client.call(request, _LIST_OFFSETS_VERSION)).topics[0].partitions[0]
    if answer.error_code:
        raise ConsumeError(f"ListOffsets: error {answer.error_code}")
    return int(answer.offset)


def fetch(client: WireClient, start: int, end: int) -> Iterator[bytes]:
    """Yield the batches from the one that holds ``start`` up to ``end``, those of one response at a
    time. Raises ConsumeError, OSError.
    """
    position = start
    while position < end:
        partition = FetchPartition(
            partition=0, fetch_offset=position, partition_max_bytes=_MAX_BYTES
        )
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=_MAX_BYTES, session_epoch=-1, topics=[topic]
        )
        answer = cast(Any, client.call(request, _FETCH_VERSION)).responses[0].partitions[0]
        data = bytes(answer.records or b"")
        next_offset = max((header.next_offset for header in iter_batches(data)), default=position)
        if answer.error_code or next_offset <= position:
            raise ConsumeError(
                f"Fetch at {position} of {end}: error {answer.error_code}, {len(data)} bytes"
            )
        yield data
        position = next_offset
