"""Polling a source: the interval is the source's, problems are reported once, and exceptions are
survived.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Awaitable, Callable

import pytest
import trio

from gateway.ports.services import State
from gateway.server.logging.logs import Reports, configure, reset
from gateway.server.sources import file_poller as module
from gateway.server.sources.file_poller import poll_files
from tests.gateway.server.harness import run
from tests.waiting import until_async


class Source:
    """A scripted source."""

    def __init__(self) -> None:
        self.state = State.LOADING
        self.refresh_delay_s = 0.001
        self.problems: tuple[str, ...] = ()
        self.scans = 0
        self.published = 0
        self.scan_threads: set[int] = set()
        self.fails = 0
        self.quiet = False

    def maybe_changed(self) -> bool:
        return not self.quiet

    def scan(self) -> None:
        self.scans += 1
        self.scan_threads.add(threading.get_ident())
        if self.fails:
            self.fails -= 1
            raise RuntimeError("a bug")

    def publish(self) -> bool:
        assert threading.get_ident() not in self.scan_threads
        self.published += 1
        if self.published == 3:
            self.state = State.READY
        return False


def following(scenario: Callable[[Source, Reports], Awaitable[object]]) -> list[dict[str, object]]:
    """Run ``scenario(source, reports)`` beside ``poll_files``; returns the logged events."""
    stream = io.StringIO()
    configure("info", "json", stream)

    async def main() -> None:
        source, reports = Source(), Reports()
        async with trio.open_nursery() as nursery:
            await nursery.start(poll_files, source, reports)
            await scenario(source, reports)
            nursery.cancel_scope.cancel()

    try:
        run(main)
    finally:
        reset()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_follow_is_started_when_the_log_is_loaded_and_keeps_polling() -> None:
    async def scenario(source: Source, reports: Reports) -> None:
        assert source.state is State.READY
        seen = source.scans
        await until_async(lambda: source.scans > seen + 5)

    assert following(scenario) == []


def test_slow_loading_does_not_delay_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(source: Source, reports: Reports) -> None:
        assert source.state is State.LOADING

    monkeypatch.setattr(Source, "publish", lambda self: False)
    following(scenario)


def test_problems_are_reported_when_they_change() -> None:
    async def scenario(source: Source, reports: Reports) -> None:
        async def rest() -> None:
            seen = source.scans
            await until_async(lambda: source.scans > seen + 3)

        source.problems = ("a torn tail",)
        await rest()
        source.problems = ("a torn tail", "a bad snapshot")
        await rest()
        source.problems = ()
        await rest()

    lines = following(scenario)
    assert [(line["event"], line.get("error")) for line in lines] == [
        ("source problem", "a torn tail"),
        ("source problem", "a bad snapshot"),
        ("source recovered", None),
    ]


def test_exception_in_the_source_is_logged_and_polling_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(source: Source, reports: Reports) -> None:
        source.fails = 2
        await until_async(lambda: reports.counts["source not read"] == 2)
        seen = source.published
        await until_async(lambda: source.published > seen)

    monkeypatch.setattr(module, "_FAILED_DELAY_S", 0.001)
    assert [line["event"] for line in following(scenario)] == ["source not read"] * 2


def test_unchanged_source_is_not_scanned() -> None:
    async def scenario(source: Source, reports: Reports) -> None:
        source.quiet = True
        await trio.sleep(0.02)
        scans, published = source.scans, source.published
        await until_async(lambda: source.published > published + 5)
        assert source.scans <= scans + 1  # one may have been on its way
        source.quiet = False
        await until_async(lambda: source.scans > scans + 1)

    assert following(scenario) == []
