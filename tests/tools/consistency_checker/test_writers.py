"""Writers: an append's number is found again in its record, and every kind of answer is what the
journal says it is.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from kwire import Message
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.config_record import ConfigRecord
from kwire.messages.create_topics_request import CreateTopicsRequest
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kwire.messages.topic_record import TopicRecord
from tests.waiting import PATIENCE_S
from tools.admin import AdminError
from tools.consistency_checker.history import Attempt, Outcome
from tools.consistency_checker.journal import Journal, read_journal
from tools.consistency_checker.writers import (
    BEFORE_ANYTHING,
    CONFIG,
    NOT_CONTROLLER,
    TOPIC,
    Writers,
    id_of,
    request,
)
from tools.process import free_ports

_INVALID_REQUEST, _TIMED_OUT = 42, 7


class Server:
    """Answers CreateTopics with the error codes that it was given, in their order, then with 0;
    None hangs up instead.
    """

    def __init__(self, *codes: int | None) -> None:
        self.codes = list(codes)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        with one, one.makefile("rb") as requests:
            while size := requests.read(4):
                frame = requests.read(int.from_bytes(size, "big"))
                header, body = decode_request_header(frame)
                name = (
                    CreateTopicsRequest.decode(frame[body:], header.request_api_version)
                    .topics[0]
                    .name
                )
                code = self.codes.pop(0) if self.codes else 0
                if code is None:
                    return
                answer = CreateTopicsResponse(
                    topics=[CreatableTopicResult(name=name, error_code=code)]
                )
                version = header.request_api_version
                sent = encode_response_header(
                    header.request_api_key, version, header.correlation_id
                ) + answer.encode(version)
                one.sendall(len(sent).to_bytes(4, "big") + sent)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(*codes: int | None) -> Server:
        started.append(Server(*codes))
        return started[-1]

    yield start
    for server in started:
        server.listener.close()


def attempts(
    tmp_path: Path, server: Server, acknowledged: int, definite: Collection[int] = BEFORE_ANYTHING
) -> list[Attempt]:
    """The journal of one writer of topics, until so many appends are acknowledged."""
    path = tmp_path / "journal"
    with (
        Journal(path) as journal,
        Writers({1: server.address}, journal, kinds=[TOPIC], definite=definite) as writers,
    ):
        writers.wait_for(acknowledged, timeout_s=PATIENCE_S)
    return read_journal(path)


def test_each_response_has_its_outcome(tmp_path: Path, serve: Callable[..., Server]) -> None:
    server = serve(0, _INVALID_REQUEST, _TIMED_OUT, None, NOT_CONTROLLER)
    seen = attempts(tmp_path, server, acknowledged=2)
    assert [one.outcome for one in seen[:6]] == [
        Outcome.ACKNOWLEDGED,
        Outcome.FAILED,
        Outcome.UNKNOWN,
        Outcome.UNKNOWN,
        Outcome.UNKNOWN,
        Outcome.ACKNOWLEDGED,
    ]
    assert [one.answered is None for one in seen[:6]] == [False, False, False, True, False, False]
    assert seen[4].detail == "error 41"
    assert len({one.id for one in seen}) == len(seen)


def test_not_controller_is_definite_if_listed(tmp_path: Path, serve: Callable[..., Server]) -> None:
    seen = attempts(tmp_path, serve(NOT_CONTROLLER), acknowledged=1, definite={NOT_CONTROLLER})
    assert seen[0].outcome is Outcome.FAILED


def test_next_node_is_tried_after_a_refusal_or_failure(
    tmp_path: Path, serve: Callable[..., Server]
) -> None:
    path, refusing, up = tmp_path / "journal", serve(*[NOT_CONTROLLER] * 1000), serve()
    [down] = free_ports(1)
    addresses = {0: up.address, 1: refusing.address, 2: f"127.0.0.1:{down}"}
    with (
        Journal(path) as journal,
        Writers(addresses, journal, kinds=[TOPIC]) as writers,
    ):  # writer 1 begins with node 1
        writers.wait_for(20, timeout_s=PATIENCE_S)
    seen = read_journal(path)
    assert [(one.node, one.outcome) for one in seen[:1]] == [(1, Outcome.UNKNOWN)]
    assert {(one.node, one.outcome) for one in seen[1:]} == {(0, Outcome.ACKNOWLEDGED)}


def test_timeout_of_a_wait_is_reported(tmp_path: Path, serve: Callable[..., Server]) -> None:
    addresses = {1: serve(*[_INVALID_REQUEST] * 9999).address}
    with (
        Journal(tmp_path / "journal") as journal,
        Writers(addresses, journal, kinds=[TOPIC]) as writers,
        pytest.raises(AdminError, match="0 of 3 appends were acknowledged"),
    ):
        writers.wait_for(3, timeout_s=0.2)


def test_held_writers_send_nothing(tmp_path: Path, serve: Callable[..., Server]) -> None:
    path = tmp_path / "journal"
    with (
        Journal(path) as journal,
        Writers({1: serve().address}, journal, kinds=[TOPIC] * 3) as writers,
    ):
        writers.wait_for(10, timeout_s=PATIENCE_S)
        with writers.held():
            before = path.read_bytes()
            time.sleep(0.05)
            assert path.read_bytes() == before
        writers.wait_for(1, timeout_s=PATIENCE_S)
    assert all(one.outcome is Outcome.ACKNOWLEDGED for one in read_journal(path))


def records_of(asked: Message) -> Message:
    """The record that a controller makes of the request, as far as its number goes."""
    if isinstance(asked, CreateTopicsRequest):
        return TopicRecord(name=asked.topics[0].name)
    assert isinstance(asked, IncrementalAlterConfigsRequest)
    resource = asked.resources[0]
    config = resource.configs[0]
    return ConfigRecord(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        name=config.name,
        value=config.value,
    )


@pytest.mark.parametrize("kind", [CONFIG, TOPIC])
def test_the_number_is_in_the_record(kind: str) -> None:
    assert id_of(records_of(request(kind, 3_000_000_017))) == 3_000_000_017


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="orders"),
        ConfigRecord(resource_type=4, resource_name="", name="log.cleaner.backoff.ms", value=None),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="17"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
    ],
    ids=lambda record: type(record).__name__,
)
def test_record_of_another_writer_has_no_number(record: Message) -> None:
    assert id_of(record) is None
