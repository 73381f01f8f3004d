"""Folds record batches into an image of the cluster, and counts what they held.

It does not know where the batches come from: ``gateway.sources.metadata_replayer`` reads them. As
in a broker no single record is fatal: a record that cannot be decoded or applied is counted,
reported and skipped (``LoggingFaultHandler``, ``metadata-load-error-count``). The image then lacks
it, which ``lacks`` says: a controller of Kafka ends (``fatalFaultHandler``), and a node here does
not lead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from kwire.cluster import FoldError, Image, Loader
from kwire.cluster.levels import unknown_level
from kwire.cluster.partition_reader import (
    CHANGE_FRAMES,
    PARTITION_BYTES_MIN,
    PARTITION_FRAMES,
    PartitionReader,
)
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import BatchHeader, Record, decode_control_record, decode_metadata_record
from kwire.records.uniform_records import FRAME_BYTES, RecordChunk, UniformRecords

#: Reasons for skipping a record.
UNKNOWN_TYPE: Final = "unknown type"
UNKNOWN_VERSION: Final = "unknown version"
DAMAGED: Final = "damaged"
DOES_NOT_FIT: Final = "does not fit"
#: By the rule of the codec that was broken; DAMAGED for all others.
_REASONS: Final = {"record-type": UNKNOWN_TYPE, "record-version": UNKNOWN_VERSION}
#: Remedies for a record or level of a later release, and for any other record.
_UPGRADE: Final = "upgrade this node to a release that knows it"
_LET_OTHERS: Final = "let a node lead that has it, or restore the log from a backup"
#: Sentences kept until ``take_counts``; further ones are only counted.
NOTICES_MAX: Final = 20
_PARTITION: Final = "PARTITION_RECORD"
_CHANGE: Final = "PARTITION_CHANGE_RECORD"


class Position(NamedTuple):
    """The end of a batch with no open transaction, and the fields of a snapshot that ends there."""

    next_offset: int
    epoch: int  #: of the batch that ends here, -1 at the beginning
    timestamp: int  #: when that batch was appended (ms), -1 at the beginning
    kraft_version: int
    voters: VotersRecord | None  #: the last one written, None where there was none


class State(NamedTuple):
    """An image that is never changed again, and its end."""

    image: Image
    position: Position


class MetadataBatchLoader:
    """Folds batches into ``image``. ``position`` is the end of ``image``; inside a batch or an open
    transaction, the end of the last batch before it.
    """

    def __init__(self) -> None:
        self.position = Position(0, -1, -1, 0, None)
        #: Records of the log by type, control records too.
        self.records: Counter[str] = Counter()
        #: Records of log and snapshot that were skipped, by reason.
        self.skipped: Counter[str] = Counter()
        self.notices: list[str] = []
        self.taken = 0  #: records folded or skipped, in total
        #: Type of the last record if that was a control record: a snapshot ends with
        #: SNAPSHOT_FOOTER.
        self.last_control = ""
        self._loader = Loader()
        self._partitions = PartitionReader()
        self._kraft_version = 0
        self._voters: VotersRecord | None = None
        self._timestamp = -1
        self._where: tuple[str, int] = ("", -1)
        self._skipped_first: str | None = None

    @property
    def image(self) -> Image:
        """The state so far. Setting it continues the fold in another image with the same
        content.
        """
        return self._loader.image

    @image.setter
    def image(self, image: Image) -> None:
        self._loader.image = image

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open at the end of what was folded."""
        return self._loader.in_transaction

    @property
    def aligned(self) -> bool:
        """Whether ``image`` ends at the end of a batch. It does not inside a transaction that began
        in the middle of one.
        """
        return self.image.next_offset == self.position.next_offset

    @property
    def lacks(self) -> str | None:
        """A clause about the part of the log that ``image`` lacks, and its remedy: the first record
        that was skipped, or a level of a feature that this release does not know. None: there is
        none.
        """
        if self._skipped_first is not None:
            return self._skipped_first
        level = unknown_level(self.image.features)
        return None if level is None else f"{level}: {_UPGRADE}"

    def take_log(self, header: BatchHeader, chunks: Sequence[RecordChunk]) -> None:
        """Fold one batch of the log."""
        self._fold("log", header, chunks, self.records)
        self._timestamp = header.max_timestamp
        self._settle(header.next_offset, header.partition_leader_epoch)

    def take_snapshot(self, file: str, header: BatchHeader, chunks: Sequence[RecordChunk]) -> None:
        """Fold one batch of the snapshot in ``file``; in order, and then call
        ``finish_snapshot``.
        """
        self._fold(file, header, chunks, Counter())

    def finish_snapshot(self, snapshot: SnapshotId) -> None:
        """Move to the snapshot's end: its records replace everything below it."""
        self._settle(snapshot.end_offset, snapshot.epoch)

    def take_counts(self) -> tuple[Counter[str], Counter[str], list[str]]:
        """Return ``records``, ``skipped`` and ``notices`` since the last call, and reset them."""
        account = self.records, self.skipped, self.notices
        self.records, self.skipped, self.notices = Counter(), Counter(), []
        return account

    def add_notice(self, sentence: str) -> None:
        """Keep a sentence for the server's log, up to ``NOTICES_MAX``."""
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(sentence)

    def _fold(
        self, place: str, header: BatchHeader, chunks: Sequence[RecordChunk], counts: Counter[str]
    ) -> None:
        epoch, is_control = header.partition_leader_epoch, header.is_control
        for chunk in chunks:
            if isinstance(chunk, Record):
                self._fold_record(place, chunk, epoch, is_control, counts)
            elif not is_control and self._fold_run(chunk, epoch):
                counts[_PARTITION] += chunk.length
                self.taken += chunk.length
            else:
                for record in chunk.records():
                    self._fold_record(place, record, epoch, is_control, counts)

    def _fold_run(self, run: UniformRecords, epoch: int) -> bool:
        """Fold a run of PartitionRecords; False, and nothing is folded, if it has others, or one
        that has to be counted or held back.
        """
        if run.frame not in PARTITION_FRAMES or run.value_size < PARTITION_BYTES_MIN:
            return False
        try:
            found = self._partitions.read_run(run)
        except DecodeError:
            return False
        if not self._loader.load_partitions(found, run.next_offset, epoch):
            return False
        self.last_control = ""
        return True

    def _fold_record(
        self, place: str, record: Record, epoch: int, is_control: bool, counts: Counter[str]
    ) -> None:
        message: Message
        offset = record.offset
        self._where = place, offset
        self.taken += 1
        try:
            if is_control:
                counts[self._control(record)] += 1
            else:
                self.last_control = ""
                value = record.value or b""
                frame = value[:FRAME_BYTES]
                if frame in PARTITION_FRAMES:
                    name, message = _PARTITION, self._partitions.read(value)
                elif frame in CHANGE_FRAMES:
                    name, message = _CHANGE, self._partitions.read_change(value)
                else:
                    name, _, message = decode_metadata_record(value)
                counts[name] += 1
                self._loader.load(message, offset, epoch, refused=self._refused)
                return
        except DecodeError as error:
            self._skip(_REASONS.get(error.rule, DAMAGED), str(error))
        self._loader.skip_to(offset + 1, epoch)

    def _settle(self, next_offset: int, epoch: int) -> None:
        """End a batch or a snapshot. A batch may end behind its last record, or have none."""
        loader = self._loader
        loader.skip_to(next_offset, epoch)
        if not loader.in_transaction:
            self.position = Position(
                next_offset, epoch, self._timestamp, self._kraft_version, self._voters
            )

    def _control(self, record: Record) -> str:
        """Apply a control record; return the name of its type. Raises DecodeError."""
        control = decode_control_record(record)
        self.last_control = control.name
        match control.message:
            case KRaftVersionRecord() as version:
                self._kraft_version = version.k_raft_version
            case VotersRecord() as voters:
                self._voters = voters
            case SnapshotHeaderRecord() as header:
                self._timestamp = header.last_contained_log_timestamp
            case _:
                pass
        return control.name

    def _refused(self, error: FoldError) -> None:
        self._skip(DOES_NOT_FIT, str(error))

    def _skip(self, reason: str, text: str) -> None:
        self.skipped[reason] += 1
        place, offset = self._where
        self.add_notice(f"{place}, offset {offset}: {text}; passed over")
        if self._skipped_first is None:
            remedy = _UPGRADE if reason in _REASONS.values() else _LET_OTHERS
            self._skipped_first = f"{place}, offset {offset}: {text}: {remedy}"
