"""Holds the small files of the metadata partition in memory: vote and topic id.

``quorum-state`` and ``partition.metadata`` are replaced as a whole, as ``CheckpointFile`` does. It
knows neither segments nor the files of the data directory
(``gateway.log.partition.data_directory``).
"""

from __future__ import annotations

from pathlib import Path

from gateway.log.files import partition_metadata, quorum_state
from gateway.log.files.disk import Disk
from gateway.log.files.errors import LogDamaged
from gateway.log.files.small_file import read_small_file
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.uuid import METADATA_TOPIC_ID


class MetadataFiles:
    """The files' content, None for a missing file. A file that cannot be read raises LogDamaged: no
    default replaces a vote.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Read every file; write ``partition.metadata`` if it is missing. Raises LogDamaged,
        DiskFailed.
        """
        self._disk = disk
        self._quorum = directory / quorum_state.FILE_NAME
        self.quorum_state: tuple[int, QuorumStateData] | None = read_small_file(
            self._quorum,
            quorum_state.read_quorum_state,
            # A voter gets other advice (``with_voter_advice``).
            "restore it, or remove it: an observer learns the epoch anew",
        )
        # After the other, because it may write, and a directory that is refused stays unchanged.
        self._check_topic_id(directory / partition_metadata.FILE_NAME)

    def write_quorum_state(self, state: QuorumStateData, version: int) -> None:
        """Store leader, epoch and vote durably. Raises EncodeError, DiskFailed."""
        self._disk.replace(self._quorum, quorum_state.format_quorum_state(state, version))
        # Memory changes after the disk: a vote that was not stored was not cast.
        self.quorum_state = version, state

    def _check_topic_id(self, path: Path) -> None:
        topic_id = read_small_file(
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
