"""Knows in which log directory of this broker the log of each partition is, and chooses it for a
new one (``LogManager``, KIP-113, 858).

It sets aside what is left of other partitions, and removes the directories of deleted ones. It
opens no log.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from gateway.controller.nodes import UNASSIGNED
from gateway.log.files.disk import Disk
from gateway.log.files.errors import LogError
from gateway.log.partition.partition_directories import (
    directory_name,
    partition_directories,
    remove_deleted,
    remove_directory,
    set_aside,
)

if TYPE_CHECKING:
    from gateway.log.partition.log_directories import LogDirectory
    from kwire.cluster import Image
    from kwire.messages.partition_record import PartitionRecord
    from kwire.uuid import Uuid

#: Partitions that may have a directory before they come to this broker.
_PREFERRED_MAX: Final = 10_000
#: Directories that are looked at between other tasks.
_SLICE: Final = 100
#: A partition of a topic.
Key = tuple["Uuid", int]


class LogManager:
    """The logs in ``directories``, of which one at least is online. ``report(event, text)`` may be
    called by any thread.
    """

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        node_id: int,
        disk: Disk,
        report: Callable[[str, str], None],
    ) -> None:
        self.directories = directories
        self._node_id = node_id
        self._disk = disk
        self._report = report
        self._places: dict[Key, LogDirectory] = {}
        self._preferred: dict[Key, LogDirectory] = {}
        self._counts = Counter(dict.fromkeys(directories, 0))

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that can be used."""
        return [one for one in self.directories if one.is_online]

    @property
    def offline_count(self) -> int:
        """How many directories cannot be used."""
        return len(self.directories) - len(self.online)

    def place(self, key: Key, assigned: Uuid | None) -> LogDirectory | None:
        """Return the directory of a partition: where its log is, else where the image ``assigned``
        it to, else the one that is preferred for it, or that has the fewest logs. None if its log
        may be in a directory that is offline (``Partition.createLogInAssignedDirectoryId``).
        """
        preferred = self._preferred.pop(key, None)
        if (known := self._places.get(key)) is not None:
            return known
        found = self._assigned(assigned)
        if found is None and preferred is not None and preferred.is_online:
            found = preferred
        if found is None:
            if assigned != UNASSIGNED and self.offline_count:
                return None
            found = min(self.online, key=self._counts.__getitem__, default=None)
        if found is not None:
            self.put(key, found)
        return found

    def _assigned(self, id: Uuid | None) -> LogDirectory | None:
        return next((one for one in self.online if one.id == id), None)

    def put(self, key: Key, directory: LogDirectory) -> None:
        """The log of a partition is in ``directory``."""
        self.forget(key)
        self._places[key] = directory
        self._counts[directory] += 1

    def prefer(self, key: Key, directory: LogDirectory) -> None:
        """Place a partition that comes to this broker later in ``directory``."""
        self._preferred.pop(key, None)
        while len(self._preferred) >= _PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]
        self._preferred[key] = directory

    def of(self, key: Key) -> LogDirectory | None:
        """Return the directory of a partition that was placed."""
        return self._places.get(key)

    def with_file(self, name: str) -> LogDirectory | None:
        """Return the directory that a file is in."""
        path = Path(name)
        found = [one for one in self.directories if path.is_relative_to(one.path)]
        # One directory may be in another.
        return max(found, key=lambda one: len(one.path.parts), default=None)

    def forget(self, key: Key) -> None:
        """The partition is not on this broker any more."""
        directory = self._places.pop(key, None)
        if directory is not None:
            self._counts[directory] -= 1

    def take_offline(self, directory: LogDirectory) -> list[Key]:
        """The disk of a directory has failed. Return the partitions whose logs are in it."""
        directory.is_online = False
        return [key for key, one in self._places.items() if one is directory]

    async def tidy_up(self, image: Image) -> None:
        """Find the logs of partitions, and set aside the directories of those that the image does
        not place here, before logs are made under their names: they may be of another cluster, so
        nothing is deleted (``-stray``).
        """
        strays = []
        for directory in self.online:
            listed = await trio.to_thread.run_sync(self._partitions_in, directory)
            for number, (key, path) in enumerate(listed.items()):
                if not self._is_placed_here(image, key, path):
                    strays.append(path)
                elif (other := self._places.get(key)) is None:
                    self.put(key, directory)
                else:
                    strays.append(self._second(image, key, path.name, other, directory))
                if number % _SLICE == 0:
                    await trio.lowlevel.checkpoint()
        await trio.to_thread.run_sync(self._set_aside, strays)

    def _is_placed_here(self, image: Image, key: Key, path: Path) -> bool:
        name = image.topics.get(key[0])
        record = image.partitions.get(key[0], {}).get(key[1])
        if name is None or record is None or path.name != directory_name(name, key[1]):
            return False
        return self._node_id in record.replicas

    def _second(
        self, image: Image, key: Key, name: str, first: LogDirectory, second: LogDirectory
    ) -> Path:
        """Two directories have a log of a partition, such as after an administrator copied one:
        keep the one that the image names, and return the path of the other.
        """
        if assigned_directory(image.partitions[key[0]][key[1]], self._node_id) == second.id:
            self.put(key, second)
            return first.path / name
        return second.path / name

    def _partitions_in(self, directory: LogDirectory) -> dict[Key, Path]:
        """Return the directories of partitions, in a thread."""
        try:
            remove_deleted(directory.path)
            return partition_directories(directory.path)
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

    def remove(self, directory: Path, *, delay_ms: int) -> None:
        """Remove the directory of a deleted partition, in a thread: it is renamed now, and deleted
        ``delay_ms`` later (``LogManager.asyncDelete``).
        """
        try:
            if directory.exists():
                left = set_aside(directory, self._disk, secrets.token_hex(16), "delete")
                if delay_ms > 0 and self._disk.delete_later is not None:
                    self._disk.delete_later(left, delay_ms)
                else:
                    remove_directory(left)
        except LogError as error:
            self._report("partition not deleted", str(error))


def assigned_directory(record: PartitionRecord, node_id: int) -> Uuid | None:
    """Return the directory that the image assigns a replica to; None if it has none for it."""
    if len(record.directories) != len(record.replicas):  # of a level without KIP-858
        return None
    return record.directories[record.replicas.index(node_id)]
