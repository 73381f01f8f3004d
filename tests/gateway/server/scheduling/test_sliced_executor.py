"""Decisions are made one after another, long ones in slices between which other tasks run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import pytest
import trio
import trio.testing

from gateway.server.scheduling import sliced_executor
from gateway.server.scheduling.sliced_executor import SlicedExecutor
from tests.gateway.server.harness import run


class Request:
    """A queued request whose decision takes ``slices`` slices."""

    def __init__(self, name: str, slices: int = 0, fails: bool = False) -> None:
        self.name, self.slices, self.fails = name, slices, fails
        self.is_wanted = True


class Controller:
    """Begins the decisions of requests and writes down what becomes of them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.decisions = SlicedExecutor(self._begin, self._complete, self._failed)

    def submit(self, name: str, slices: int = 0, *, fails: bool = False) -> Request:
        request = Request(name, slices, fails)
        self.decisions.submit(cast(Any, request))
        return request

    def run_periodic(self, slices: int = 0, *, fails: bool = False) -> None:
        work = self._decide(Request("periodic", slices, fails))
        self.decisions.run_next(
            work,
            lambda name, seconds: self._complete(None, name, seconds),
            lambda error: self.log.append(f"{error} failed"),
        )

    def _begin(self, queued: Any) -> Generator[None, None, Any] | None:
        return self._decide(queued) if queued.is_wanted else None

    def _decide(self, queued: Any) -> Generator[None, None, Any]:
        self.log.append(f"{queued.name} begins")
        for _ in range(queued.slices):
            yield
        if queued.fails:
            raise KeyError(queued.name)
        return queued.name

    def _complete(self, queued: Any, decision: Any, seconds: float) -> None:
        assert seconds > 0
        self.log.append(f"{decision} decided")

    def _failed(self, queued: Any, error: Exception) -> None:
        self.log.append(f"{queued.name} failed")


@pytest.fixture(autouse=True)
def a_slice_is_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves with every look, so that each slice has one step."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(sliced_executor, "SLICE_S", 3.5)
    monkeypatch.setattr(
        "gateway.server.scheduling.sliced_executor.time.perf_counter", lambda: next(ticks)
    )


def test_short_decision_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_executor, "SLICE_S", 1000)
    controller = Controller()
    controller.submit("a")
    controller.submit("b", fails=True)
    controller.submit("c", slices=5)
    assert controller.log == [
        "a begins", "a decided", "b begins", "b failed", "c begins", "c decided",
    ]  # fmt: skip


def test_requests_and_periodic_work_wait_for_a_decision_in_progress() -> None:
    async def main() -> None:
        controller = Controller()
        controller.submit("long", slices=20)
        controller.submit("short")
        controller.run_periodic()
        assert controller.log == ["long begins"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(controller.decisions.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert controller.log == [
            "long begins", "long decided", "periodic begins", "periodic decided",
            "short begins", "short decided",
        ]  # fmt: skip

    run(main)


def test_other_tasks_run_between_two_slices() -> None:
    async def main() -> None:
        controller = Controller()
        controller.submit("long", slices=200)
        passes = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(controller.decisions.run)
            while "long decided" not in controller.log:
                await trio.lowlevel.checkpoint()
                passes += 1
            nursery.cancel_scope.cancel()
        assert passes >= 50

    run(main)


def test_request_of_a_client_that_is_gone_is_not_decided() -> None:
    controller = Controller()
    controller.submit("long", slices=20)
    controller.submit("gone").is_wanted = False

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(controller.decisions.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    run(main)
    assert controller.log == ["long begins", "long decided"]


def test_dropped_decisions_are_returned_in_order_and_never_complete() -> None:
    controller = Controller()
    first, second = controller.submit("first", slices=20), controller.submit("second")
    controller.run_periodic()
    assert controller.decisions.cancel_all() == cast(Any, [first, second])
    assert controller.decisions.cancel_all() == []
    assert controller.log == ["first begins"]


def test_periodic_work_is_done_in_slices_while_requests_wait() -> None:
    async def main() -> None:
        controller = Controller()
        controller.run_periodic(slices=200)
        controller.submit("short")
        assert controller.log == ["periodic begins"]
        passes = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(controller.decisions.run)
            while "short decided" not in controller.log:
                await trio.lowlevel.checkpoint()
                passes += 1
            nursery.cancel_scope.cancel()
        assert passes >= 50
        assert controller.log[1:] == ["periodic decided", "short begins", "short decided"]

    run(main)


def test_failed_periodic_work_calls_its_own_callback_alone() -> None:
    controller = Controller()
    controller.run_periodic(fails=True)
    assert controller.log == ["periodic begins", "'periodic' failed"]
    assert controller.decisions.cancel_all() == []


def test_dropped_periodic_work_is_not_among_the_requests() -> None:
    controller = Controller()
    controller.run_periodic(slices=20)
    waiting = controller.submit("waiting")
    assert controller.decisions.cancel_all() == cast(Any, [waiting])


def behind(controller: Controller, slices: int, *, fails: bool = False) -> None:
    def work() -> Generator[None, None, None]:
        for n in range(slices):
            controller.log.append(f"behind {n}")
            yield
        if fails:
            raise KeyError("behind")

    controller.decisions.run_when_idle(
        work(), lambda error: controller.log.append(f"{error} failed")
    )


def test_work_behind_events_goes_on_while_there_are_none() -> None:
    run(_events_before_work_behind)


async def _events_before_work_behind() -> None:
    controller = Controller()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.decisions.run)
        behind(controller, 40)  # more than two slices: trio runs tasks in a random order
        while "behind 1" not in controller.log:
            await trio.lowlevel.checkpoint()
        controller.submit("a")
        controller.submit("b", slices=6)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    at = {line: n for n, line in enumerate(controller.log)}
    assert at["behind 1"] < at["a begins"] < at["b decided"] < at["behind 39"]


def test_work_behind_events_may_fail_or_be_dropped() -> None:
    run(_work_behind_ends)


async def _work_behind_ends() -> None:
    controller = Controller()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.decisions.run)
        behind(controller, 1, fails=True)
        await trio.testing.wait_all_tasks_blocked()
        assert controller.log == ["behind 0", "'behind' failed"]
        behind(controller, 100)
        controller.decisions.cancel_all()
        await trio.testing.wait_all_tasks_blocked()
        assert len(controller.log) == 2
        nursery.cancel_scope.cancel()
