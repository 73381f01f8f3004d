"""Work in slices: sorted in short steps, and carried out by a task beside others."""

from __future__ import annotations

import random
import time

import pytest
import trio

from gateway.server.slices_task import carried_out
from gateway.slices import Slices, in_order, run
from tests.gateway.steps import calls_per_step


@pytest.mark.parametrize("count", [0, 1, 1999, 2000, 2001, 9000])
def test_elements_are_sorted(count: int) -> None:
    numbers = [random.Random(count).randrange(1000) for _ in range(count)]
    assert list(run(in_order(iter(numbers)))) == sorted(numbers)


def test_many_elements_are_sorted_in_steps() -> None:
    numbers = list(range(20_000, 0, -1))
    steps = list(in_order(numbers))
    assert len(steps) == 10
    _, calls = calls_per_step(in_order(numbers))
    assert calls < 5_000


def test_other_tasks_run_between_slices() -> None:
    turns = 0

    def work() -> Slices[str]:
        for _ in range(10):
            ends_at = time.perf_counter() + 0.006
            while time.perf_counter() < ends_at:
                pass
            yield
        return "done"

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            assert await carried_out(work()) == "done"
            nursery.cancel_scope.cancel()

    trio.run(main)
    # The other task may begin after the first slice: trio runs new tasks in any order.
    assert turns >= 9


def test_what_work_raises_is_raised() -> None:
    def work() -> Slices[None]:
        yield
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        trio.run(carried_out, work())
