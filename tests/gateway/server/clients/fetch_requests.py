"""A Fetch API for tests of connections: its handler, a request, and a response with records."""

from __future__ import annotations

from typing import Any

from gateway.handlers.context import Handler
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from tests.gateway.server.harness import request

FETCH = 1


def fetch_handler(handle: Any) -> Handler:
    return Handler(FETCH, "fetch", range(4, 13), handle)


def fetch_request() -> bytes:
    return request(FETCH, 12, FetchRequest().encode(12))


def records_answer(records: Any) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=1, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
