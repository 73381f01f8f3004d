"""The purgatory: deadlines, waiting for partitions, cancellation, and the cost of a wake-up."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import trio
import trio.testing

from gateway.ports.pending_response import PendingResponse
from gateway.server.clients.purgatory import SLICE, Purgatory
from kwire.messages.heartbeat_response import HeartbeatResponse
from tests.gateway.handlers.world import MemoryPartition
from tests.gateway.server.harness import handler, heartbeat, run, serving
from tests.waiting import until_async

ANSWER = HeartbeatResponse(error_code=1)
LATE = HeartbeatResponse(error_code=2)


class Waiting:
    """A pending response as a connection holds it; ``got`` is what it was answered."""

    def __init__(
        self,
        purgatory: Purgatory,
        *partitions: MemoryPartition,
        ready: Callable[[], Any] = lambda: None,
        deadline: float | None = None,
    ) -> None:
        self.got: list[Any] = []
        self.errors: list[Exception] = []
        self.pending = PendingResponse(
            deadline=deadline, expire=lambda: LATE, ready=ready, partitions=partitions
        )
        self._purgatory = purgatory
        purgatory.watch(self.pending)
        self.pending.attach(self._deliver, self._failed)

    def _deliver(self, answer: Any) -> None:
        self.got.append(answer)
        self._purgatory.forget(self.pending)

    def _failed(self, error: Exception) -> None:
        self.errors.append(error)
        self._purgatory.forget(self.pending)


def with_clock(main: Any) -> None:
    """Run ``main(purgatory)`` with its task, on a clock that jumps."""

    async def whole() -> None:
        purgatory = Purgatory()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(purgatory.run)
            await main(purgatory)
            nursery.cancel_scope.cancel()

    trio.run(whole, clock=trio.testing.MockClock(autojump_threshold=0))


def test_responses_expire_at_their_deadlines_in_order() -> None:
    async def main(purgatory: Purgatory) -> None:
        now = trio.current_time()
        late, early = Waiting(purgatory, deadline=now + 10), Waiting(purgatory, deadline=now + 5)
        await trio.sleep(4.9)
        earliest = Waiting(purgatory, deadline=now + 4.95)  # earlier than what the task waits for
        await trio.sleep(0.06)
        assert (earliest.got, early.got) == ([LATE], [])
        await trio.sleep(0.05)
        assert (early.got, late.got) == ([LATE], [])
        await trio.sleep(5)
        assert late.got == [LATE]
        assert purgatory.parked == 0

    with_clock(main)


def test_responses_are_tried_when_the_partition_advances_and_only_then() -> None:
    async def main(purgatory: Purgatory) -> None:
        asked: list[int] = []
        high_watermarks = [0]

        def ready() -> Any:
            asked.append(high_watermarks[-1])
            return ANSWER if high_watermarks[-1] >= 2 else None

        partition = MemoryPartition()
        waiting = Waiting(purgatory, partition, ready=ready)
        await trio.testing.wait_all_tasks_blocked()
        for moved_to in (1, 2, 3):
            high_watermarks.append(moved_to)
            partition.append()
            await trio.testing.wait_all_tasks_blocked()
        assert asked == [1, 2]
        assert waiting.got == [ANSWER]
        assert purgatory.parked == purgatory.waiting == 0

    with_clock(main)


def test_partition_that_advances_has_only_the_responses_tried_that_wait_for_it() -> None:
    async def main(purgatory: Purgatory) -> None:
        one, other, asked = MemoryPartition(), MemoryPartition(), list[str]()
        waiting = [
            Waiting(purgatory, *partitions, ready=partial(asked.append, name))
            for name, partitions in (("one", [one]), ("other", [other]), ("both", [one, other]))
        ]
        assert (purgatory.parked, purgatory.waiting) == (3, 3)
        one.append()
        await trio.testing.wait_all_tasks_blocked()
        assert asked == ["one", "both"]
        one.append()
        other.append()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(asked[2:]) == ["both", "one", "other"], "each is tried once"
        for each in waiting:
            each.pending.complete(ANSWER)
        assert not one.listeners and not other.listeners, "the purgatory keeps no subscription"

    with_clock(main)


def test_cancelled_response_is_not_tried_and_not_kept() -> None:
    async def main(purgatory: Purgatory) -> None:
        def ready() -> Any:
            raise AssertionError("asked although nobody waits")

        partition = MemoryPartition()
        waiting = Waiting(purgatory, partition, ready=ready, deadline=trio.current_time() + 5)
        waiting.pending.cancel()
        purgatory.forget(waiting.pending)
        partition.append()
        await trio.sleep(6)
        assert not (waiting.got or waiting.errors or purgatory.parked)

    with_clock(main)


def test_complete_responses_with_late_deadlines_leave_the_heap() -> None:
    async def main(purgatory: Purgatory) -> None:
        alive = [Waiting(purgatory, deadline=trio.current_time() + 1e6) for _ in range(10)]
        expirers = weakref.WeakSet[Any]()
        for _ in range(20_000):
            waiting = Waiting(purgatory, deadline=trio.current_time() + 1e6)
            expirers.add(waiting.pending.expire)
            waiting.pending.complete(ANSWER)
        gc.collect()
        assert len(expirers) == 0, (
            "the heap of deadlines holds nothing of a request that was answered"
        )
        assert purgatory.parked == len(alive)

    with_clock(main)


def test_exception_of_a_handler_fails_its_connection_only() -> None:
    async def main(purgatory: Purgatory) -> None:
        partition, error = MemoryPartition(), RuntimeError("a bug")

        def fail() -> Any:
            raise error

        bad = Waiting(purgatory, partition, ready=fail)
        good = Waiting(purgatory, partition, ready=lambda: ANSWER)
        partition.append()
        await trio.testing.wait_all_tasks_blocked()
        assert (bad.errors, good.got) == ([error], [ANSWER])

    with_clock(main)


def test_connection_that_fetches_again_at_once_does_not_keep_others_waiting() -> None:
    async def main(purgatory: Purgatory) -> None:
        partition = MemoryPartition()
        crowd = [Waiting(purgatory, partition) for _ in range(3 * SLICE)]
        last = Waiting(purgatory, partition, ready=lambda: ANSWER)
        assert purgatory.waiting == len(crowd) + 1
        for _ in range(4):
            partition.append()  # each time before the crowd was through
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        assert last.got == [ANSWER]

    with_clock(main)


def test_expire_all_completes_every_response_that_can_expire() -> None:
    async def main(purgatory: Purgatory) -> None:
        waiting = [Waiting(purgatory, deadline=trio.current_time() + 100) for _ in range(5)]
        purgatory.expire_all()
        assert all(one.got == [LATE] for one in waiting)
        assert purgatory.parked == 0

    with_clock(main)


def test_a_thousand_parked_fetches_need_no_task_and_complete_together() -> None:
    count = 1000
    arrived = False
    asked_again = 0

    def ready() -> Any:
        nonlocal asked_again
        asked_again += 1
        return ANSWER if arrived else None

    async def main() -> None:
        nonlocal arrived
        purgatory, partition = Purgatory(), MemoryPartition()

        def handle(asked: Any, context: Any) -> PendingResponse:
            return PendingResponse(
                deadline=context.now + 60,
                expire=lambda: LATE,
                ready=ready,
                partitions=(partition,),
            )

        async with serving(handler(handle), purgatory=purgatory) as server:
            tasks_before = trio.lowlevel.current_statistics().tasks_living
            clients = [await server.connect() for _ in range(count)]
            for number, client in enumerate(clients):
                await client.send(heartbeat(number))
            await until_async(lambda: purgatory.parked == count)
            assert (
                trio.lowlevel.current_statistics().tasks_living == tasks_before + count
            )  # one a connection
            arrived, before = True, asked_again
            partition.append()
            await until_async(lambda: not purgatory.parked)
            assert asked_again - before == count, "each is tried once"
            for number, client in enumerate(clients):
                assert (await client.answer())[0] == number
                await client.stream.aclose()

    run(main)


def test_other_tasks_run_between_long_responses_that_expire_together() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    def late() -> HeartbeatResponse:
        time.sleep(0.01)
        return LATE

    async def main() -> None:
        purgatory = Purgatory()
        waiting = [Waiting(purgatory, deadline=trio.current_time()) for _ in range(10)]
        for one in waiting:
            one.pending.expire = late
        async with trio.open_nursery() as nursery:
            nursery.start_soon(purgatory.run)
            nursery.start_soon(count_turns)
            await until_async(lambda: all(one.got for one in waiting))
            nursery.cancel_scope.cancel()

    run(main)
    assert turns >= 9  # one between each two of ten
