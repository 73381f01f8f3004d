"""Requests sent until a node does them, against nodes that refuse, hang up and are not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from kwire import Message
from kwire.frame import FrameSplitter, frame
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.create_topics_request import CreateTopicsRequest
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.delete_topics_request import DeleteTopicsRequest
from kwire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kwire.messages.unregister_broker_request import UnregisterBrokerRequest
from kwire.messages.unregister_broker_response import UnregisterBrokerResponse
from tools.admin import Admin, AdminError, errors
from tools.metadata_load import request

_NOT_CONTROLLER, _EXISTS = 41, 36


@contextmanager
def node(answer: Callable[[], Message | None]) -> Iterator[str]:
    """A node that offers CreateTopics up to version 5 and answers it so; None closes the
    connection.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(connection: socket.socket) -> None:
        splitter = FrameSplitter(1 << 20)
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                splitter.feed(data)
                while (asked := splitter.next_frame()) is not None:
                    header, _ = decode_request_header(asked)
                    key, version = header.request_api_key, header.request_api_version
                    offered = ApiVersionsResponse(
                        api_keys=[ApiVersion(api_key=19, min_version=2, max_version=5)]
                    )
                    body = offered if key == 18 else answer()
                    if body is None:
                        return
                    connection.sendall(
                        frame(
                            encode_response_header(key, version, header.correlation_id),
                            body.encode(version),
                        )
                    )

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def created(code: int = 0) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code)])


def test_nodes_are_tried_until_one_carries_out_the_request() -> None:
    with (
        node(lambda: created(_NOT_CONTROLLER)) as follower,
        node(lambda: None) as closing,
        node(created) as leader,
        Admin(["127.0.0.1:1", follower, closing, leader], timeout_s=20) as admin,
    ):
        assert admin.send(CreateTopicsRequest()).topics[0].name == "t"
        assert admin.send(CreateTopicsRequest()).topics[0].error_code == 0


def test_refusal_is_raised_unless_it_is_accepted() -> None:
    with node(lambda: created(_EXISTS)) as address, Admin([address]) as admin:
        with pytest.raises(AdminError, match=r"CreateTopicsRequest.*36"):
            admin.send(CreateTopicsRequest())
        assert admin.send(CreateTopicsRequest(), accept={_EXISTS}).topics[0].error_code == _EXISTS


def test_api_that_the_server_lacks_is_reported() -> None:
    with (
        node(created) as address,
        Admin([address]) as admin,
        pytest.raises(AdminError, match="offers no UnregisterBroker"),
    ):
        admin.send(UnregisterBrokerRequest(broker_id=1))


def test_admin_fails_when_no_node_answers_in_time() -> None:
    with (
        Admin(["127.0.0.1:1"], timeout_s=0.2) as admin,
        pytest.raises(AdminError, match="no node carried it out in time: Connection"),
    ):
        admin.send(CreateTopicsRequest())


def test_errors_are_found_wherever_they_stand() -> None:
    assert list(errors(created(_EXISTS).to_json(5))) == [(_EXISTS, "")]
    assert list(
        errors(UnregisterBrokerResponse(error_code=102, error_message="who?").to_json(0))
    ) == [(102, "who?")]
    assert list(errors(created().to_json(5))) == []


def test_load_deletes_the_topics_that_it_created() -> None:
    made: list[str] = []
    for number in range(60):
        one = request(number)
        if isinstance(one, CreateTopicsRequest):
            made += [topic.name for topic in one.topics]
        elif isinstance(one, IncrementalAlterConfigsRequest):
            assert [resource.resource_name for resource in one.resources] == made[
                -len(one.resources) :
            ]
        else:
            assert isinstance(one, DeleteTopicsRequest)
            made = [name for name in made if name not in {topic.name for topic in one.topics}]
    assert 0 < len(made) < 20
