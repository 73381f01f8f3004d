"""Metadata records as the controller writes them: at which version, in which batches. Knows no
request and no state.

A record's version follows from the finalized metadata.version (``MetadataVersion``), so that every
node of a cluster that may still run at that level can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gateway.controller.errors import ApiError
from gateway.slices import Slices, pieces, run
from kwire.cluster.snapshot import register_broker_version
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

#: From this level of metadata.version on there are NoOpRecords (3.3-IV1, which Kafka 4 cannot
#: finalize any more).
NO_OP_LEVEL: Final = 5
#: Records of one operation at most (``QuorumController.MAX_RECORDS_PER_USER_OP``).
OPERATION_RECORDS_MAX: Final = 10_000
#: Records that are encoded, or applied, between two slices: about 1 ms.
RECORDS_PER_SLICE: Final = 64
#: Bytes of one batch at most (``KafkaRaftClient.MAX_BATCH_SIZE_BYTES``), and what the batch adds to
#: a record's value, at most.
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
_BATCH_HEADER_BYTES: Final = 61
_RECORD_OVERHEAD_BYTES: Final = 24
#: KRAFT_VERSION and KRAFT_VOTERS.
_UPGRADE_RECORDS: Final = 2


class Record(NamedTuple):
    """A metadata record and the version that it is written at."""

    message: Message
    version: int


@dataclass(frozen=True, slots=True)
class Operation:
    """Records that take effect together or not at all, if it is atomic. ``name`` is what Kafka
    calls the operation.

    ``batches`` are the values to be appended, in order, each list as one batch. Where one batch
    does not hold them they stand in a metadata transaction, whose marks are in ``batches`` and not
    in ``records``. ``kraft_version``: what the quorum has to raise its own version to first, by
    control records that are not among them (KIP-853).
    """

    name: str
    records: tuple[Record, ...]
    batches: tuple[tuple[bytes, ...], ...]
    kraft_version: int | None = None

    @property
    def offsets(self) -> int:
        """How many offsets it takes up in the log."""
        return sum(map(len, self.batches)) + (
            _UPGRADE_RECORDS if self.kraft_version is not None else 0
        )


def record_version(message: Message, level: int) -> int:
    """The version of a record of this type at ``level`` of metadata.version."""
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
    """The lowest that has what is changed, as Kafka writes it; who asks for a change knows that the
    level allows it.
    """
    if change.cordoned_log_dirs is not None:
        return 3
    return 2 if change.log_dirs else int(bool(change.in_controlled_shutdown))


def operation(
    name: str, messages: Iterable[Message], level: int, *, atomic: bool = True
) -> Operation:
    """An operation of ``messages`` at ``level``, as :func:`operation_in_slices`."""
    return run(operation_in_slices(name, messages, level, atomic=atomic))


def operation_in_slices(
    name: str, messages: Iterable[Message], level: int, *, atomic: bool = True
) -> Slices[Operation]:
    """An operation of ``messages`` at ``level``.

    One that is not ``atomic`` is written in as many batches as it takes, each of which leaves a
    good state. Raises ApiError where the records are too many, too large, or cannot be encoded.
    """
    messages = list(messages)
    if atomic:
        check_count(messages)
    # Looked up once for changes of partitions: there may be thousands.
    of_change = partition_change_record_version(level)
    records: list[Record] = []
    values: list[bytes] = []
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
        values += encode(made)
        yield
    batches = _batches(name, values, level) if atomic else tuple(_packed(values))
    return Operation(name, tuple(records), batches)


def check_count(messages: Sized) -> None:
    """Raise ApiError where these are more records than an atomic operation may have.

    A request that makes a record or more for each of its elements checks while it makes them: there
    may be three times as many elements.
    """
    if len(messages) > OPERATION_RECORDS_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"This makes more than {OPERATION_RECORDS_MAX} records, the most that one request may "
            "make. Split it.",
        )


def encode(records: Sequence[Record]) -> list[bytes]:
    """The values of the records. Raises ApiError for one that the log's format cannot hold."""
    try:
        return [encode_metadata_record(record.message, record.version) for record in records]
    except EncodeError as error:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"This cannot be written to the metadata log: {error}"
        ) from None


def _batches(name: str, values: list[bytes], level: int) -> tuple[tuple[bytes, ...], ...]:
    batches = list(_packed(values))
    if len(batches) > 1:
        if not is_metadata_transaction_supported(level):
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"This makes more than the {BATCH_BYTES_MAX} bytes that one batch holds; metadata.version {level} has no"
                f" transactions to write it in several. Split the request, or upgrade metadata.version.",
            )
        begin = Record(BeginTransactionRecord(name=name), 0)
        batches = [
            tuple(encode([begin])),
            *batches,
            tuple(encode([Record(EndTransactionRecord(), 0)])),
        ]
    return tuple(batches)


def _packed(values: list[bytes]) -> Iterable[tuple[bytes, ...]]:
    """The values in as few batches as hold them, in their order."""
    batch: list[bytes] = []
    size = _BATCH_HEADER_BYTES
    for value in values:
        needed = len(value) + _RECORD_OVERHEAD_BYTES
        if needed > BATCH_BYTES_MAX - _BATCH_HEADER_BYTES:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"A record of {len(value)} bytes is larger than a batch may be.",
            )
        if batch and (size + needed > BATCH_BYTES_MAX or len(batch) == OPERATION_RECORDS_MAX):
            yield tuple(batch)
            batch, size = [], _BATCH_HEADER_BYTES
        batch.append(value)
        size += needed
    if batch:
        yield tuple(batch)
