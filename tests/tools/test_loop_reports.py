"""A server process that held its event loop is noticed, running or gone, log removed or not."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tools.loop_reports import LoopReports
from tools.process import Process


def started(path: Path, text: str, *, stays: bool = False) -> Process:
    """A process whose log holds ``text``, and which goes on if it ``stays``."""
    wait = "import time; time.sleep(60)" if stays else ""
    program = f"print({text!r}, flush=True)\n{wait}"
    return Process("kwire serve", [sys.executable, "-c", program], path)


def wait_for_end(process: Process) -> None:
    """Return when the process has ended by itself."""
    deadline = time.monotonic() + 10
    while process.running():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_report_in_the_log_of_a_running_process_is_taken_once(tmp_path: Path) -> None:
    process = started(tmp_path / "log", "12:00 event loop held milliseconds=70", stays=True)
    reports = LoopReports()
    reports.watch(process)
    try:
        process.wait_until(lambda: "held" in process.said(), 10, 0.01)
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
    wait_for_end(process)
    process.log.unlink()
    assert reports.take() == ["kwire serve: event loop held api=fetch"]
    assert reports.take() == []


def test_log_without_reports_gives_none(tmp_path: Path) -> None:
    process = started(tmp_path / "log", "ready")
    reports = LoopReports()
    reports.watch(process)
    wait_for_end(process)
    assert reports.take() == []


def test_shorter_step_is_ignored(tmp_path: Path) -> None:
    process = started(
        tmp_path / "log",
        "event loop held milliseconds=70\n"
        '{"milliseconds": 299, "event": "event loop held"}\n'
        '{"milliseconds": 300, "event": "event loop held"}',
    )
    reports = LoopReports()
    reports.watch(process)
    wait_for_end(process)
    assert reports.take(300) == ['kwire serve: {"milliseconds": 300, "event": "event loop held"}']


def test_reports_in_what_a_test_captured_itself_are_taken_once() -> None:
    reports = LoopReports()
    reports.read(
        "kwire serve", "ready\nevent loop held milliseconds=70\nevent loop held milliseconds=20"
    )
    assert reports.take(50) == ["kwire serve: event loop held milliseconds=70"]
    assert reports.take() == []
