"""Opens the log directories of a broker (``log.dirs``, KIP-113, 858): each has its lock, its id and
its checkpoint files. A directory that the disk refuses is offline; the others serve without it.

The metadata log may be in one of them, or in a directory of its own. It knows no partition. Source:
``LogManager``, ``MetaPropertiesEnsemble``, ``KafkaRaftServer.initializeLogDirs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from gateway.log.files.clean_shutdown import UNKNOWN_EPOCH, take_clean_shutdown
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import DiskFailed, LogError, WrongNode
from gateway.log.files.meta_properties import MetaProperties
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.partition.data_directory import DataDirectory
from kwire.protocol import CLUSTER_METADATA_PARTITION
from kwire.uuid import ZERO_UUID, Uuid

#: The configuration key, for errors.
_KEY: Final = "log.dirs"


class LogDirectory:
    """One directory with logs of partitions.

    ``id`` is its ``directory.id``, ZERO_UUID where it could not be read. ``checkpoints`` are None
    in a directory that was offline from the start. ``has_metadata``: the metadata log is in it, and
    a failure of its disk ends more than its partitions.
    """

    def __init__(
        self, path: Path, id: Uuid, checkpoints: Checkpoints | None, *, has_metadata: bool = False
    ) -> None:
        self.path = path
        self.id = id
        self.checkpoints = checkpoints
        self.has_metadata = has_metadata
        self.is_online = checkpoints is not None
        #: Why it is offline.
        self.fault = ""
        self._data: DataDirectory | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        cluster_id: str,
        node_id: int,
        disk: Disk,
        problems: list[str],
        new_id: Callable[[], Uuid],
    ) -> LogDirectory:
        """Open the directory ``path``, exclusively until :meth:`close`. One that is not formatted
        gets its ``meta.properties``, as in Kafka. One that the disk refuses is offline.
        ``problems`` gets a sentence for each file that is not used. Raises LogLocked, LogDamaged,
        WrongNode.
        """
        try:
            data = DataDirectory(path, disk, problems, _KEY)
        except DiskFailed as error:
            return cls._refused(path, error)
        try:
            _check(path, data.meta_properties, cluster_id, node_id)
            data.remove_leftovers()
            known = data.meta_properties
            id = (known.directory_id if known else None) or new_id()
            if known is None or known.directory_id is None:
                data.write_meta_properties(cluster_id, node_id, id)
        except DiskFailed as error:
            data.close()
            return cls._refused(path, error)
        except LogError:
            data.close()
            raise
        opened = cls(path, id, data.checkpoints)
        opened._data = data
        return opened

    @classmethod
    def _refused(cls, path: Path, error: DiskFailed) -> LogDirectory:
        refused = cls(path, ZERO_UUID, None)
        refused.fault = str(error)
        return refused

    @property
    def saved(self) -> Checkpoints:
        """The checkpoints of a directory that was opened."""
        assert self.checkpoints is not None, "a directory that is online has been opened"
        return self.checkpoints

    def close(self) -> None:
        """Release the lock. Idempotent."""
        if self._data is not None:
            self._data.close()


def _check(path: Path, known: MetaProperties | None, cluster_id: str, node_id: int) -> None:
    # Version 0 of the file may lack either.
    owner = None if known is None else (known.cluster_id, known.node_id)
    if known is not None and owner not in ((cluster_id, node_id), (None, node_id), (None, None)):
        raise WrongNode(
            f"{path} belongs to node {known.node_id} of cluster {known.cluster_id} "
            f"(meta.properties), and this is node {node_id} of {cluster_id}: take it out of {_KEY}"
        )
    metadata = path / CLUSTER_METADATA_PARTITION
    with doing("look at", metadata):
        if metadata.exists():
            raise WrongNode(
                f"{metadata} is a metadata log, and data.dir is another directory: name {path} "
                f"first in {_KEY}, or as data.dir, or remove the log"
            )


def open_log_directories(
    paths: Sequence[Path],
    metadata: LogDirectory,
    cluster_id: str,
    node_id: int,
    disk: Disk,
    problems: list[str],
    new_id: Callable[[], Uuid],
) -> list[LogDirectory]:
    """Return the directories ``paths``, in order. ``metadata``, which is open, stands for the one
    with the metadata log; it is the only one if ``paths`` is empty.

    Raises as :meth:`LogDirectory.open`, and WrongNode for two directories with the same id; then
    none is open.
    """
    opened: list[LogDirectory] = []
    try:
        for path in paths:
            if is_same(path, metadata.path):
                opened.append(metadata)
            else:
                opened.append(LogDirectory.open(path, cluster_id, node_id, disk, problems, new_id))
        _refuse_copies(opened)
    except LogError:
        close_all(opened)
        raise
    return opened or [metadata]


def is_same(path: Path, other: Path) -> bool:
    """Whether two paths name one directory, which may be missing."""
    try:
        return path.samefile(other)
    except OSError:  # such as that there is no such directory yet
        return False


def _refuse_copies(directories: Iterable[LogDirectory]) -> None:
    by_id: dict[Uuid, LogDirectory] = {}
    for one in directories:
        other = by_id.setdefault(one.id, one)
        if other is not one and one.is_online:
            raise WrongNode(
                f"{one.path} and {other.path} have the same directory.id in meta.properties: one "
                f"is a copy of the other, or both are the same; take one out of {_KEY}"
            )


def close_all(directories: Iterable[LogDirectory]) -> None:
    """Release the locks."""
    for one in directories:
        one.close()


def take_clean_shutdowns(directories: Sequence[LogDirectory], disk: Disk) -> int:
    """Return the broker epoch of the last clean shutdown, and remove its notes; -1 unless every
    directory has the same (``LogManager.readBrokerEpochFromCleanShutdownFiles``). Raises
    DiskFailed.
    """
    epochs = {
        take_clean_shutdown(one.path, disk) if one.is_online else UNKNOWN_EPOCH
        for one in directories
    }
    return epochs.pop() if len(epochs) == 1 else UNKNOWN_EPOCH
