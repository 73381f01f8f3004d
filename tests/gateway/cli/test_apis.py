"""``kwire apis`` against the handlers, and against servers that are none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from click.testing import CliRunner, Result

from gateway.cli import apis
from gateway.handlers.apis.api_versions import unsupported_version_response
from gateway.handlers.table import handlers
from kwire.frame import frame
from kwire.header import decode_request_header
from kwire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tests.gateway.handlers.mini_server import serving


def run(port: int, *arguments: str) -> Result:
    return CliRunner().invoke(apis.command, ["-b", f"127.0.0.1:{port}", *arguments])


@contextmanager
def answering(answer: Callable[[bytes], bytes]) -> Iterator[int]:
    """A listener whose connection answers each request (a frame without its size) with the bytes
    that ``answer`` gives.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while request := connection.recv(65536):
                data = answer(request[4:])
                connection.sendall(data)
                if not data:
                    return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_json_lines_match_the_table_of_serve() -> None:
    with serving() as server:
        result = run(server.port)
        assert result.exit_code == 0, result.output
        assert server.seen == [(18, 4)]
    rows = {row["key"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert rows[1] == {
        "key": 1,
        "api": "Fetch",
        "server": [4, 18],
        "codec": [4, 18],
        "serve": [4, 18],
        "usable": 18,
    }
    assert (rows[52]["api"], rows[52]["server"], rows[52]["usable"]) == ("Vote", None, None)
    assert list(rows) == sorted(rows)
    for key, handler in handlers().items():
        assert (
            rows[key]["server"] == rows[key]["serve"] == [handler.versions[0], handler.versions[-1]]
        )


def test_a_table_for_people_with_features() -> None:
    answer = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=1, min_version=4, max_version=17),
            ApiVersion(api_key=999, min_version=0, max_version=0),
        ],
        supported_features=[
            SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)
        ],
        finalized_features=[
            FinalizedFeatureKey(name="metadata.version", max_version_level=29, min_version_level=29)
        ],
    )
    with answering(lambda request: frame(request[4:8], answer.encode(4))) as port:
        result = run(port, "-o", "table")
    assert result.exit_code == 0, result.output
    fetch = next(line for line in result.stdout.splitlines() if " Fetch " in line)
    assert [cell.strip() for cell in fetch.strip("│┃ ").split("│")] == [
        "1",
        "Fetch",
        "4-17",
        "4-18",
        "4-18",
        "17",
    ]
    unknown = next(line for line in result.stdout.splitlines() if " 999 " in line)
    assert "-" in unknown
    assert "metadata.version: 7-30, finalized 29" in result.stdout


@pytest.mark.parametrize(
    ("served", "usable"),
    [([0, 3], None), ([0, 4], 4), ([4, 18], 18), ([17, 99], 18), ([19, 20], None)],
)
def test_the_newest_common_version(served: list[int], usable: int | None) -> None:
    (row,) = [row for row in apis.rows({1: range(served[0], served[1] + 1)}) if row["key"] == 1]
    assert (row["server"], row["usable"]) == (served, usable)


def test_older_server_is_asked_again_at_its_version() -> None:
    asked: list[int] = []

    def answer(request: bytes) -> bytes:
        header, _ = decode_request_header(request)
        asked.append(header.request_api_version)
        if header.request_api_version > 2:
            old = ApiVersionsResponse(
                error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)]
            )
            return frame(request[4:8], old.encode(0))
        return frame(request[4:8], unsupported_version_response().copy(error_code=0).encode(2))

    with answering(answer) as port:
        result = run(port)
    assert result.exit_code == 0, result.output
    assert asked == [4, 2]


def garbage(request: bytes) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda request: b"", "closed the connection without an answer"),
        (garbage, "is no answer"),
        (lambda request: frame(request[4:8], b"\x00"), "cannot be read"),
        (lambda request: frame(request[4:8], b"\x00\x00\x7f"), "cannot be read"),
        (
            lambda request: frame(request[4:8], ApiVersionsResponse(error_code=42).encode(4)),
            "was refused with INVALID_REQUEST (42)",
        ),
        (
            lambda request: frame(request[4:8], ApiVersionsResponse(error_code=4242).encode(4)),
            "4242",
        ),
    ],
)
def test_invalid_response_is_reported_in_a_sentence(
    answer: Callable[[bytes], bytes], words: str
) -> None:
    with answering(answer) as port:
        result = run(port, "--timeout", "5")
    assert result.exit_code == 1
    assert f"127.0.0.1:{port}" in result.output
    assert words in result.output


def test_a_silent_server_does_not_hold_us() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = run(listener.getsockname()[1], "--timeout", "0.2")
    assert (result.exit_code, "no answer to ApiVersions within 0.2 s" in result.output) == (1, True)


def test_unreachable_server_is_named() -> None:
    with serving() as server:
        pass
    result = run(server.port)
    assert (result.exit_code, f"127.0.0.1:{server.port}" in result.output) == (1, True)
