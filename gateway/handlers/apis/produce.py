"""Produce (key 0): advertised, and always refused, because only controllers write the log.

librdkafka derives the record format of the server from the versions of Produce. If they are
missing, it sends no Fetch: kcat, confluent-kafka and all clients built on it read nothing, without
an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.catalog import Topic, topic_named, topic_with_id
from gateway.ports.services import AUDIT_TOPIC
from gateway.ports.streamed import Streamed, filled, respond
from gateway.ports.view_topics import VIEW_TOPICS
from kwire.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message
    from kwire.messages.produce_request import ProduceRequest, TopicProduceData

API_KEY: Final = ApiKey.PRODUCE
VERSIONS: Final = range(3, 14)

REASON: Final = "This server serves the metadata log read-only: nothing can be produced to it."
AUDIT: Final = (
    "The nodes of the quorum alone write down who changed what: "
    "nothing can be produced to this topic."
)
VIEW: Final = "This topic is derived from the metadata log: nothing can be produced to it."
NO_DATA: Final = (
    "This server keeps the metadata of topics, not their records: nothing can be produced to them."
)
#: The first version with topic ids (KIP-516).
_BY_ID: Final = 13


def handle(request: ProduceRequest, context: Context) -> Message | Streamed | None:
    """Return TOPIC_AUTHORIZATION_FAILED for every partition: not retriable, so that a producer
    fails at once.

    None for acks=0, which has no response: like Kafka, the server closes the connection to report
    the error.
    """
    if request.acks == 0:
        return None
    topics = (_refused(topic, context) for topic in request.topic_data)
    size = sum(1 + len(topic.partition_data) for topic in request.topic_data)
    return respond(ProduceResponse(), "responses", topics, size)


def _refused(topic: TopicProduceData, context: Context) -> TopicProduceResponse | Streamed:
    fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    by_id = context.version >= _BY_ID
    found = topic_with_id(topic.topic_id, context) if by_id else topic_named(topic.name, context)
    if by_id and found is None:
        fault = ErrorCode.UNKNOWN_TOPIC_ID
    reason = _reason(found)
    partitions = (
        PartitionProduceResponse(
            index=partition.index, error_code=fault, base_offset=-1, error_message=reason
        )
        for partition in topic.partition_data
    )
    response = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
    return filled(response, "partition_responses", partitions)


def _reason(topic: Topic | None) -> str:
    if topic is not None and topic.name in VIEW_TOPICS:
        return VIEW
    if topic is None or topic.partitions is None:
        return REASON
    return AUDIT if topic.name == AUDIT_TOPIC else NO_DATA
