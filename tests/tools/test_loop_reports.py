"""A server process that held its event loop is noticed, running or gone, log removed or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.waiting import until
from tools.loop_reports import LoopReports, milliseconds
from tools.process import Process


def started(path: Path, text: str, *, stays: bool = False) -> Process:
    """A process whose log holds ``text``, and which goes on if it ``stays``."""
    wait = "import time; time.sleep(60)" if stays else ""
    program = f"print({text!r}, flush=True)\n{wait}"
    return Process("kwire serve", [sys.executable, "-c", program], path)


def test_report_in_the_log_of_a_running_process_is_taken_once(tmp_path: Path) -> None:
    process = started(tmp_path / "log", "12:00 event loop held milliseconds=70", stays=True)
    reports = LoopReports()
    reports.watch(process)
    try:
        until(lambda: "held" in process.output_end(), "the line in the log")
        assert reports.take() == ["kwire serve: 12:00 event loop held milliseconds=70"]
        assert reports.take() == []
    finally:
        process.kill()


def test_report_of_a_process_that_has_ended_is_found_after_its_log_is_removed(
    tmp_path: Path,
) -> None:
    process = started(tmp_path / "log", "ready\nevent loop held api=fetch")
    reports = LoopReports()
    reports.watch(process)
    until(lambda: not process.running(), "the end of the process")
    process.log.unlink()
    assert reports.take() == ["kwire serve: event loop held api=fetch"]
    assert reports.take() == []


def test_log_without_reports_gives_none(tmp_path: Path) -> None:
    process = started(tmp_path / "log", "ready")
    reports = LoopReports()
    reports.watch(process)
    until(lambda: not process.running(), "the end of the process")
    assert reports.take() == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("12:00 event loop held milliseconds=70", 70),
        ('{"milliseconds": 299, "event": "event loop held"}', 299),
        ("event loop held api=fetch", 0),
    ],
)
def test_time_in_a_report_is_read_in_each_form_of_a_log(line: str, expected: int) -> None:
    reports = LoopReports()
    reports.read("kwire serve", line)
    assert [milliseconds(one) for one in reports.take()] == [expected]


def test_reports_in_what_a_test_captured_itself_are_taken_once() -> None:
    reports = LoopReports()
    reports.read("kwire serve", "ready\nevent loop held milliseconds=70\nsomething else took 20 ms")
    assert reports.take() == ["kwire serve: event loop held milliseconds=70"]
    assert reports.take() == []
