"""Measures the topics of a broker while a browser shows the page's table of topics.

A broker with many partitions is measured less often, so that the measurement takes a few percent
of the event loop at most. Nothing is measured, nor kept, while no browser does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.page.topic_usage import TopicMeter, TopicUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.server.broker.replica_manager import ReplicaManager

#: Between two measurements, s: this, and so much for each partition.
_PAUSE_S: Final = 2.0
_PAUSE_EACH_S: Final = 0.0001
#: Time without a question after which nothing is measured any more, s.
IDLE_S: Final = 60.0
#: The longest wait for the first measurement, s.
_FIRST_S: Final = 0.3


class TopicUsageTask:
    """The usage of the topics of one broker; :meth:`run` is the task."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas
        self._meter = TopicMeter()
        self._is_measured = False
        self._asked_at = float("-inf")
        self._wake, self._done = trio.Event(), trio.Event()

    async def measured(self) -> Mapping[str, TopicUsage]:
        """Return the usage as of the last measurement, or nothing where the first one takes
        long.
        """
        self._asked_at = trio.current_time()
        self._wake.set()
        if not self._is_measured:
            with trio.move_on_after(_FIRST_S):
                await self._done.wait()
        return self._meter.usage

    async def run(self) -> None:
        """Measure while a page asks, for ever."""
        while True:
            await self._wake.wait()
            await self._measure()
            self._is_measured = True
            self._done.set()
            self._done = trio.Event()
            await trio.sleep(_PAUSE_S + _PAUSE_EACH_S * self._meter.partitions)
            if trio.current_time() - self._asked_at > IDLE_S:
                self._meter.forget()
                self._is_measured = False
                self._wake = trio.Event()

    async def _measure(self) -> None:
        counts, now = self._replicas.appended_by_topic, trio.current_time()
        for _ in self._meter.measure(self._replicas.sizes(), counts, now):
            await trio.lowlevel.checkpoint()
