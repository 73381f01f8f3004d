"""Keeps the partitions of created topics that the image assigns to this node: makes, opens, leads
and deletes their logs (``ReplicaManager``, ``LogManager``).

The image tells which partitions there are; a task follows it, and threads do what waits for the
disk. The regular work is in ``replica_tasks``.
"""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from gateway.broker.produce.append_backlog import AppendBacklog
from gateway.log.files.disk import Disk
from gateway.log.files.errors import LogError
from gateway.log.partition.partition_directories import (
    directory_name,
    partition_directories,
    remove_deleted,
    remove_directory,
    set_aside,
)
from gateway.ports.replicas import LogSize
from gateway.ports.services import State
from gateway.server.broker.cleaner_settings import CleanerSettings, cleaner_settings
from gateway.server.broker.directory_turns import DirectoryTurns
from gateway.server.broker.topic_settings import TopicSettings, topic_settings
from gateway.sources.append_counts import AppendCounts
from gateway.sources.data_partition import Broker, DataPartition
from gateway.sources.disk_notices import DiskNotices
from gateway.sources.log_partition import Callbacks
from gateway.sources.partition_jobs import Job
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.broker.produce.validation import TopicRules
    from gateway.broker.replica.isr import Proposal
    from gateway.log.files.offset_checkpoint import Checkpoints
    from gateway.log.files.problem import Problem
    from gateway.log.partition.log_settings import LogSettings
    from gateway.ports.replicas import WritablePartition
    from gateway.ports.services import Partition
    from gateway.server.broker.replica_fetcher_manager import ReplicaFetcherManager
    from gateway.server.logging.logs import Reports
    from kwire.cluster import Delta, Image
    from kwire.messages.broker_registration_request import BrokerRegistrationRequest
    from kwire.messages.partition_record import PartitionRecord
    from kwire.messages.register_broker_record import RegisterBrokerRecord
    from kwire.uuid import Uuid

#: Directories that are looked at between other tasks.
_SLICE: Final = 100
#: Threads that open logs, begin segments and write to slow disks, for all partitions.
_THREADS_MAX: Final = 4


class ReplicaManager:
    """``gateway.ports.replicas.Replicas``; :meth:`run` is the task."""

    def __init__(
        self,
        data_dir: Path,
        registration: BrokerRegistrationRequest,
        checkpoints: Checkpoints,
        reports: Reports,
        fetchers: ReplicaFetcherManager,
        *,
        fsync: bool,
        lag_s: float,
        queued_max_bytes: int,
        broker_epoch: Callable[[], int],
        propose: Callable[[DataPartition, Proposal], None],
    ) -> None:
        """An image that has the incarnation of ``registration``, which is this broker's, has
        everything that was committed before this start. ``checkpoints``: of ``data_dir``.
        ``lag_s``: ``replica.lag.time.max.ms``. ``queued_max_bytes``: of batches that wait for a
        slow disk. ``broker_epoch`` returns that of this broker. ``propose`` has the controller
        asked for a change of an ISR.
        """
        self._node_id = node_id = registration.broker_id
        self._broker = Broker(
            node_id, self._registered, broker_epoch, trio.current_time, propose, lag_s
        )
        self._data_dir = data_dir
        self._cluster_id = registration.cluster_id
        self._incarnation = registration.incarnation_id
        self._reports = reports
        #: Fetches the partitions that other brokers lead.
        self.fetchers = fetchers
        self._disk = Disk(fsync=fsync)
        self.checkpoints = checkpoints
        self._backlog = AppendBacklog(queued_max_bytes)
        self._disk_notices = DiskNotices(self._report_disk, trio.current_time)
        self._partitions: dict[Uuid, dict[int, DataPartition]] = {}
        #: Those whose log cannot be used.
        self.offline: dict[DataPartition, None] = {}
        self._ids: dict[str, Uuid] = {}  # of the topics in ``_partitions``
        #: Counts of all topics, the deleted ones among them, and of each (``BrokerTopicStats``).
        self.appended = AppendCounts()
        self.appended_by_topic: dict[str, AppendCounts] = {}
        self._settings: dict[str, TopicSettings] = {}  # of the current image
        self._image: Image | None = None
        self._changed: dict[str, None] = {}  # names of topics, in order
        self._due: dict[DataPartition, None] = {}
        self._turns = DirectoryTurns()
        self._opening = 0
        self._notices: list[Callable[[], None]] = []  # reports of threads, for the event loop
        self._wake = trio.Event()
        self._brokers_changed = trio.Event()
        self._moved = Callbacks()
        #: Set when every partition of the first image that counts is open.
        self.loaded = trio.Event()

    # --- the image
    # ---------------------------------------------------------------------------------------------

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Hear of changes to the image (``gateway.sources.metadata_loader.Publisher``)."""
        if self._image is None:
            # Before that, a topic that exists may not be in the image yet.
            own = image.brokers.get(self._node_id)
            if own is None or own.incarnation_id != self._incarnation:
                return
            delta = None
        self._image = image
        self.fetchers.on_image(image)
        if delta is None:
            self._changed.update(dict.fromkeys((*self._ids, *image.topic_ids)))
        else:
            self._changed.update(dict.fromkeys(delta.changed_topics()))
        if delta is None or delta.changes("configs"):
            self._settings = {}
        if delta is None or delta.changes("brokers"):
            # A follower may have become one that can join.
            self._brokers_changed.set()
        self._wake.set()

    def _follow(self, name: str, image: Image) -> None:
        """Make the partitions of one topic what the image says."""
        topic_id, known = image.topic_ids.get(name), self._ids.get(name)
        if known is not None and known != topic_id:
            del self._ids[name]
            self.appended_by_topic.pop(name, None)
            for partition in self._partitions.pop(known).values():
                self._delete(partition)
        if topic_id is None:
            return
        for index, record in image.partitions.get(topic_id, {}).items():
            if self._node_id in record.replicas:
                self._ids[name] = topic_id
                self._apply(name, topic_id, index, record)
            elif (left := self._partitions.get(topic_id, {}).pop(index, None)) is not None:
                # Reassigned to other brokers.
                self._delete(left)

    def _delete(self, partition: DataPartition) -> None:
        self.offline.pop(partition, None)
        self.fetchers.unfollow(partition)
        self._turns.leave(partition)
        partition.delete(self._remove)

    def _apply(self, name: str, topic_id: Uuid, index: int, record: PartitionRecord) -> None:
        partitions = self._partitions.setdefault(topic_id, {})
        partition = partitions.get(index)
        if partition is None:
            of_topic = self.appended_by_topic.setdefault(name, AppendCounts())
            partition = partitions[index] = DataPartition(
                self._data_dir / directory_name(name, index),
                topic_id,
                index,
                broker=self._broker,
                cluster_id=self._cluster_id,
                settings=partial(self._log_settings_of, name),
                rules=partial(self._rules_of, name),
                wake=self._work_on,
                checkpoints=self.checkpoints,
                backlog=self._backlog.part(),
                notices=self._disk_notices,
                counts=(self.appended, of_topic),
                disk=self._disk,
            )
        if record.leader != self._node_id:
            partition.follow(record)
            self.fetchers.follow(partition, record)
        else:
            self.fetchers.unfollow(partition)
            partition.lead(record)

    def _registered(self, broker_id: int) -> RegisterBrokerRecord | None:
        return None if self._image is None else self._image.brokers.get(broker_id)

    def _settings_of(self, name: str) -> TopicSettings:
        found = self._settings.get(name)
        if found is None:
            assert self._image is not None, "partitions come from an image"
            found = self._settings[name] = topic_settings(
                self._image, name, self._node_id, fsync=self._disk.fsync
            )
        return found

    def _log_settings_of(self, name: str) -> LogSettings:
        return self._settings_of(name).log

    def _rules_of(self, name: str) -> TopicRules:
        return self._settings_of(name).rules

    # --- what handlers ask
    # ---------------------------------------------------------------------------------------------

    @property
    def knows_topics(self) -> bool:
        """As in ``Replicas``."""
        return self._image is not None

    def find(self, record: PartitionRecord) -> DataPartition | ErrorCode:
        """Return the partition of a record of the image, which this node leads or follows."""
        partition = self._partitions.get(record.topic_id, {}).get(record.partition_id)
        if partition is None or partition.leader_epoch != record.leader_epoch:
            # The task has not followed the image yet: clients ask again.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.problems:
            return ErrorCode.KAFKA_STORAGE_ERROR
        # Until its log is open: from another error some clients conclude that offsets are gone.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if partition.state is State.LOADING else partition

    def count_produce(self, partition: WritablePartition) -> None:
        """See ``gateway.ports.replicas.Replicas``."""
        if isinstance(partition, DataPartition):
            for counts in partition.counts:
                counts.produces += 1

    def count_refused(self, partition: WritablePartition, error: ErrorCode) -> None:
        """See ``gateway.ports.replicas.Replicas``."""
        if isinstance(partition, DataPartition):
            for counts in partition.counts:
                counts.refused(error)

    def count_fetch(self, partition: Partition, size: int, *, of_follower: bool) -> None:
        """See ``gateway.ports.replicas.Replicas``."""
        if isinstance(partition, DataPartition):
            for counts in partition.counts:
                counts.fetched(size, of_follower=of_follower)

    def find_writable(self, topic_id: Uuid, index: int) -> DataPartition | ErrorCode:
        """As in ``Replicas``."""
        image = self._image
        record = None if image is None else image.partitions.get(topic_id, {}).get(index)
        if record is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if record.leader != self._node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.find(record)

    def find_led(self, record: PartitionRecord) -> DataPartition | None:
        """Return the partition of a record of the image if this node leads it, and its log can be
        written.
        """
        found = self.find_writable(record.topic_id, record.partition_id)
        return None if isinstance(found, ErrorCode) else found

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when a partition is led, is not any more, or its log was opened."""
        self._moved.add(callback)

    def sizes(self) -> Iterator[LogSize]:
        """As in ``Replicas``."""
        for name, topic_id in list(self._ids.items()):
            for index, partition in list(self._partitions.get(topic_id, {}).items()):
                yield LogSize(name, index, partition.size_bytes)

    @property
    def partitions(self) -> list[DataPartition]:
        """All partitions on this node."""
        return [one for some in self._partitions.values() for one in some.values()]

    def problems(self) -> tuple[Problem, ...]:
        """Why logs cannot be opened."""
        return tuple(problem for one in self.offline for problem in one.problems)

    @property
    def cleaner_settings(self) -> CleanerSettings | None:
        """The configuration of the log cleaner, None while there is no image."""
        return None if self._image is None else cleaner_settings(self._image, self._node_id)

    # --- the task
    # ---------------------------------------------------------------------------------------------

    def _work_on(self, partition: DataPartition) -> None:
        """Have a thread perform the jobs of a partition."""
        self._due[partition] = None
        self._wake.set()

    async def run(self) -> None:
        """Follow the image and perform jobs, for ever."""
        threads = trio.CapacityLimiter(_THREADS_MAX)
        is_first = True
        async with trio.open_nursery() as nursery:
            while True:
                await self._wake.wait()
                self._wake = trio.Event()
                if is_first and self._image is not None:
                    await self._tidy_up(self._image)
                    is_first = False
                while self._changed and self._image is not None:
                    name = next(iter(self._changed))
                    del self._changed[name]
                    self._follow(name, self._image)
                    self._moved()
                    await trio.lowlevel.checkpoint()
                due, self._due = self._due, {}
                for partition in due:
                    # Taken here, before the task runs: jobs that come meanwhile wake this one
                    # again, and must not begin beside those before them.
                    if not self._turns.must_wait(partition) and (jobs := partition.take_jobs()):
                        self._opening += 1
                        nursery.start_soon(self._perform, partition, jobs, threads)
                self._note_loaded()

    async def brokers_changed(self) -> None:
        """Return when the image has other registrations of brokers."""
        await self._brokers_changed.wait()
        self._brokers_changed = trio.Event()

    async def _perform(
        self, partition: DataPartition, jobs: list[Job], threads: trio.CapacityLimiter
    ) -> None:
        reported, state = partition.problems, partition.state
        repaired = len(partition.stored.repairs)
        done = await trio.to_thread.run_sync(partition.perform, jobs, limiter=threads)
        partition.performed(done)
        self.fetchers.retry(partition)
        for one in self._turns.done(partition):
            self._work_on(one)
        self._opening -= 1
        if partition.state is not state:
            self._moved()
        for repair in partition.stored.repairs[repaired:]:
            self._reports.report("partition repaired", error=repair)
        deleted, partition.stored.deleted = partition.stored.deleted, []
        if deleted:
            self._reports.report(
                "partition cleaned", partition=partition.directory.name, deleted=deleted
            )
        if partition.problems != reported:
            self._note_problems(partition)
        self._report_notices()
        self._note_loaded()

    def _note_problems(self, partition: DataPartition) -> None:
        for problem in partition.problems:
            self._reports.report("partition not opened", error=str(problem))
        of_topic = self._partitions.get(partition.topic_id, {})
        if partition.problems and of_topic.get(partition.index) is partition:
            self.offline[partition] = None
        else:
            self.offline.pop(partition, None)

    def _report_disk(self, event: str, text: str) -> None:
        self._reports.report(event, **({"error": text} if text else {}))

    def _report(self, event: str, text: str) -> None:
        """Have the event loop report what a thread has to say."""
        self._notices.append(partial(self._reports.report, event, error=text))

    def _report_notices(self) -> None:
        notices, self._notices = self._notices, []
        for report in notices:
            report()

    def _note_loaded(self) -> None:
        is_idle = not (self._changed or self._due or self._opening or self._turns.is_any_waiting)
        if self._image is not None and is_idle:
            self.loaded.set()

    async def _tidy_up(self, image: Image) -> None:
        """Set aside the directories of partitions that the image does not place here, before logs
        are made under their names: they may be of another cluster, so nothing is deleted
        (``-stray``).
        """
        strays = []
        for number, (key, path) in enumerate(
            (await trio.to_thread.run_sync(self._directories)).items()
        ):
            if not self._is_placed_here(image, *key, path):
                strays.append(path)
            if number % _SLICE == 0:
                await trio.lowlevel.checkpoint()
        await trio.to_thread.run_sync(self._set_aside, strays)
        self._report_notices()

    def _is_placed_here(self, image: Image, topic_id: Uuid, index: int, path: Path) -> bool:
        name = image.topics.get(topic_id)
        record = image.partitions.get(topic_id, {}).get(index)
        if name is None or record is None or path.name != directory_name(name, index):
            return False
        return self._node_id in record.replicas

    def _directories(self) -> dict[tuple[Uuid, int], Path]:
        """Return the directories of partitions, in a thread."""
        try:
            remove_deleted(self._data_dir)
            return partition_directories(self._data_dir)
        except LogError as error:
            self._report("partition not opened", str(error))
            return {}

    def _set_aside(self, strays: list[Path]) -> None:
        """Rename directories, in a thread."""
        try:
            for path in strays:
                stray = set_aside(path, self._disk, secrets.token_hex(16), "stray")
                self._report("partition set aside", f"{path} is now {stray.name}")
        except LogError as error:
            self._report("partition not opened", str(error))

    def _remove(self, directory: Path) -> None:
        """Remove the directory of a deleted partition, in a thread."""
        try:
            if directory.exists():
                remove_directory(set_aside(directory, self._disk, secrets.token_hex(16), "delete"))
        except LogError as error:
            self._report("partition not deleted", str(error))

    def close(self) -> bool:
        """Write everything to disk and close the logs; whether all of it could be."""
        is_clean = True
        for partition in self.partitions:
            try:
                partition.close()
            except LogError as error:
                is_clean = False
                self._reports.report("log not closed", error=str(error))
        try:
            self.checkpoints.recovery_points.save()
        except LogError as error:
            is_clean = False
            self._reports.report("log not closed", error=str(error))
        return is_clean
