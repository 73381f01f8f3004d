"""Encodes metadata records: chooses their versions, and packs them into batches.

The version of a record follows from the finalized metadata.version (``MetadataVersion``), so that
every node that supports that level can read it. It knows no request and no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gateway.base.sizes import MIB
from gateway.base.slices import Slices, pieces, run
from gateway.controller.errors import ApiError
from kwire.cluster.entities.nodes import register_broker_version
from kwire.cluster.partition_writer import PartitionWriter
from kwire.errors import EncodeError
from kwire.message import Message
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.protocol import ErrorCode
from kwire.protocol.metadata_version import (
    is_metadata_transaction_supported,
    partition_change_record_version,
    partition_record_version,
)
from kwire.records.metadata import encode_metadata_record

#: The first level of metadata.version with NoOpRecords (3.3-IV1). Kafka 4 finalizes no level as
#: low; a log without committed bootstrap records has level 0.
NO_OP_LEVEL: Final = 5
#: Records of one operation at most (``QuorumController.MAX_RECORDS_PER_USER_OP``).
OPERATION_RECORDS_MAX: Final = 10_000
#: Records that are encoded, or applied, between two slices: about 1 ms.
RECORDS_PER_SLICE: Final = 64
#: Records of one batch of an operation that is not atomic: the node encodes a batch in one step, at
#: 1 µs a record.
_PART_RECORDS_MAX: Final = 2_000
#: Bytes of one batch at most (``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``).
BATCH_BYTES_MAX: Final = 8 * MIB
_BATCH_HEADER_BYTES: Final = 61
#: The bytes of a record around its value, at most: the frame of the batch format, as varints.
_RECORD_OVERHEAD_BYTES: Final = 24
#: The control records of an upgrade of kraft.version: KRAFT_VERSION and KRAFT_VOTERS.
_UPGRADE_RECORDS: Final = 2


class Record(NamedTuple):
    """A metadata record and the version that it is written at."""

    message: Message
    version: int


@dataclass(frozen=True, slots=True)
class Operation:
    """The records of one decision. ``name`` is that of the event in Kafka's ``QuorumController``.

    ``batches`` are the values to append, in order, each tuple as one batch. The records of an
    atomic operation take effect together or not at all: if one batch cannot hold them they are in
    a metadata transaction (KIP-868), whose begin and end are in ``batches`` and not in ``records``.
    ``kraft_version``: the version to which the quorum must raise its own first, by control records
    that are in neither (KIP-853). ``records`` may be freed when the batches have been proposed.
    """

    name: str
    records: Sequence[Record]
    batches: tuple[tuple[bytes, ...], ...]
    kraft_version: int | None = None
    atomic: bool = True

    @property
    def parts(self) -> Iterator[Operation]:
        """The operations to append one after another: this one, or one for each batch if it is not
        atomic. A fenced broker may have so many partitions that the node would encode their
        batches for half a second.
        """
        if self.atomic:
            yield self
        else:
            for batch in self.batches:
                yield Operation(self.name, (), (batch,))

    @property
    def offsets(self) -> int:
        """The number of offsets that it takes in the log."""
        return sum(map(len, self.batches)) + (
            _UPGRADE_RECORDS if self.kraft_version is not None else 0
        )


def record_version(message: Message, level: int) -> int:
    """Return the version of this record at ``level`` of metadata.version."""
    match message.NAME:
        case "RegisterBrokerRecord":
            return register_broker_version(level)
        case "PartitionRecord":
            return partition_record_version(level)
        case "PartitionChangeRecord":
            return partition_change_record_version(level)
        case "BrokerRegistrationChangeRecord":
            return _registration_change_version(message)
        case _:
            return 0


def _registration_change_version(change: Any) -> int:
    """Return the lowest version that has the changed fields, as Kafka does.

    The level is not checked: a caller changes only fields that the level has.
    """
    # Null is no change, and an empty list takes the last cordoned directory back (KIP-1066).
    if change.cordoned_log_dirs is not None:
        return 3
    return 2 if change.log_dirs else int(bool(change.in_controlled_shutdown))


def operation(
    name: str, messages: Iterable[Message], level: int, *, atomic: bool = True
) -> Operation:
    """Return the result of :func:`operation_in_slices`, run to its end at once."""
    return run(operation_in_slices(name, messages, level, atomic=atomic))


def operation_in_slices(
    name: str, messages: Iterable[Message], level: int, *, atomic: bool = True
) -> Slices[Operation]:
    """Return the operation of ``messages`` at ``level``, in slices.

    If it is not ``atomic`` the records take as many batches as they need, and each record leaves a
    valid state. Raises ApiError if the records are too many, too large, or cannot be encoded.
    """
    # Counted before any is encoded: the count alone may refuse the request.
    messages = messages if isinstance(messages, list) else list(messages)
    if atomic:
        check_count(messages)
    # Looked up once: a fenced broker makes thousands of partition changes.
    of_change = partition_change_record_version(level)
    records: list[Record] = []
    values: list[bytes] = []
    changes = PartitionWriter()
    for some in pieces(messages, RECORDS_PER_SLICE):
        made = [
            Record(
                message,
                of_change
                if message.__class__ is PartitionChangeRecord
                else record_version(message, level),
            )
            for message in some
        ]
        records += made
        values += encode(made, changes)
        yield
    # Without a transaction where none is needed: readers hold a transaction's records back until
    # its end.
    if atomic:
        batches = _batches(name, values, level)
    else:
        packed = []
        for batch in _packed(values, _PART_RECORDS_MAX):
            packed.append(batch)
            yield
        batches = tuple(packed)
    # The offsets of later records, and broker epochs among them, are counted by these.
    assert sum(map(len, batches)) >= len(records), "every record is in a batch"
    return Operation(name, records, batches, atomic=atomic)


def check_count(messages: Sized) -> None:
    """Raise ApiError POLICY_VIOLATION for more records than an atomic operation may have.

    A decision that makes records for each element of a request checks after each of them: the
    request may have three times as many elements.
    """
    # POLICY_VIOLATION as for ``BoundedListTooLongException`` in Kafka.
    if len(messages) > OPERATION_RECORDS_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"This makes more than {OPERATION_RECORDS_MAX} records, the most that one request may "
            "make. Split it.",
        )


def encode(records: Sequence[Record], changes: PartitionWriter | None = None) -> list[bytes]:
    """Return the values of the records. Raises ApiError for one that its schema cannot hold, such
    as a name of more than 32,767 bytes.
    """
    changes = changes or PartitionWriter()
    try:
        return [
            changes.write_change(message, version)
            if isinstance(message, PartitionChangeRecord)
            else encode_metadata_record(message, version)
            for message, version in records
        ]
    except EncodeError as error:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"This cannot be written to the metadata log: {error}"
        ) from None


def _batches(name: str, values: list[bytes], level: int) -> tuple[tuple[bytes, ...], ...]:
    batches = list(_packed(values))
    if len(batches) > 1:
        # Kafka has metadata transactions around bootstrap records only. Here they also keep a
        # request together that is larger than a batch (KIP-868).
        if not is_metadata_transaction_supported(level):
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"This makes more than the {BATCH_BYTES_MAX} bytes that one batch holds; "
                f"metadata.version {level} has no transactions to write it in several. Split the "
                "request, or upgrade metadata.version.",
            )
        # Batches of their own: the records between them may fill a batch to the last byte.
        begin = Record(BeginTransactionRecord(name=name), 0)
        batches = [
            tuple(encode([begin])),
            *batches,
            tuple(encode([Record(EndTransactionRecord(), 0)])),
        ]
    return tuple(batches)


def _packed(
    values: list[bytes], records_max: int = OPERATION_RECORDS_MAX
) -> Iterable[tuple[bytes, ...]]:
    """Yield the values in batches, in order, as many in each as it holds."""
    batch: list[bytes] = []
    size = _BATCH_HEADER_BYTES
    for value in values:
        needed = len(value) + _RECORD_OVERHEAD_BYTES
        # Refused here and not by the quorum, where it would fail the controller (KAFKA-14996).
        if needed > BATCH_BYTES_MAX - _BATCH_HEADER_BYTES:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"A record of {len(value)} bytes is larger than a batch may be.",
            )
        # ``batch and``: a record that fits no batch was refused above, so a batch has at least one.
        if batch and (size + needed > BATCH_BYTES_MAX or len(batch) == records_max):
            yield tuple(batch)
            batch, size = [], _BATCH_HEADER_BYTES
        batch.append(value)
        size += needed
    if batch:
        yield tuple(batch)
