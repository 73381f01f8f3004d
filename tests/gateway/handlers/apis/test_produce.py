"""Produce is advertised and always refused."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from gateway.handlers.apis import produce
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.handlers.world import World

DATA = [{"index": 0, "records": b"x"}, {"index": 9, "records": None}]


@pytest.mark.parametrize("version", produce.VERSIONS)
@pytest.mark.parametrize("acks", [-1, 1])
def test_every_partition_is_refused_for_good(version: int, acks: int) -> None:
    topic = {"topic_id": METADATA_TOPIC_ID} if version >= 13 else {"name": "__cluster_metadata"}
    answer = World().ask(
        produce, version, acks=acks, timeout_ms=1, topic_data=[{**topic, "partition_data": DATA}]
    )
    (response,) = answer.responses
    assert [part.index for part in response.partition_responses] == [0, 9]
    for part in response.partition_responses:
        assert (part.error_code, part.base_offset) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)
        assert part.error_message == (produce.REASON if version >= 8 else None)
    assert not for_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED).retriable


def test_an_unknown_id_is_unknown() -> None:
    topic = {"topic_id": Uuid(b"\x07" * 16), "partition_data": DATA}
    answer = World().ask(produce, 13, acks=-1, topic_data=[topic])
    assert [part.error_code for part in answer.responses[0].partition_responses] == [
        ErrorCode.UNKNOWN_TOPIC_ID
    ] * 2


@pytest.mark.parametrize("version", produce.VERSIONS)
def test_without_acks_there_is_no_answer_and_the_connection_ends(version: int) -> None:
    assert World().ask(produce, version, acks=0, topic_data=[]) is None
