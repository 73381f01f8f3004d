"""Reads the records of a topic from any Kafka server, and says in words why there are none.

A reader asks for the leaders of the partitions (Metadata), for their bounds (ListOffsets), and
fetches from each leader as a consumer without a group does. It passes control records over, and
writes nothing anywhere. It repeats a request whose error Kafka's clients repeat; any other error
names the cause and the next step.
"""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import trio

from gateway.base.address import Address
from gateway.base.sizes import MIB
from gateway.cli.server_nodes import CONNECT_S, Nodes, ServerError, ServerLost
from gateway.cli.topic_causes import check_error, missing, not_a_broker, unknown_leader
from kwire.errors import DecodeError
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import ErrorCode
from kwire.records import decode_batches

if TYPE_CHECKING:
    from gateway.cli.server_options import Server
    from gateway.server.node_client.connection import Upstream
    from kwire.records import RecordBatch
    from kwire.records.record import Header

_T = TypeVar("_T")

#: From here on Metadata can ask not to create a topic; later ones name topics by id.
_METADATA: Final = range(4, 13)
#: Later versions of Fetch name topics by id.
_FETCH: Final = range(4, 13)
_LIST_OFFSETS: Final = range(1, 8)
_EARLIEST, _LATEST = -2, -1
#: How long a server may hold a Fetch until a record comes, ms.
_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 4 * MIB
_ANSWER_S: Final = 30.0
#: How long to wait for the next record below the end, and for a leader, s.
STALLED_S: Final = 30.0
_PAUSE_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Fetched:
    """A data record, and where it stands. ``leader_epoch`` is -1 if unknown."""

    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class TopicReader:
    """Reads one topic. Made by :meth:`open`, closed by :meth:`aclose`.

    ``leaders``: the address of each partition's leader, None without one.
    """

    def __init__(self, nodes: Nodes, topic: str, patience_s: float = STALLED_S) -> None:
        self.topic = topic
        self.leaders: dict[int, Address | None] = {}
        self._nodes = nodes
        self._patience_s = patience_s

    @property
    def where(self) -> str:
        """The server as the user named it."""
        return str(self._nodes.server)

    async def open(self) -> None:
        """Ask the server for the partitions of the topic and their leaders.

        Raises click.ClickException if it has none, or cannot be asked.
        """
        await self._patiently(self._find, self._patience())

    async def bounds(self, partition: int) -> tuple[int, int]:
        """Return the first offset, and the one behind the last record.

        Raises click.ClickException.
        """
        return await self._patiently(lambda: self._bounds(partition), self._patience())

    async def bounds_now(self, partition: int) -> tuple[int, int]:
        """Return the same, but do not wait for a leader. Raises click.ClickException."""
        return await self._bounds(partition)

    async def bounds_at_last(self, partition: int) -> tuple[int, int]:
        """Return the same, as soon as there is a leader. Raises click.ClickException."""
        patience = self._patience(math.inf)
        return await self._patiently(lambda: self._bounds(partition), patience)

    def another(self, connect_s: float) -> TopicReader:
        """Return a reader of the same topic with connections of its own, to read another partition
        at the same time.
        """
        other = TopicReader(self._nodes.another(connect_s), self.topic, self._patience_s)
        other.leaders = dict(self.leaders)
        return other

    async def read(
        self, partition: int, start: int, end: int | None
    ) -> AsyncGenerator[list[Fetched], None]:
        """Yield the data records from ``start`` on in their order, up to ``end`` (exclusive) or
        without end, those of one batch at a time.

        Without an end a lost server is waited for. Raises click.ClickException, also if a server
        returns no records below ``end`` for the time of the reader's patience.
        """
        position = start
        patience = self._patience(math.inf if end is None else None)
        while end is None or position < end:
            fetch = functools.partial(self._fetch, partition, position)
            for batch in await self._patiently(fetch, patience):
                if records := _data(batch, partition, position, end):
                    yield records
                position = max(position, batch.header.next_offset)
                patience.restart()
            if end is not None:
                patience.check(
                    f"the server returned no records from offset {position} on, of {end}, for"
                    f" {self._patience_s:g} s"
                )

    async def aclose(self) -> None:
        """Close the connections."""
        with trio.CancelScope(shield=True):
            await self._nodes.aclose()

    async def _find(self) -> None:
        upstream = await self._nodes.first()
        if MetadataRequest.API_KEY not in upstream.versions:
            raise not_a_broker(upstream)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False
        )
        answer = await self._ask(upstream, request, _METADATA)
        [found] = answer.topics
        if found.error_code in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ):
            raise await missing(upstream, self.topic)
        self._check(upstream, found.error_code, "Describe")
        hosts = {one.node_id: Address(one.host, one.port) for one in answer.brokers}
        self.leaders = {
            one.partition_index: hosts.get(one.leader_id)
            for one in sorted(found.partitions, key=lambda one: one.partition_index)
        }

    async def _leader(self, partition: int) -> Upstream:
        address = self.leaders.get(partition)
        if address is None:
            await self._find()
            address = self.leaders.get(partition)
        if address is None:
            raise unknown_leader(self.where, self.topic, partition)
        known = address in self._nodes.server.addresses
        return await self._nodes.at(
            address, "" if known else f"{self.where} names the leader of {self.topic}-{partition}: "
        )

    async def _bounds(self, partition: int) -> tuple[int, int]:
        upstream = await self._leader(partition)
        first = await self._offset(upstream, partition, _EARLIEST)
        return first, await self._offset(upstream, partition, _LATEST)

    async def _offset(self, upstream: Upstream, partition: int, timestamp: int) -> int:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self.topic, partitions=[wanted])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await self._ask(upstream, request, _LIST_OFFSETS)
        found = _only(upstream, answer.topics, "ListOffsets")
        self._check(upstream, found.error_code, "Describe")
        return int(found.offset)

    async def _fetch(self, partition: int, offset: int) -> Iterator[RecordBatch]:
        upstream = await self._leader(partition)
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            session_epoch=-1,
            topics=[FetchTopic(topic=self.topic, partitions=[wanted])],
        )
        answer = await self._ask(upstream, request, _FETCH)
        self._check(upstream, answer.error_code, "Read")
        found = _only(upstream, answer.responses, "Fetch")
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            first, end = await self._bounds(partition)
            raise ServerError(
                f"{self.where}: offset {offset} of {self.topic} is no longer there: it goes from"
                f" {first} to {end}"
            )
        self._check(upstream, found.error_code, "Read")
        return _batches(upstream, bytes(found.records or b""), offset)

    def _check(self, upstream: Upstream, code: int, operation: str) -> None:
        check_error(upstream, self._nodes.server, self.topic, code, operation)

    async def _ask(self, upstream: Upstream, request: Any, versions: range) -> Any:
        return await self._nodes.ask(upstream, request, versions, _ANSWER_S)

    def _patience(self, seconds: float | None = None) -> _Patience:
        return _Patience(self._patience_s if seconds is None else seconds)

    async def _patiently(self, ask: Callable[[], Awaitable[_T]], patience: _Patience) -> _T:
        """Return what ``ask`` returns, and repeat it while its error may pass and ``patience``
        lasts.
        """
        while True:
            try:
                found = await ask()
            except ServerError as error:
                await patience.spend(error)
            else:
                patience.answered()
                return found
            self.leaders = dict.fromkeys(self.leaders)


class _Patience:
    """Bounds the time without an answer, s, and tells the user once that there is none."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_endless = seconds == math.inf
        self._told = False
        self.restart()

    def restart(self) -> None:
        """Begin anew after progress."""
        self._until = trio.current_time() + self._seconds

    def answered(self) -> None:
        """Note an answer without an error."""
        if self._told:
            click.echo("the server answers again", err=True)
        self._told = False

    def check(self, sentence: str) -> None:
        """Raise ServerError with ``sentence`` if the time is over."""
        if trio.current_time() >= self._until:
            raise ServerError(sentence)

    async def spend(self, error: ServerError) -> None:
        """Wait a little before the next attempt. Raises ``error`` if it does not pass, or the time
        is over.
        """
        passes = error.is_transient or (isinstance(error, ServerLost) and self._is_endless)
        if not passes or trio.current_time() >= self._until:
            raise error from None
        if not self._told:
            click.echo(f"{error.message}; trying again", err=True)
        self._told = True
        await trio.sleep(_PAUSE_S)


def start_offset(start: str | int, first: int, end: int, topic: str) -> int:
    """Return the offset of ``beginning``, ``end`` or a number. Raises click.ClickException for one
    out of range.
    """
    offset = {"beginning": first, "end": end}.get(str(start), start)
    assert isinstance(offset, int)
    if not first <= offset <= end:
        raise click.ClickException(
            f"offset {offset} is not in {topic}: it goes from {first} to {end}"
        )
    return offset


def with_reader(
    server: Server,
    topic: str,
    client_id: str,
    work: Callable[[TopicReader], Awaitable[_T]],
    connect_s: float = CONNECT_S,
) -> _T:
    """Return what ``work`` returns for an open reader of the topic; the reader is closed then. A
    connection is given up after ``connect_s`` seconds.

    Raises click.ClickException, and what ``work`` raises.
    """

    async def run() -> _T:
        reader = TopicReader(Nodes(server, client_id, connect_s), topic, STALLED_S)
        try:
            await reader.open()
            return await work(reader)
        finally:
            await reader.aclose()

    try:
        return trio.run(run)
    except BaseExceptionGroup as group:
        raise _innermost(group) from None


def _innermost(error: BaseException) -> BaseException:
    """Return the first exception of a group: that of the task that ended the others."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _only(upstream: Upstream, topics: Any, api: str) -> Any:
    """Return the one partition of a response to a request for one."""
    partitions = [one for topic in topics for one in topic.partitions]
    if len(partitions) != 1:
        raise ServerError(
            f"{upstream.address}: its answer to {api} has {len(partitions)} partitions in place of"
            " the one that was requested"
        )
    return partitions[0]


def _batches(upstream: Upstream, data: bytes, offset: int) -> Iterator[RecordBatch]:
    """Yield the batches of a Fetch response. Raises ServerError for bytes that are none."""
    found = False
    try:
        for batch in decode_batches(data):
            found = True
            yield batch
    except DecodeError as error:
        raise ServerError(
            f"{upstream.address}: the records from offset {offset} on cannot be read: {error}"
        ) from None
    if data and not found:
        raise ServerError(
            f"{upstream.address}: the batch at offset {offset} is not whole, it is larger than"
            f" {_FETCH_BYTES} bytes"
        )


def _data(batch: RecordBatch, partition: int, start: int, end: int | None) -> list[Fetched]:
    header = batch.header
    if header.is_control:
        return []
    epoch = header.partition_leader_epoch
    return [
        Fetched(partition, epoch, one.offset, one.timestamp, one.key, one.value, one.headers)
        for one in batch.records
        if start <= one.offset and (end is None or one.offset < end)
    ]
