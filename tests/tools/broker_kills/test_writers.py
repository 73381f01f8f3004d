"""A writer whose thread ends before the run is a violation."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tools.broker_kills import writers
from tools.broker_kills.writers import Writer


class Worker(Writer):
    """Does what the test says."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__("127.0.0.1:1", "t")
        self._work = work

    def work(self) -> None:
        self._work()

    def violations(self) -> list[str]:
        return self.failed

    def counts(self) -> dict[str, int]:
        return {}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_writer_whose_thread_died_is_a_violation() -> None:
    def fail() -> None:
        raise ValueError("no")

    writer = Worker(fail)
    writer.start()
    writer.end()
    assert writer.violations() == ["t: the thread ended: ValueError('no')"]


def test_writer_that_returned_before_the_run_ended_is_a_violation() -> None:
    writer = Worker(lambda: None)
    writer.start()
    writer.join()
    assert writer.violations() == ["t: the thread ended before the run"]


def test_writer_that_works_until_it_is_ended_has_no_violation() -> None:
    writer = Worker(lambda: None)
    writer.work = writer.ended.wait  # type: ignore[method-assign, assignment]
    writer.start()
    writer.end()
    assert writer.violations() == []


def test_writer_that_is_stuck_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_END_S", 0.0)
    let_go = threading.Event()
    writer = Worker(lambda: None)
    writer.work = let_go.wait  # type: ignore[method-assign, assignment]
    writer.start()
    writer.end()
    [violation] = writer.violations()
    assert violation.startswith("t: the thread has not ended: it is in ")
    assert "writers.py" in violation
    let_go.set()
    writer.join()
