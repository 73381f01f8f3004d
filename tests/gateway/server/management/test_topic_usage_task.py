"""The measurement of topics: while the page asks for it, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from gateway.page.topic_usage import TopicUsage
from gateway.ports.replicas import LogSize
from gateway.server.broker.replica_manager import ReplicaManager
from gateway.server.management.topic_usage_task import IDLE_S, TopicUsageTask
from gateway.sources.append_counts import AppendCounts

_Main = Callable[[TopicUsageTask, SimpleNamespace], Coroutine[Any, Any, None]]


def with_task(main: _Main) -> None:
    replicas = SimpleNamespace(passes=0, appended_by_topic={"orders": AppendCounts()})

    def sizes() -> Iterator[LogSize]:
        replicas.passes += 1
        for number in range(1000):
            yield LogSize("orders", number, 2)

    replicas.sizes = sizes

    async def both() -> None:
        task = TopicUsageTask(cast(ReplicaManager, replicas))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task.run)
            await main(task, replicas)
            nursery.cancel_scope.cancel()

    trio.run(both, clock=trio.testing.MockClock(autojump_threshold=0))


def test_first_question_waits_for_the_first_measurement() -> None:
    async def main(task: TopicUsageTask, replicas: SimpleNamespace) -> None:
        await trio.sleep(100)
        assert replicas.passes == 0
        assert await task.measured() == {"orders": TopicUsage(2000)}

    with_task(main)


def test_rates_follow_while_a_page_asks() -> None:
    async def main(task: TopicUsageTask, replicas: SimpleNamespace) -> None:
        await task.measured()
        replicas.appended_by_topic["orders"].add(21, 210)
        await trio.sleep(2.5)
        usage = (await task.measured())["orders"]
        # 2 s, and 0.1 ms for each of 1,000 partitions, after the first measurement.
        assert (round(usage.messages, 6), round(usage.bytes_in, 6)) == (10.0, 100.0)

    with_task(main)


def test_nothing_is_measured_when_no_page_asks_any_more() -> None:
    async def main(task: TopicUsageTask, replicas: SimpleNamespace) -> None:
        await task.measured()
        await trio.sleep(IDLE_S + 10)
        passes = replicas.passes
        assert passes > 10
        await trio.sleep(600)
        assert replicas.passes == passes
        assert await task.measured() == {"orders": TopicUsage(2000)}
        assert replicas.passes == passes + 1

    with_task(main)
