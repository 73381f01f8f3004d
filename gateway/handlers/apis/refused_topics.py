"""DeleteRecords (key 21): refused for each partition, as clients cannot write the logs here.

The response classes are imported at the first request: most servers never get one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.context import Handler
from gateway.handlers.refusals import REFUSED
from gateway.ports.streamed import filled, respond
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message, Struct


def _delete_records(request: Any, context: Context) -> Message | Streamed:
    from kwire.messages.delete_records_response import (
        DeleteRecordsPartitionResult,
        DeleteRecordsResponse,
        DeleteRecordsTopicResult,
    )

    def refused(topic: Any) -> Struct | Streamed:
        partitions = (
            DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=-1, error_code=REFUSED
            )
            for partition in topic.partitions
        )
        return filled(DeleteRecordsTopicResult(name=topic.name), "partitions", partitions)

    size = len(request.topics) + sum(len(topic.partitions) for topic in request.topics)
    return respond(DeleteRecordsResponse(), "topics", map(refused, request.topics), size)


HANDLERS: Final = (Handler(ApiKey.DELETE_RECORDS, "delete_records", range(3), _delete_records),)
