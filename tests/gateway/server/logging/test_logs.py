"""Logs: peers' text is escaped and cut, and floods of one event are counted and suppressed."""

from __future__ import annotations

import contextlib
import io
import json
import os

from gateway.server.logging.logs import (
    LINES_MAX,
    PERIOD_S,
    TEXT_MAX,
    Reports,
    configure,
    escape,
    reset,
)
from tests.gateway.server.harness import HEARTBEAT, request, run, serving


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_text_of_a_peer_is_escaped_to_one_printable_line() -> None:
    assert escape(None) is None
    assert escape("plain name-1.2") == "plain name-1.2"
    assert escape("a\nevent=fake \x1b[31m\x00\u2028") == "a\\nevent=fake \\x1b[31m\\x00\\u2028"
    assert escape("x" * 5000) == "x" * TEXT_MAX + "…"


def test_event_that_comes_too_often_is_counted_and_suppressed() -> None:
    stream, now = io.StringIO(), 0.0
    configure("info", "json", stream)
    try:
        reports = Reports(clock=lambda: now)
        for _ in range(1000):
            reports.report("bad request", error="x")
        assert len(lines(stream)) == LINES_MAX
        now = PERIOD_S
        reports.report("bad request", error="x")
        assert lines(stream)[-1]["suppressed"] == 1000 - LINES_MAX
        assert reports.counts["bad request"] == 1001
    finally:
        reset()


def test_configured_level_and_style_hold_for_every_report() -> None:
    stream = io.StringIO()
    configure("warning", "json", stream)
    try:
        reports = Reports()
        reports.report("source recovered")
        reports.bug("internal error", RuntimeError("why"), connection=7)
        (line,) = lines(stream)
        assert (line["event"], line["level"], line["connection"]) == ("internal error", "error", 7)
        assert "RuntimeError: why" in str(line["exception"])
        configure("info", "console", stream)
        Reports().report("bad request", connection=8)
        assert "connection=8" in stream.getvalue().splitlines()[-1]
    finally:
        reset()


def test_log_that_cannot_be_written_does_not_stop_the_server() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    closed = io.StringIO()
    closed.close()
    broken = os.fdopen(writing, "w", buffering=1)
    reports = Reports()
    try:
        for stream in (broken, closed):
            configure("info", "json", stream)
            reports.report("source recovered")
    finally:
        reset()
        with contextlib.suppress(OSError):
            broken.close()
    assert reports.counts["source recovered"] == 2


def test_report_once_logs_once_for_each_key() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    try:
        reports = Reports()
        for _ in range(3):
            for name in ("a", "b"):
                reports.report_once("unsupported request", (name,), client_id=name)
        assert [line["client_id"] for line in lines(stream)] == ["a", "b"]
        assert reports.counts["unsupported request"] == 6
    finally:
        reset()


def test_tracing_logs_every_request() -> None:
    stream = io.StringIO()

    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            server.server_context.reports.tracing = True
            for number in range(20):
                await client.ask(number)

    configure("debug", "json", stream)
    try:
        run(main)
    finally:
        reset()
    requests = [line for line in lines(stream) if line["event"] == "request"]
    assert [line["correlation_id"] for line in requests] == list(range(20))
    assert (
        requests[0].items()
        >= {
            "api": "heartbeat",
            "version": 4,
            "client_id": "test",
            "principal": "User:ANONYMOUS",
            "connection": 1,
        }.items()
    )


def test_bad_request_is_logged_with_its_api_and_field() -> None:
    stream = io.StringIO()

    async def main() -> None:
        async with serving() as server, await server.connect() as client:
            await client.send(request(HEARTBEAT, 4, b"\xff\xff\xff\xff\x07abc", correlation_id=5))
            await client.closed()

    configure("info", "json", stream)
    try:
        run(main)
    finally:
        reset()
    (line,) = lines(stream)
    assert (line["event"], line["api"], line["version"], line["correlation_id"]) == (
        "bad request",
        "heartbeat",
        4,
        5,
    )
    assert "GroupId" in str(line["error"])
