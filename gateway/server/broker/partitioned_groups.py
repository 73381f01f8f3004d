"""Coordinates the groups of a broker: one coordinator for each partition of ``__consumer_offsets``
that this node leads (``GroupCoordinatorService``, ``CoordinatorRuntime``).

It sends a request to the coordinators of its groups, and joins what they return. The rules of
groups are in ``gateway.groups``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.slices import Slices, pieces, run
from gateway.base.wall_clock import wall_ms
from gateway.groups import Settings, Usage
from gateway.groups.consumer.events import (
    DescribeConsumerGroups,
    DescribeConsumerGroupsResult,
)
from gateway.groups.events import (
    CompleteTransaction,
    DeleteGroups,
    DeleteGroupsResult,
    DescribeGroups,
    DescribeGroupsResult,
    ListGroups,
    ListGroupsResult,
    OffsetFetch,
    OffsetFetchResult,
)
from gateway.groups.request_fault import not_handled
from gateway.log.files.errors import LogError
from gateway.server.broker.coordinator_partition import PartitionUnavailable
from gateway.server.broker.partition_group_store import PartitionGroupStore
from gateway.server.groups.group_driver import GroupDriver, GroupsUnreadableError
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.groups.events import Event, Result
    from gateway.ports.services import Completable
    from gateway.server.broker.coordinator_partition import CoordinatorPartition
    from gateway.server.broker.earlier_offsets import EarlierOffsets
    from gateway.server.broker.internal_topic import InternalTopic
    from gateway.server.groups.group_topics import GroupTopics
    from gateway.server.logging.logs import Reports

#: Threads that load partitions.
_THREADS_MAX: Final = 2
#: Between attempts to load a partition, s.
_RETRY_S: Final = 1.0
#: Groups whose partitions are looked up between two slices: less than 1 ms.
_GROUPS_PER_SLICE: Final = 200

#: Positions of the groups of a request, by the coordinator that has them or the error for them.
_Places = dict["GroupDriver | ErrorCode", list[int]]


class PartitionedGroups:
    """``gateway.ports.services.Groups``; :meth:`run` is the task."""

    def __init__(
        self,
        topic: InternalTopic,
        settings: Settings,
        *,
        node_id: int,
        reports: Reports,
        earlier: EarlierOffsets,
        topics: GroupTopics,
    ) -> None:
        """``earlier``: the offsets of an earlier release, which are taken over first."""
        self._topic = topic
        self._earlier = earlier
        self._topics = topics
        self._settings = settings
        self._node_id = node_id
        self._reports = reports
        #: The memory that the groups of all partitions hold.
        self.usage = Usage()
        #: Number of requests that each limit refused, by its configuration key.
        self.refusals: Counter[str] = Counter()
        self._threads = trio.CapacityLimiter(_THREADS_MAX)
        self._shards: dict[int, tuple[GroupDriver, trio.CancelScope]] = {}
        self._unreadable: set[int] = set()  # partitions
        self._nursery: trio.Nursery | None = None

    def coordinator_of(self, group_id: str) -> int | ErrorCode:
        """Return the leader of the group's partition."""
        return self._topic.coordinator_of(group_id)

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        """As in ``Groups``. If the partition has no coordinator here, the next one finds the marker
        when it loads.
        """
        shard = self._shards.get(partition)
        if shard is not None:
            shard[0].complete_transaction(producer_id, partition, committed)

    def count_by_state(self) -> Counter[str]:
        """Number of groups in each state, by Kafka's names."""
        counts: Counter[str] = Counter()
        for shard, _ in self._shards.values():
            counts += shard.count_by_state()
        return counts

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; then the coordinators write what is left, and complete the
        requests that wait.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                while self._earlier.exists:
                    await self._take_over()
                self._topic.follow(self._elected, self._resigned)
                await trio.sleep_forever()
        finally:
            self._nursery = None

    # --- coordinators
    # ---------------------------------------------------------------------------------------------

    async def _take_over(self) -> None:
        try:
            await self._earlier.take_over(self._topic, wall_ms())
        except (LogError, PartitionUnavailable, DecodeError) as error:
            self._reports.report("offset store unavailable", error=str(error), retry_s=_RETRY_S)
            await trio.sleep(_RETRY_S)

    def _elected(self, partition: CoordinatorPartition) -> None:
        if self._nursery is None:
            return
        driver = GroupDriver(
            PartitionGroupStore(partition, self._threads),
            self._settings,
            node_id=self._node_id,
            reports=self._reports,
            usage=self.usage,
            refusals=self.refusals,
            threads=self._threads,
            topics=self._topics,
        )
        scope = trio.CancelScope()
        self._shards[partition.index] = driver, scope
        self._nursery.start_soon(self._coordinate, partition, driver, scope)

    def _resigned(self, partition: CoordinatorPartition) -> None:
        self._unreadable.discard(partition.index)
        shard = self._shards.pop(partition.index, None)
        if shard is not None:
            shard[1].cancel()

    async def _coordinate(
        self, partition: CoordinatorPartition, driver: GroupDriver, scope: trio.CancelScope
    ) -> None:
        with scope:
            while True:
                try:
                    await driver.run()
                except LogError as error:
                    self._reports.report(
                        "offset store unavailable", error=str(error), retry_s=_RETRY_S
                    )
                except GroupsUnreadableError as error:
                    # As in Kafka, until there is another leader: clients get NOT_COORDINATOR.
                    self._reports.report("group partition not loaded", error=str(error))
                    del self._shards[partition.index]
                    self._unreadable.add(partition.index)
                    return
                await trio.sleep(_RETRY_S)

    def _find(self, group_id: str) -> GroupDriver | ErrorCode:
        index = self._topic.partition_for(group_id)
        if index is None or index in self._unreadable:
            return ErrorCode.NOT_COORDINATOR
        shard = self._shards.get(index)
        return self._topic.fault_of(group_id) if shard is None else shard[0]

    # --- requests
    # ---------------------------------------------------------------------------------------------

    def submit(self, event: Event, pending: Completable[Result]) -> None:
        """As in ``Groups``."""
        match event:
            case ListGroups():
                self._list(event, pending)
            case OffsetFetch(groups, require_stable, members):
                self._scatter(
                    [group_id for group_id, _ in groups],
                    lambda places: OffsetFetch(
                        tuple(groups[at] for at in places),
                        require_stable,
                        tuple(members[at] for at in places) if members else (),
                    ),
                    lambda result: result.groups,
                    lambda found: OffsetFetchResult(groups=found),
                    pending,
                )
            case DescribeGroups(ids):
                self._scatter(
                    ids,
                    lambda places: DescribeGroups(tuple(ids[at] for at in places)),
                    lambda result: result.groups,
                    lambda found: DescribeGroupsResult(groups=found),
                    pending,
                )
            case DescribeConsumerGroups(ids):
                self._scatter(
                    ids,
                    lambda places: DescribeConsumerGroups(tuple(ids[at] for at in places)),
                    lambda result: result.groups,
                    lambda found: DescribeConsumerGroupsResult(groups=found),
                    pending,
                )
            case DeleteGroups(ids):
                self._scatter(
                    ids,
                    lambda places: DeleteGroups(tuple(ids[at] for at in places)),
                    lambda result: result.errors,
                    lambda found: DeleteGroupsResult(errors=found),
                    pending,
                )
            case CompleteTransaction():
                raise AssertionError("complete_transaction names the partition")
            case _:
                self._submit(self._find(event.group_id), event, pending)

    def _submit(
        self, target: GroupDriver | ErrorCode, event: Event, pending: Completable[Result]
    ) -> None:
        if isinstance(target, ErrorCode):
            pending.complete(not_handled(event, self._settings, target))
        else:
            target.submit(event, pending)

    def _list(self, event: ListGroups, pending: Completable[Result]) -> None:
        """Join the groups of all coordinators. While one is loading, the list is not known."""

        def joined(results: list[Any]) -> Result:
            errors = [result.error for result in results]
            for error in errors:
                if error not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
                    return ListGroupsResult(error=error)
            groups = list(itertools.chain.from_iterable(result.groups for result in results))
            return ListGroupsResult(error=ErrorCode.NONE, groups=groups)

        shards = [shard for shard, _ in self._shards.values()]
        gathered = _Gathered(len(shards), len(shards), joined, pending)
        for at, shard in enumerate(shards):
            shard.submit(event, gathered.part([at], lambda result: [result]))

    def _scatter(
        self,
        group_ids: Sequence[str],
        event_of: Callable[[list[int]], Event],
        results_of: Callable[[Any], Sequence[Any]],
        finish: Callable[[list[Any]], Result],
        pending: Completable[Result],
    ) -> None:
        """Send each coordinator the event of its groups, given by their positions in
        ``group_ids``, and join the results, one for each group.
        """

        def send(places: _Places) -> None:
            gathered = _Gathered(len(places), len(group_ids), finish, pending)
            for target, positions in places.items():
                self._submit(target, event_of(positions), gathered.part(positions, results_of))

        async def send_later() -> None:
            work = self._places(group_ids)
            while True:
                try:
                    next(work)
                except StopIteration as end:
                    send(end.value)
                    return
                await trio.lowlevel.checkpoint()

        if len(group_ids) <= _GROUPS_PER_SLICE or self._nursery is None:
            send(run(self._places(group_ids)))
        else:
            self._nursery.start_soon(send_later)

    def _places(self, group_ids: Sequence[str]) -> Slices[_Places]:
        places: _Places = {}
        for some in pieces(enumerate(group_ids), _GROUPS_PER_SLICE):
            for at, group_id in some:
                places.setdefault(self._find(group_id), []).append(at)
            yield
        return places


class _Gathered:
    """The result of a request that several coordinators work on."""

    def __init__(
        self,
        parts: int,
        size: int,
        finish: Callable[[list[Any]], Result],
        pending: Completable[Result],
    ) -> None:
        """``finish`` makes the result of ``size`` ones, in their order."""
        self._missing = parts
        self._found: list[Any] = [None] * size
        self._finish = finish
        self._pending = pending
        if not parts:
            pending.complete(finish([]))

    def part(
        self, positions: Sequence[int], results_of: Callable[[Any], Sequence[Any]]
    ) -> Completable[Result]:
        """Return what takes the result for these positions."""
        return _Part(self, positions, results_of)

    def take(self, positions: Sequence[int], results: Sequence[Any]) -> None:
        for at, result in zip(positions, results, strict=True):
            self._found[at] = result
        self._missing -= 1
        if not self._missing:
            self._pending.complete(self._finish(self._found))


class _Part:
    """Takes the result of one coordinator."""

    def __init__(
        self,
        gathered: _Gathered,
        positions: Sequence[int],
        results_of: Callable[[Any], Sequence[Any]],
    ) -> None:
        self._gathered = gathered
        self._positions = positions
        self._results_of = results_of

    def complete(self, response: Result, /) -> None:
        """Pass the result on."""
        self._gathered.take(self._positions, self._results_of(response))
