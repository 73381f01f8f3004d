"""Envelopes: requests are wrapped, responses are unwrapped, and forwarded requests are counted."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.ports.services import Requester
from gateway.security.principal import Principal, decode_principal
from gateway.server.controller.envelopes import (
    ForwardingMetrics,
    ForwardingRefused,
    unwrap,
    wrap,
)
from gateway.server.node_client.errors import BadAnswer
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.envelope_response import EnvelopeResponse
from kwire.protocol import ErrorCode

CREATE_TOPICS = 19
REQUEST = CreateTopicsRequest(
    topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)], timeout_ms=7955
)


@pytest.mark.parametrize("version", CreateTopicsRequest.VERSIONS)
@pytest.mark.parametrize(
    ("host", "address"), [("10.0.0.7", bytes([10, 0, 0, 7])), ("::1", bytes(15) + b"\1")]
)
def test_envelope_has_request_principal_and_address(
    version: int, host: str, address: bytes
) -> None:
    requester = Requester("User:CN=alice,O=a:b", host, None, token_authenticated=True)
    envelope = wrap(REQUEST, version, requester)
    header, at = decode_request_header(bytes(envelope.request_data))
    assert (header.request_api_key, header.request_api_version, header.client_id) == (
        CREATE_TOPICS,
        version,
        None,
    )
    assert CreateTopicsRequest.decode(envelope.request_data[at:], version) == REQUEST
    assert decode_principal(envelope.request_principal) == Principal("User:CN=alice,O=a:b", True)
    assert envelope.client_host_address == address


@pytest.mark.parametrize("version", CreateTopicsResponse.VERSIONS)
def test_response_is_unwrapped_from_the_envelope(version: int) -> None:
    answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", error_code=36)])
    data = encode_response_header(CREATE_TOPICS, version, 0) + answer.encode(version)
    found: Any = unwrap(CREATE_TOPICS, version, EnvelopeResponse(response_data=data), "node 2")
    assert found.topics == answer.topics


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_CONTROLLER, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE]
)
def test_refused_envelope_raises_forwarding_refused(code: ErrorCode) -> None:
    with pytest.raises(ForwardingRefused, match=code.name) as refused:
        unwrap(CREATE_TOPICS, 7, EnvelopeResponse(error_code=code), "node 2")
    assert refused.value.error == code


@pytest.mark.parametrize(
    "data", [None, b"", b"\0\0\0", bytes(4), bytes(7) + b"\xff\xff\xff\xff\x7f"]
)
def test_malformed_response_is_bad_answer(data: bytes | None) -> None:
    with pytest.raises(BadAnswer, match="node 2"):
        unwrap(CREATE_TOPICS, 7, EnvelopeResponse(response_data=data), "node 2")


def test_requests_are_counted_by_client_while_they_wait() -> None:
    measures = ForwardingMetrics()
    for client in ("a", "a", None):
        measures.begins(client)
    assert (measures.queue_length, len(measures.waiting)) == (3, 2)
    for client in ("a", "a", None):
        measures.ends(client)
    assert measures.queue_length == 0 and not measures.waiting
