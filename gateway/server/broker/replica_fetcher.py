"""Fetches from one other broker the partitions that it leads: sends what
``gateway.broker.replica.fetcher`` decides over one connection, and has the logs carry out the steps
(``ReplicaFetcherThread``, ``RemoteLeaderEndPoint``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from gateway.base.error_text import error_with_code
from gateway.base.sizes import MIB
from gateway.broker.replica.fetcher import Fetcher, FetcherSettings
from gateway.broker.replica.followed import Append, CutTo, Followed, Locate, StartAt, Step, Truncate
from gateway.server.broker.broker_connection import BrokerConnection, InterBrokerSettings
from gateway.server.node_client.errors import UpstreamError
from gateway.sources.follower_appends import Change, NotReplicated, Outcome
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.server.broker.replication_throttle import ReplicationThrottle
    from gateway.server.logging.logs import Reports
    from gateway.sources.data_partition import DataPartition
    from kwire.message import Message
    from kwire.messages.fetch_request import FetchRequest
    from kwire.uuid import Uuid

#: Those with topic ids and the epoch of the replica's broker.
_FETCH_VERSIONS: Final = range(15, 19)
#: Those with leader epochs, for a request of a replica.
_LIST_OFFSETS_VERSIONS: Final = range(4, 11)
_LATEST: Final = -1
_EARLIEST: Final = -2
#: Errors while one of both brokers has not heard of a change of leaders or topics yet.
_PASSING: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
#: Steps between which other tasks run.
_SLICE: Final = 16


class Source(NamedTuple):
    """The broker that is fetched from: its id, and its address in the image, None without one."""

    broker_id: int
    address: Callable[[], Address | None]


class FetchingSettings(NamedTuple):
    """The configuration of all fetchers: how to connect to other brokers, and the limits of
    requests.
    """

    brokers: InterBrokerSettings
    limits: FetcherSettings


class FetcherContext(NamedTuple):
    """The things that all fetchers of a broker use. ``broker_epoch`` returns that of this one;
    ``throttle`` is its quota as a follower.
    """

    broker_id: int
    broker_epoch: Callable[[], int]
    settings: FetchingSettings
    reports: Reports
    throttle: ReplicationThrottle


class ReplicaFetcher:
    """The fetcher of one source broker; :meth:`run` is the task."""

    def __init__(self, source: Source, context: FetcherContext) -> None:
        self.core = Fetcher(context.broker_id, context.settings.limits)
        self._source = source
        self._context = context
        self._partitions: dict[tuple[Uuid, int], DataPartition] = {}
        settings = context.settings
        self._connection = BrokerConnection(
            *source,
            settings.brokers,
            response_max_bytes=max(64 * MIB, 2 * settings.limits.response_max_bytes),
        )
        self._wake = trio.Event()
        self._reported = ""  # why the source was not reached
        self._errors: dict[tuple[Uuid, int], str] = {}  # that were reported, by partition

    # --- its partitions
    # ---------------------------------------------------------------------------------------------

    def follow(self, partition: DataPartition, leader_epoch: int) -> None:
        """Fetch a partition, whose log is open."""
        position = partition.follower.position
        assert position is not None, "its log is open, and has nothing to do"
        key = partition.topic_id, partition.index
        self._partitions[key] = partition
        self._errors.pop(key, None)
        self.core.follow(*key, leader_epoch, position)
        self._wake.set()

    def unfollow(self, partition: DataPartition) -> None:
        """Fetch a partition no more."""
        key = partition.topic_id, partition.index
        if self._partitions.pop(key, None) is not None:
            self._errors.pop(key, None)
            self.core.unfollow(*key)
            self._wake.set()

    # --- the task
    # ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fetch, for ever."""
        try:
            while True:
                self._hold_back()
                request = self.core.request(trio.current_time(), self._context.broker_epoch())
                if request is not None:
                    await self._round(request)
                    continue
                if not self._partitions:
                    await self._connection.close()
                with trio.move_on_at(self.core.deadline()):
                    await self._wake.wait()
                self._wake = trio.Event()
        finally:
            with trio.CancelScope(shield=True):
                await self._connection.close()

    def _hold_back(self) -> None:
        """Leave throttled partitions out of the next requests that are not in sync
        (``AbstractFetcherThread.shouldFollowerThrottle``).
        """
        throttle = self._context.throttle
        if throttle.is_limited and throttle.is_exceeded:
            self.core.hold_back(
                trio.current_time(),
                lambda one: throttle.has(self._partitions[one.key].stored.topic, one.key[1]),
            )

    async def _round(self, request: FetchRequest) -> None:
        try:
            response = await self._call(request, _FETCH_VERSIONS)
            self._reported = ""
            steps = self.core.answered(response, trio.current_time())
            self._report_refused()
            for number, step in enumerate(steps, 1):
                await self._begin(step)
                if number % _SLICE == 0:
                    await trio.lowlevel.checkpoint()
        except UpstreamError as error:
            await self._connection.close()
            self.core.failed(trio.current_time())
            self._report(str(error))

    async def _call(self, request: Message, versions: range) -> Any:
        """Send a request to the source. Raises UpstreamError."""
        wait_s = self._context.settings.limits.max_wait_ms / 1000
        return await self._connection.call(request, versions, more_s=wait_s)

    # --- steps
    # ---------------------------------------------------------------------------------------------

    async def _begin(self, step: Step) -> None:
        one = step.followed
        partition = self._partitions.get(one.key)
        if partition is None or not self.core.is_current(one):
            return
        if isinstance(step, Locate):
            located = await self._locate(one, partition)
            if located is None or not self.core.is_current(one):
                self.core.back_off(one, trio.current_time())
                return
            step = located
        if isinstance(step, Append):
            size = len(step.records or b"")
            self._context.throttle.record(partition.stored.topic, partition.index, size)
        partition.follower.take(step, partial(self._done, partition, step))

    def _done(self, partition: DataPartition, step: Step, outcome: Outcome) -> None:
        """A log has carried out a step, or has not."""
        one = step.followed
        if not self.core.is_current(one):
            return
        if isinstance(outcome, NotReplicated):
            self._report_partition(one, outcome.reason)
            self.core.back_off(one, trio.current_time(), partition.follower.position)
        else:
            if isinstance(step, Truncate | CutTo | StartAt):
                self._context.reports.report(
                    "partition truncated",
                    partition=partition.directory.name,
                    leader=self._source.broker_id,
                    from_offset=one.position.end_offset,
                    to_offset=outcome.end_offset,
                )
            self.core.positioned(one, outcome)
        self._wake.set()

    async def _locate(self, one: Followed, partition: DataPartition) -> Change | None:
        """Ask the leader where its log begins and ends, and return what that means for the log;
        None: try again. Raises UpstreamError.
        """
        found = []
        for timestamp in (_EARLIEST, _LATEST):
            request = self._list_offsets(one, partition, timestamp)
            answer = await self._call(request, _LIST_OFFSETS_VERSIONS)
            listed = [one for topic in answer.topics for one in topic.partitions]
            if len(listed) != 1 or listed[0].error_code or listed[0].offset < 0:
                code = listed[0].error_code if listed else ErrorCode.UNKNOWN_SERVER_ERROR
                self._report_partition(one, f"ListOffsets: {error_with_code(code)}")
                return None
            found.append(listed[0].offset)
        return self.core.located(one, *found)

    def _list_offsets(
        self, one: Followed, partition: DataPartition, timestamp: int
    ) -> ListOffsetsRequest:
        asked = ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=one.leader_epoch,
            timestamp=timestamp,
        )
        return ListOffsetsRequest(
            replica_id=self._context.broker_id,
            topics=[ListOffsetsTopic(name=partition.stored.topic, partitions=[asked])],
        )

    # --- what is reported
    # ---------------------------------------------------------------------------------------------

    def _report(self, reason: str) -> None:
        if reason != self._reported:
            self._reported = reason
            self._context.reports.report("leader not reached", error=reason)

    def _report_refused(self) -> None:
        """Report the partitions that the last response had an error for."""
        for one in self.core.refused:
            if one.error not in _PASSING:
                self._report_partition(one, error_with_code(one.error))

    def _report_partition(self, one: Followed, reason: str) -> None:
        partition = self._partitions.get(one.key)
        if partition is None or self._errors.get(one.key) == reason:
            return
        self._errors[one.key] = reason
        self._context.reports.report(
            "partition not fetched",
            partition=partition.directory.name,
            leader=self._source.broker_id,
            error=reason,
        )
