"""Takes the records of groups from the log that an earlier release of this node kept for itself
into the partitions of ``__consumer_offsets``, once.

The log is removed when all of its records are on disk in the partitions. A crash before that
repeats the work, which changes nothing twice: a key that a partition has is left as it is. No
coordinator works meanwhile, so no newer record can be undone.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from gateway.base.slices import pieces
from gateway.broker.internal_topic import partition_for
from gateway.groups.records import group_id_of
from gateway.log.files.directory_lock import DirectoryLock
from gateway.log.files.disk import Disk, doing
from gateway.log.files.partition_metadata import FILE_NAME as PARTITION_METADATA
from gateway.log.offsets.offset_store import DIRECTORY, OffsetStore
from gateway.log.partition.partition_directories import (
    remove_deleted,
    remove_directory,
    set_aside,
)
from gateway.server.broker.partition_group_store import append, owner_headers
from gateway.server.groups.group_store import StoreUnavailable

if TYPE_CHECKING:
    from gateway.server.broker.coordinator_partition import CoordinatorPartition, CoordinatorRecord
    from gateway.server.broker.internal_topic import InternalTopic
    from gateway.server.logging.logs import Reports

#: The name of the log's directory while it is taken over; it must be that of no partition.
EARLIER: Final = "earlier-offsets"
#: Records that are encoded between two slices: about a millisecond.
_RECORDS_PER_SLICE: Final = 100


class EarlierOffsets:
    """The log of an earlier release below ``state_dir``, if there is one."""

    def __init__(self, state_dir: Path, reports: Reports, *, disk: Disk | None = None) -> None:
        """Move the log out of the way of the partitions. Raises DiskFailed, LogLocked."""
        self._reports = reports
        self._disk = disk or Disk()
        self._directory = state_dir / EARLIER
        if state_dir.exists():
            remove_deleted(state_dir)
            self._set_aside(state_dir / DIRECTORY)
        #: Whether there is something to take over.
        self.exists = self._directory.exists()

    def _set_aside(self, old: Path) -> None:
        with doing("look at", old):
            is_log = old.is_dir() and not (old / PARTITION_METADATA).exists()
        if is_log and not self._directory.exists():
            lock = DirectoryLock(old, "state.dir")
            try:
                self._disk.rename(old, self._directory)
                self._disk.sync_directory(old.parent)
            finally:
                lock.release()

    async def take_over(self, topic: InternalTopic, wall_ms: int) -> None:
        """Append the records to the partitions of ``topic``, which is created if need be; then
        remove the log. Raises LogError, PartitionUnavailable, DecodeError; it may then be called
        again.
        """
        records, problems = await trio.to_thread.run_sync(self._read)
        for problem in problems:
            self._reports.report("offset store damaged", error=problem)
        if records:
            await topic.all_led()
            by_partition: dict[int, list[CoordinatorRecord]] = {}
            for some in pieces(records, _RECORDS_PER_SLICE):
                for record in some:
                    index = partition_for(group_id_of(record[0]), len(topic.partitions))
                    by_partition.setdefault(index, []).append(record)
                await trio.lowlevel.checkpoint()
            for index, belonging in by_partition.items():
                await self._append(topic.led.get(index), belonging, wall_ms)
        await trio.to_thread.run_sync(self._remove)
        self.exists = False
        self._reports.report("earlier offsets taken over", records=len(records))

    async def _append(
        self,
        partition: CoordinatorPartition | None,
        records: list[CoordinatorRecord],
        wall_ms: int,
    ) -> None:
        if partition is None:
            raise StoreUnavailable("a partition of the topic has lost its leader")
        known = (await partition.load()).records
        missing = [record for record in records if record[0] not in known]
        for some in pieces(missing, _RECORDS_PER_SLICE):
            await append(partition, some, wall_ms)
            await trio.lowlevel.checkpoint()
        flushed: list[object] = []
        done = trio.Event()

        def take(is_flushed: object) -> None:
            flushed.append(is_flushed)
            done.set()

        partition.partition.flush(take)
        await done.wait()
        if not flushed[0]:
            raise StoreUnavailable(f"{partition}: the records could not be written to disk")

    def _read(self) -> tuple[list[CoordinatorRecord], list[str]]:
        store = OffsetStore(self._directory)
        try:
            owners = store.owners()
            return [
                (key, value, owner_headers(owners.get(key, ""))) for key, value in store.records()
            ], store.problems
        finally:
            store.close()

    def _remove(self) -> None:
        remove_directory(set_aside(self._directory, self._disk, secrets.token_hex(16), "delete"))
