"""Follows a topic in which coordinators keep state: creates it when the first client asks, and
tells which of its partitions this node leads (``AutoTopicCreationManager``,
``BrokerMetadataPublisher``, ``CoordinatorRuntime.scheduleLoadOperation``).

It reads and writes no records: :class:`CoordinatorPartition` does, for the coordinators.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import trio

from gateway.broker.internal_topic import creation_request, partition_for
from gateway.server.broker.coordinator_partition import CoordinatorPartition
from kwire.protocol import ErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker.internal_topic import InternalTopicSettings
    from gateway.server.broker.replica_manager import ReplicaManager
    from gateway.server.logging.logs import Reports
    from gateway.server.quorum.own_requests import OwnRequests
    from kwire.cluster import Delta, Image
    from kwire.messages.partition_record import PartitionRecord

_CREATE_TOPICS_VERSION: Final = 7
#: Between a creation that failed and the next one, s.
_RETRY_S: Final = 1.0


class InternalTopic:
    """The topic of ``settings``; :meth:`run` is the task."""

    def __init__(
        self,
        settings: InternalTopicSettings,
        node_id: int,
        replicas: ReplicaManager,
        requests: OwnRequests,
        reports: Reports,
    ) -> None:
        self.settings = settings
        self._node_id = node_id
        self._replicas = replicas
        self._requests = requests
        self._reports = reports
        self._image: Image | None = None
        self._led: dict[int, CoordinatorPartition] = {}
        self._hash = functools.lru_cache(maxsize=10_000)(partition_for)
        self._elected: Callable[[CoordinatorPartition], None] | None = None
        self._resigned: Callable[[CoordinatorPartition], None] | None = None
        self._changed = trio.Event()
        self._followed = trio.Event()
        self._wanted = trio.Event()
        replicas.subscribe(self._wake)

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Hear of changes to the image (``gateway.sources.metadata_loader.Publisher``)."""
        self._image = image
        if delta is None or self.settings.name in delta.changed_topics():
            self._wake()

    def follow(
        self,
        elected: Callable[[CoordinatorPartition], None],
        resigned: Callable[[CoordinatorPartition], None],
    ) -> None:
        """Call ``elected`` for each partition that this node leads, now and later, once its log is
        open; ``resigned`` when it leads it no longer. A new epoch is both.
        """
        assert self._elected is None, "a topic has one coordinator"
        self._elected, self._resigned = elected, resigned
        for partition in self._led.values():
            elected(partition)

    # --- what coordinators ask
    # ---------------------------------------------------------------------------------------------

    @property
    def partitions(self) -> dict[int, PartitionRecord]:
        """The partitions in the image, by number; none before the topic is created."""
        image = self._image
        topic_id = None if image is None else image.topic_ids.get(self.settings.name)
        if image is None or topic_id is None:
            return {}
        return image.partitions.get(topic_id, {})

    @property
    def led(self) -> dict[int, CoordinatorPartition]:
        """The partitions that this node leads, whose logs are open, by number."""
        return self._led

    def partition_for(self, key: str) -> int | None:
        """Return the partition of a key; None before the topic is created."""
        count = len(self.partitions)
        return self._hash(key, count) if count else None

    def coordinator_of(self, key: str) -> int | ErrorCode:
        """Return the node that coordinates ``key``. Before the topic is created, which begins then,
        and while a partition has no leader, COORDINATOR_NOT_AVAILABLE.
        """
        partitions = self.partitions
        if not partitions:
            self.create()
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        leader = partitions[self._hash(key, len(partitions))].leader
        return leader if leader >= 0 else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def fault_of(self, key: str) -> ErrorCode:
        """Return the error of a request for a key whose records are not loaded here."""
        loads = self.coordinator_of(key) == self._node_id
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loads else ErrorCode.NOT_COORDINATOR

    def create(self) -> None:
        """Have the controller create the topic, unless it exists."""
        if not self.partitions:
            self._wanted.set()

    async def all_led(self) -> None:
        """Return when the topic exists, which it is created for, and this node leads all of it."""
        while not self.partitions or self.partitions.keys() != self._led.keys():
            self.create()
            # After a failure the topic has to be asked for again.
            with trio.move_on_after(_RETRY_S):
                await self._followed.wait()

    # --- the task
    # ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the image, and create the topic when it is wanted, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_creating)
            while True:
                await self._changed.wait()
                self._changed = trio.Event()
                self._follow_leaders()
                followed, self._followed = self._followed, trio.Event()
                followed.set()

    def _wake(self) -> None:
        self._changed.set()

    def _follow_leaders(self) -> None:
        partitions = self.partitions
        for index in sorted(self._led.keys() | partitions.keys()):
            record = partitions.get(index)
            found = None if record is None else self._replicas.find_led(record)
            known = self._led.get(index)
            if known is not None and (found is not known.partition or not known.is_led):
                del self._led[index]
                if self._resigned is not None:
                    self._resigned(known)
                known = None
            if found is not None and known is None:
                self._led[index] = led = CoordinatorPartition(found)
                if self._elected is not None:
                    self._elected(led)

    async def _keep_creating(self) -> None:
        request, name = creation_request(self.settings), self.settings.name
        while True:
            await self._wanted.wait()
            response = await self._requests.send(request, _CREATE_TOPICS_VERSION)
            result = None if response is None else response.topics[0]
            if result is not None and result.error_code not in (
                ErrorCode.NONE,
                ErrorCode.TOPIC_ALREADY_EXISTS,
            ):
                error = f"{name}: {error_name(result.error_code)}: {result.error_message}"
                self._reports.report("internal topic not created", error=error)
            # Clients that ask meanwhile want the same topic; after a failure they ask again.
            if result is None or result.error_code:
                await trio.sleep(_RETRY_S)
            self._wanted = trio.Event()
