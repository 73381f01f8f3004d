"""Measures what each topic uses of a broker: bytes on its disk, records and bytes a second.

A pass over all partitions is cut into slices. Rates are those of the last 5 to 10 s, from the
counts of ``gateway.sources.append_counts``; Kafka's own rates are means of a minute
(``BrokerTopicMetrics``). Replicas on other brokers are not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.ports.replicas import LogSize

#: Partitions, or topics, that are looked at in one step: about 0.5 ms.
_STEP: Final = 200
#: The shortest span that rates are taken of, s.
_SPAN_S: Final = 5.0


class Counts(Protocol):
    """The records and bytes that were appended to a topic and read from it since the start."""

    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...


class TopicUsage(NamedTuple):
    """The usage of one topic on this broker."""

    size: int = 0  #: bytes of all its logs here
    messages: float = 0.0  #: records appended a second
    bytes_in: float = 0.0  #: bytes appended a second
    bytes_out: float = 0.0  #: bytes that clients fetched a second


#: Records, bytes in and bytes out of a topic.
_Totals = tuple[int, int, int]
_NOTHING: Final[_Totals] = (0, 0, 0)
_UNUSED: Final = TopicUsage()


class _Sample(NamedTuple):
    """The counts of all topics that have any, at one time (s)."""

    taken_at: float
    totals: Mapping[str, _Totals]


class TopicMeter:
    """The usage of all topics as of the last pass. Another thread may read :attr:`usage`, which a
    pass replaces as a whole.
    """

    def __init__(self) -> None:
        self.usage: Mapping[str, TopicUsage] = {}
        #: Partitions of the last pass.
        self.partitions = 0
        self._before: _Sample | None = None  # rates are the change since then
        self._next: _Sample | None = None  # takes its place once it is old enough

    def forget(self) -> None:
        """Release everything: no page asks any more."""
        self.usage, self.partitions = {}, 0
        self._before = self._next = None

    def measure(
        self, sizes: Iterable[LogSize], counts: Mapping[str, Counts], now: float
    ) -> Slices[None]:
        """Look at every partition, and at the counts of each topic, which may change meanwhile."""
        size_of: dict[str, int] = {}
        number = 0
        for number, one in enumerate(sizes, 1):
            size_of[one.topic] = size_of.get(one.topic, 0) + one.size
            if number % _STEP == 0:
                yield
        totals: dict[str, _Totals] = {}
        for step, name in enumerate(list(counts), 1):
            of_topic = counts.get(name)
            if of_topic is not None and (of_topic.messages or of_topic.bytes_out):
                totals[name] = of_topic.messages, of_topic.bytes, of_topic.bytes_out
            if step % _STEP == 0:
                yield
        self._note(_Sample(now, totals))
        usage: dict[str, TopicUsage] = {}
        for step, (name, size) in enumerate(size_of.items(), 1):
            usage[name] = TopicUsage(size, *self._rates(name, totals.get(name, _NOTHING), now))
            if step % _STEP == 0:
                yield
        self.usage, self.partitions = usage, number

    def _note(self, sample: _Sample) -> None:
        if self._before is None or self._next is None:
            self._before, self._next = self._before or sample, sample
        elif sample.taken_at - self._next.taken_at >= _SPAN_S:
            self._before, self._next = self._next, sample

    def _rates(self, name: str, totals: _Totals, now: float) -> tuple[float, float, float]:
        before = self._before
        if before is None or now <= before.taken_at:
            return 0.0, 0.0, 0.0
        span, then = now - before.taken_at, before.totals.get(name, _NOTHING)
        if totals[0] < then[0] or totals[2] < then[2]:
            then = _NOTHING  # the topic was deleted and created again
        messages, bytes_in, bytes_out = (
            (new - old) / span for new, old in zip(totals, then, strict=True)
        )
        return messages, bytes_in, bytes_out


def usage_of(usage: Mapping[str, TopicUsage], name: str) -> TopicUsage:
    """Return the usage of a topic, nothing for one that has no replica on this broker."""
    return usage.get(name, _UNUSED)
