"""DeleteRecords (key 21): refused for each partition, as clients cannot write the logs here.

The response classes are imported at the first request: most servers never get one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.context import Handler
from gateway.handlers.refusals import REFUSED
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message


def _delete_records(request: Any, context: Context) -> Message:
    from kwire.messages.delete_records_response import (
        DeleteRecordsPartitionResult,
        DeleteRecordsResponse,
        DeleteRecordsTopicResult,
    )

    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=-1,
                        error_code=REFUSED,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLERS: Final = (Handler(ApiKey.DELETE_RECORDS, "delete_records", range(3), _delete_records),)
