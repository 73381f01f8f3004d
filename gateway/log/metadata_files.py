"""Holds the small files of a data directory in memory: identity, vote, high watermark, topic id.

``meta.properties`` and ``high-watermark`` are in the data directory, ``quorum-state`` and
``partition.metadata`` in the partition's. Kafka's files are replaced as a whole, as
``CheckpointFile`` does. It knows nothing of segments.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from gateway.log import meta_properties, partition_metadata, quorum_state
from gateway.log.disk import TEMPORARY, Disk, doing
from gateway.log.errors import LogDamaged
from gateway.log.high_watermark_file import HighWatermarkFile
from gateway.log.meta_properties import MetaProperties
from kwire.errors import DecodeError
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

_T = TypeVar("_T")
_META_VERSION: Final = 1


class MetadataFiles:
    """The files' content, None or 0 for a missing file. A file that cannot be read raises
    LogDamaged: no default replaces a vote.
    """

    def __init__(self, data_dir: Path, directory: Path, disk: Disk, problems: list[str]) -> None:
        """Read every file; write ``partition.metadata`` if it is missing. Raises LogDamaged,
        DiskFailed.
        """
        self._disk = disk
        self._meta = data_dir / meta_properties.FILE_NAME
        self._quorum = directory / quorum_state.FILE_NAME
        # First: a directory of another node is refused by it, whatever the other files hold.
        self.meta_properties: MetaProperties | None = read_meta(data_dir)
        self.quorum_state: tuple[int, QuorumStateData] | None = _read(
            self._quorum,
            quorum_state.read_quorum_state,
            # A voter gets other advice (``with_voter_advice``).
            "restore it, or remove it: an observer learns the epoch anew",
        )
        self._high_watermark = HighWatermarkFile(data_dir, disk, problems)
        # After the others, because it may write, and a directory that is refused stays unchanged.
        self._check_topic_id(directory / partition_metadata.FILE_NAME)
        # Here, because recovery looks into the partition's directory alone.
        disk.remove(self._meta.with_name(self._meta.name + TEMPORARY))

    @property
    def high_watermark(self) -> int:
        """The last one written, 0 if none was."""
        return self._high_watermark.offset

    def write_high_watermark(self, offset: int) -> None:
        """Store the high watermark durably. Raises DiskFailed."""
        # Clients may have read up to the old one.
        assert offset >= self.high_watermark, "a high watermark on disk never decreases"
        self._high_watermark.write(offset)

    def write_quorum_state(self, state: QuorumStateData, version: int) -> None:
        """Store leader, epoch and vote durably. Raises EncodeError, DiskFailed."""
        self._disk.replace(self._quorum, quorum_state.format_quorum_state(state, version))
        # Memory changes after the disk: a vote that was not stored was not cast.
        self.quorum_state = version, state

    def write_meta_properties(self, cluster_id: str, node_id: int, directory_id: Uuid) -> None:
        """Store cluster and node durably; a zero ``directory_id`` is left out. Raises
        DiskFailed.
        """
        properties = MetaProperties(
            _META_VERSION, cluster_id, node_id, None if directory_id == ZERO_UUID else directory_id
        )
        write_meta(self._meta.parent, properties, self._disk)
        self.meta_properties = properties

    def close(self) -> None:
        """Close the open file. Idempotent."""
        self._high_watermark.close()

    def _check_topic_id(self, path: Path) -> None:
        topic_id = _read(
            path,
            partition_metadata.read_topic_id,
            "restore it, or remove it to take the directory at its name",
        )
        if topic_id is None:
            # A new directory: Kafka opens it as its own (``UnifiedLog.initializeTopicId`` reads the
            # file).
            self._disk.replace(path, partition_metadata.format_topic_id(METADATA_TOPIC_ID))
        # ``UnifiedLog.initializeTopicId`` throws InconsistentTopicIdException.
        elif topic_id != METADATA_TOPIC_ID:
            reason = f"topic id {topic_id} is not that of __cluster_metadata, {METADATA_TOPIC_ID}"
            raise LogDamaged(str(path), -1, reason, "give another data directory")


def read_meta(data_dir: Path) -> MetaProperties | None:
    """Return the content of ``meta.properties``, None without the file. Raises LogDamaged,
    DiskFailed.
    """
    advice = "restore it: it says whose directory this is"
    return _read(data_dir / meta_properties.FILE_NAME, meta_properties.read_meta_properties, advice)


def write_meta(data_dir: Path, properties: MetaProperties, disk: Disk) -> None:
    """Replace ``meta.properties``, on disk when this returns. Raises DiskFailed."""
    data = meta_properties.format_meta_properties(properties, datetime.now(UTC))
    disk.replace(data_dir / meta_properties.FILE_NAME, data)


def _read(path: Path, reader: Callable[[Path], _T], advice: str) -> _T | None:
    with doing("read", path):
        try:
            return reader(path)
        # A missing file is a fresh directory to most callers; a voter decides for itself what is
        # missing.
        except FileNotFoundError:
            return None
        except DecodeError as error:
            raise LogDamaged(str(path), error.offset, error.reason, advice) from error
