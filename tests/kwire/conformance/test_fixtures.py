"""Topics that rules make are removed also during an election, and a strange answer ends no run."""

from __future__ import annotations

import socket

import pytest

from kwire.conformance.fixtures import create_topic
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome
from kwire.conformance.probe import Probe
from kwire.conformance.rule import Rule
from kwire.conformance.runner import Options, run_rules
from kwire.frame import frame
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.create_topics_request import CreateTopicsRequest
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.delete_topics_request import DeleteTopicsRequest
from kwire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kwire.protocol import ApiKey, ErrorCode
from tests.kwire.conformance.scripted import OFFERED, Script, server

_OFFERED = {**OFFERED, ApiKey.CREATE_TOPICS: (7, 7), ApiKey.DELETE_TOPICS: (6, 6)}
#: Stands for an answer without any result.
_NO_RESULT = ErrorCode.CORRUPT_MESSAGE


def _controller(errors: list[ErrorCode]) -> Script:
    """A controller that creates topics, and answers deletions with these errors."""

    def answer(connection: socket.socket, request: bytes) -> bool:
        header, body = decode_request_header(request)
        version = header.request_api_version
        if header.request_api_key == ApiKey.CREATE_TOPICS:
            [made] = CreateTopicsRequest.decode(request[body:], version).topics
            data = CreateTopicsResponse(topics=[CreatableTopicResult(name=made.name)])
        else:
            [gone] = DeleteTopicsRequest.decode(request[body:], version).topics
            results = [DeletableTopicResult(name=gone.name, error_code=errors.pop(0))]
            data = DeleteTopicsResponse(  # type: ignore[assignment]
                responses=[] if results[0].error_code == _NO_RESULT else results
            )
        start = encode_response_header(header.request_api_key, version, header.correlation_id)
        connection.sendall(frame(start, data.encode(version)))
        return True

    return answer


@pytest.mark.parametrize(
    ("errors", "remarks"),
    [
        ([ErrorCode.NONE], 0),
        ([ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE], 0),
        ([ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR], 1),
        ([_NO_RESULT], 1),
    ],
)
def test_a_topic_is_removed_once_there_is_a_controller(
    errors: list[ErrorCode], remarks: int
) -> None:
    def make(probe: Probe) -> None:
        create_topic(probe)

    with server(_controller(errors), _OFFERED) as target:
        rule = Rule("test.rule", "A rule.", make, "test")
        report = run_rules(open_session(target, 5), [rule], Options())
    assert [result.outcome for result in report.results] == [Outcome.PASS]
    assert len(report.remarks) == remarks
    assert errors == []
