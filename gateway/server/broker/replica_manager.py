"""Keeps the partitions of created topics that the image assigns to this node: makes, opens, leads
and deletes their logs (``ReplicaManager``, ``LogManager``).

The image tells which partitions there are; a task follows it, and threads do what waits for the
disk. The regular work is in ``replica_tasks``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from gateway.broker.produce.append_backlog import AppendBacklog
from gateway.log.files.disk import Disk
from gateway.log.files.errors import DiskFailed, LogError
from gateway.log.files.problem import Problem
from gateway.log.partition.partition_directories import directory_name
from gateway.ports.replicas import LogSize
from gateway.ports.services import SourceStopped, State
from gateway.server.broker.broker_config import broker_number
from gateway.server.broker.cleaner_settings import CleanerSettings, cleaner_settings
from gateway.server.broker.delayed_deletions import DelayedDeletions
from gateway.server.broker.directory_turns import DirectoryTurns
from gateway.server.broker.log_manager import Key, LogManager, assigned_directory
from gateway.server.broker.log_mover import LogMover
from gateway.server.broker.topic_settings import TopicSettings, topic_settings
from gateway.sources.append_counts import AppendCounts
from gateway.sources.data_partition import Broker, DataPartition
from gateway.sources.disk_notices import DiskNotices
from gateway.sources.log_partition import Callbacks
from gateway.sources.partition_jobs import Job
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gateway.broker.produce.validation import TopicRules
    from gateway.broker.replica.isr import Proposal
    from gateway.log.partition.log_directories import LogDirectory
    from gateway.log.partition.log_settings import LogSettings
    from gateway.ports.replicas import WritablePartition
    from gateway.ports.services import Partition
    from gateway.server.broker.replica_fetcher_manager import ReplicaFetcherManager
    from gateway.server.broker.replication_throttle import ReplicationThrottle
    from gateway.server.logging.logs import Reports
    from kwire.cluster import Delta, Image
    from kwire.messages.broker_registration_request import BrokerRegistrationRequest
    from kwire.messages.partition_record import PartitionRecord
    from kwire.messages.register_broker_record import RegisterBrokerRecord
    from kwire.uuid import Uuid

#: Threads that open logs, begin segments and write to slow disks, for all partitions.
_THREADS_MAX: Final = 4


class ReplicaManager:
    """``gateway.ports.replicas.Replicas``; :meth:`run` is the task."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        registration: BrokerRegistrationRequest,
        reports: Reports,
        fetchers: ReplicaFetcherManager,
        *,
        fsync: bool,
        lag_s: float,
        queued_max_bytes: int,
        broker_epoch: Callable[[], int],
        propose: Callable[[DataPartition, Proposal], None],
        assign: Callable[[PartitionRecord, LogDirectory], None],
        directory_failed: Callable[[LogDirectory], None],
        throttle: ReplicationThrottle,
    ) -> None:
        """An image that has the incarnation of ``registration``, which is this broker's, has
        everything that was committed before this start. ``lag_s``: ``replica.lag.time.max.ms``.
        ``queued_max_bytes``: of batches that wait for a slow disk. ``broker_epoch`` returns that of
        this broker. ``propose`` has the controller asked for a change of an ISR, ``assign`` told
        where a replica is; ``directory_failed`` hears of a directory that is offline from now on.
        ``throttle``: the quota of leaders.
        """
        self._node_id = node_id = registration.broker_id
        self._broker = Broker(
            node_id, self._registered, broker_epoch, trio.current_time, propose, lag_s
        )
        self._cluster_id, self._reports = registration.cluster_id, reports
        self._incarnation = registration.incarnation_id
        #: Fetches the partitions that other brokers lead.
        self.fetchers = fetchers
        self._disk = Disk(fsync=fsync)
        self.deletions = DelayedDeletions(self._disk, [one.path for one in directories], reports)
        #: Where the logs are.
        self.logs = LogManager(directories, node_id, self._disk, self._report)
        self._assign, self._directory_failed, self._throttle = assign, directory_failed, throttle
        #: Moves logs to other directories.
        self.mover = LogMover(self._disk, reports, self._log_moved, self.disk_failed)
        #: Partitions whose log may be in a directory that is offline from the start.
        self._lost: dict[Key, None] = {}
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
        self._wake, self._brokers_changed = trio.Event(), trio.Event()
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
            self._lost = {key: None for key in self._lost if key[0] != known}
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
            else:
                self._lost.pop((topic_id, index), None)

    def _delete(self, partition: DataPartition) -> None:
        self.offline.pop(partition, None)
        self.fetchers.unfollow(partition)
        self.mover.forget(partition)
        self.logs.forget((partition.topic_id, partition.index))
        if partition.is_offline:
            return  # its directory is found, and set aside, when the disk is there again
        self._turns.leave(partition)
        assert self._image is not None, "it says that the partition is deleted"
        delay_ms = broker_number(self._image, self._node_id, "log.segment.delete.delay.ms")
        partition.delete(partial(self.logs.remove, delay_ms=delay_ms))

    def _apply(self, name: str, topic_id: Uuid, index: int, record: PartitionRecord) -> None:
        key, assigned = (topic_id, index), assigned_directory(record, self._node_id)
        directory = self.logs.place(key, assigned)
        if directory is None:
            self._lost[key] = None
            return
        partition = self._partition_in(directory, name, key)
        if partition.is_offline:
            return
        if assigned != directory.id:
            self._assign(record, directory)
        if record.leader != self._node_id:
            partition.follow(record)
            self.fetchers.follow(partition, record)
        else:
            self.fetchers.unfollow(partition)
            partition.lead(record)

    def _partition_in(self, directory: LogDirectory, name: str, key: Key) -> DataPartition:
        """Return a partition, which is made if there is none yet."""
        topic_id, index = key
        partitions = self._partitions.setdefault(topic_id, {})
        partition = partitions.get(index)
        if partition is None:
            of_topic = self.appended_by_topic.setdefault(name, AppendCounts())
            partition = partitions[index] = DataPartition(
                directory.path / directory_name(name, index),
                topic_id,
                index,
                broker=self._broker,
                cluster_id=self._cluster_id,
                settings=partial(self._log_settings_of, name),
                rules=partial(self._rules_of, name),
                wake=self._work_on,
                checkpoints=directory.checkpoints,
                backlog=self._backlog.part(),
                notices=self._disk_notices,
                counts=(self.appended, of_topic),
                disk=self._disk,
            )
        return partition

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
            is_offline = partition is not None and partition.is_offline
            if is_offline or (record.topic_id, record.partition_id) in self._lost:
                return ErrorCode.KAFKA_STORAGE_ERROR
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

    @property
    def are_throttled(self) -> bool:
        """See ``gateway.ports.replicas.Replicas``."""
        return self._throttle.is_limited

    def holds_back(self, partition: Partition, follower: int) -> bool:
        """See ``gateway.ports.replicas.Replicas``."""
        if not isinstance(partition, DataPartition):
            return False
        leader = partition.leader
        if leader is None or follower in leader.state.isr:
            return False
        is_listed = self._throttle.has(partition.stored.topic, partition.index)
        return is_listed and self._throttle.is_exceeded

    def count_fetch(self, partition: Partition, size: int, *, of_follower: bool) -> None:
        """See ``gateway.ports.replicas.Replicas``."""
        if isinstance(partition, DataPartition):
            if of_follower:
                self._throttle.record(partition.stored.topic, partition.index, size)
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

    def directories(self) -> dict[str, bool]:
        """As in ``Replicas``."""
        return {str(one.path): one.is_online for one in self.logs.directories}

    def move(self, record: PartitionRecord, path: str) -> ErrorCode:
        """As in ``Replicas``."""
        key = record.topic_id, record.partition_id
        directory = next(one for one in self.logs.online if str(one.path) == path)
        partition = self._partitions.get(key[0], {}).get(key[1])
        if partition is None:
            self.logs.prefer(key, directory)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.mover.move(partition, directory)
        return ErrorCode.NONE

    def _log_moved(self, partition: DataPartition, directory: LogDirectory) -> None:
        """The log of a partition is in another directory: the controller is to know."""
        key = partition.topic_id, partition.index
        image = self._image
        record = None if image is None else image.partitions.get(key[0], {}).get(key[1])
        if record is not None and self._partitions.get(key[0], {}).get(key[1]) is partition:
            self.logs.put(key, directory)
            self._assign(record, directory)

    def sizes(self) -> Iterator[LogSize]:
        """As in ``Replicas``."""
        for name, topic_id in list(self._ids.items()):
            for index, partition in list(self._partitions.get(topic_id, {}).items()):
                if partition.is_offline:
                    continue
                yield LogSize(name, index, partition.size_bytes, str(partition.directory.parent))
                if (target := self.mover.targets.get(partition)) is not None:
                    lag = partition.end_offset - partition.log_start_offset
                    yield LogSize(name, index, 0, str(target.path), lag, is_future=True)

    @property
    def offline_count(self) -> int:
        """How many replicas cannot be used."""
        return len(self.offline) + len(self._lost)

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
                self._require_directory()
                if is_first and self._image is not None:
                    await self.logs.tidy_up(self._image)
                    self._report_notices()
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
        failure, partition.stored.disk_failure = partition.stored.disk_failure, None
        directory = self.logs.of((partition.topic_id, partition.index))
        if failure is not None and directory is not None:
            self.disk_failed(directory, failure)
        self._note_loaded()

    def disk_failed(self, directory: LogDirectory, failure: LogError) -> None:
        """The disk of a directory, or of the one with the file that ``failure`` names, has failed:
        its partitions are offline until the next start (``ReplicaManager.handleLogDirFailure``).

        In the directory of the metadata log each log is opened again, for as long as that of the
        metadata can be written.
        """
        if not isinstance(failure, DiskFailed) or not failure.is_lasting:
            return
        directory = self.logs.with_file(failure.file) or directory
        if directory.has_metadata or not directory.is_online:
            return
        problem = Problem(str(directory.path), -1, f"the log directory is offline: {failure}")
        self._reports.report("log directory offline", error=str(problem))
        for topic_id, index in self.logs.take_offline(directory):
            partition = self._partitions.get(topic_id, {}).get(index)
            if partition is not None:
                self.fetchers.unfollow(partition)
                self.mover.forget(partition)
                partition.go_offline(problem)
                self.offline[partition] = None
        self._directory_failed(directory)
        self._moved()
        self._wake.set()

    def _require_directory(self) -> None:
        """Raise SourceStopped if no directory is online any more."""
        if not self.logs.online:
            raise SourceStopped(
                "each of log.dirs is offline: repair a disk, or name another directory, and start "
                "the broker again"
            )

    def _note_problems(self, partition: DataPartition) -> None:
        for problem in partition.problems:
            self._reports.report("partition not opened", error=str(problem))
        of_topic = self._partitions.get(partition.topic_id, {})
        if partition.problems and of_topic.get(partition.index) is partition:
            self.offline[partition] = None
        elif not partition.is_offline:
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

    def close(self) -> bool:
        """Write everything to disk and close the logs; whether all of it could be."""
        is_clean = True
        for partition in self.partitions:
            try:
                if not partition.is_offline:
                    partition.close()
            except LogError as error:
                is_clean = False
                self._reports.report("log not closed", error=str(error))
        for directory in self.logs.online:
            try:
                directory.saved.recovery_points.save()
            except LogError as error:
                is_clean = False
                self._reports.report("log not closed", error=str(error))
        return is_clean
