"""Sends requests of one kind to other brokers, over one connection a broker: all that waits for a
broker goes into its next request (``InterBrokerSendThread``).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import trio

from gateway.server.node_client.errors import ConnectionClosed, UpstreamError

if TYPE_CHECKING:
    from gateway.broker.transactions.transaction import TopicPartition
    from kwire.message import Message

#: After a failure, before the next request to the same broker, s.
_BACKOFF_S: Final = 0.1

T = TypeVar("T")


class OfPartitions(Protocol):
    """An entry that is about several partitions."""

    @property
    def partitions(self) -> Collection[TopicPartition]: ...


E = TypeVar("E", bound=OfPartitions)


class RequestKind(Protocol[T]):
    """One kind of request, made of several entries."""

    @property
    def versions(self) -> range: ...

    def take(self, waiting: deque[T]) -> list[T]:
        """Remove from ``waiting`` the entries that go into one request: at least one."""
        ...

    def request(self, entries: Sequence[T]) -> Message: ...

    def answered(self, entries: Sequence[T], response: Any) -> None:
        """The broker has answered, or None: it was not reached, and may have got the request."""
        ...


class Connection(Protocol):
    """A connection to one broker (``BrokerConnection``)."""

    async def call(self, request: Message, versions: range) -> Any:
        """Raises UpstreamError."""
        ...

    async def close(self) -> None: ...


class BrokerRequests(Generic[T]):
    """The requests of one kind. :meth:`run` is the task.

    ``connection`` makes the connection to the broker of an id. A request may arrive twice: it is
    sent again when the broker has closed an idle connection.
    """

    def __init__(self, kind: RequestKind[T], connection: Callable[[int], Connection]) -> None:
        self._kind = kind
        self._connection = connection
        self._waiting: dict[int, deque[T]] = {}
        self._wakes: dict[int, trio.Event] = {}
        self._new: list[int] = []
        self._wake = trio.Event()

    def send(self, broker_id: int, entry: T) -> None:
        """Put an entry into the next request to a broker."""
        if broker_id not in self._waiting:
            self._waiting[broker_id], self._wakes[broker_id] = deque(), trio.Event()
            self._new.append(broker_id)
            self._wake.set()
        self._waiting[broker_id].append(entry)
        self._wakes[broker_id].set()

    async def run(self) -> None:
        """Send what waits, for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                new, self._new = self._new, []
                for broker_id in new:
                    nursery.start_soon(self._serve, broker_id)
                await self._wake.wait()
                self._wake = trio.Event()

    async def _serve(self, broker_id: int) -> None:
        connection, waiting = self._connection(broker_id), self._waiting[broker_id]
        try:
            while True:
                await self._wakes[broker_id].wait()
                self._wakes[broker_id] = trio.Event()
                while waiting:
                    entries = self._kind.take(waiting)
                    response = await self._ask(connection, self._kind.request(entries))
                    self._kind.answered(entries, response)
                    if response is None:
                        await trio.sleep(_BACKOFF_S)
        finally:
            with trio.CancelScope(shield=True):
                await connection.close()

    async def _ask(self, connection: Connection, request: Message) -> Any:
        """Return the response, or None."""
        versions = self._kind.versions
        try:
            try:
                return await connection.call(request, versions)
            except ConnectionClosed:
                return await connection.call(request, versions)
        except UpstreamError:
            return None


def take_each_once(waiting: deque[E], key: Callable[[E], Hashable], partitions_max: int) -> list[E]:
    """Take entries in their order, one of each ``key``: the response tells them apart by it. They
    have ``partitions_max`` partitions together, unless the first alone has more.
    """
    taken: list[E] = []
    keys: set[Hashable] = set()
    size = 0
    while waiting and key(waiting[0]) not in keys:
        size += len(waiting[0].partitions)
        if taken and size > partitions_max:
            break
        taken.append(waiting.popleft())
        keys.add(key(taken[-1]))
    return taken


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions, by their topic, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for where in sorted(partitions):
        found[where.topic].append(where.partition)
    return found
