"""Replays metadata records, and checks each against the state and metadata.version before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.cluster import FoldError
from kwire.cluster.image import METADATA_VERSION, Image
from kwire.cluster.loader import Loader
from kwire.conformance.log import rules
from kwire.conformance.log.batches import ReadBatch
from kwire.conformance.log.findings import Findings
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.protocol import metadata_version as levels
from kwire.records import decode_metadata_record
from kwire.records.record import Record

#: The newest version of a record at a level of metadata.version.
_VERSIONS: Final[dict[str, Callable[[int], int]]] = {
    "PartitionRecord": levels.partition_record_version,
    "PartitionChangeRecord": levels.partition_change_record_version,
    "RegisterBrokerRecord": levels.register_broker_record_version,
    "RegisterControllerRecord": levels.register_controller_record_version,
}
#: Whether a record exists at a level of metadata.version.
_EXISTS: Final[dict[str, Callable[[int], bool]]] = {
    "BeginTransactionRecord": levels.is_metadata_transaction_supported,
    "ClearElrRecord": levels.is_elr_supported,
    "DelegationTokenRecord": levels.is_delegation_token_supported,
    "RegisterControllerRecord": levels.is_controller_registration_supported,
    "UnregisterControllerRecord": levels.is_controller_unregistration_supported,
    "UserScramCredentialRecord": levels.is_scram_supported,
}
_TRANSACTION: Final = ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord")


def decode(findings: Findings, batch: ReadBatch, record: Record) -> tuple[int, Message] | None:
    """Return version and message of a record, None for one that is reported as no record of
    metadata.
    """
    if record.key is not None:
        findings.wrong(
            rules.KEYS, batch.file, batch.position, f"the record at {record.offset} has a key"
        )
    try:
        _, version, message = decode_metadata_record(record.value or b"")
    except DecodeError as error:
        findings.wrong(
            rules.METADATA_RECORDS, batch.file, batch.position,
            f"the record at {record.offset}: {error}",
        )  # fmt: skip
        return None
    return version, message


class Replay:
    """A state that records are replayed on. ``image`` is the state before the next record."""

    def __init__(self, findings: Findings, image: Image | None = None) -> None:
        self._findings = findings
        self._loader = Loader(image)
        self._level = self._loader.image.metadata_version
        self._level_before_transaction = self._level
        #: The epoch that began the open transaction; None without one, or once it was reported.
        self._transaction_epoch: int | None = None
        #: Whether every record so far was read: without one the state is not known.
        self.is_whole = True

    @property
    def image(self) -> Image:
        """The state, without those records of a transaction that is open."""
        return self._loader.image

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open."""
        return self._loader.in_transaction

    def take(self, batch: ReadBatch) -> None:
        """Replay the records of a batch of metadata."""
        if batch.records is None:
            self.is_whole = False
            return
        epoch = batch.header.partition_leader_epoch
        for record in batch.records:
            decoded = decode(self._findings, batch, record)
            if decoded is None:
                self.is_whole = False
                continue
            version, message = decoded
            self._check_version(batch, record.offset, message, version)
            self._check_transaction(batch, record.offset, epoch, message)
            self._load(batch, record.offset, epoch, message)

    def skip(self, batch: ReadBatch) -> None:
        """Pass over a control batch."""
        self._loader.skip_to(batch.header.next_offset, batch.header.partition_leader_epoch)

    def _load(self, batch: ReadBatch, offset: int, epoch: int, message: Message) -> None:
        try:
            self._loader.load(message, offset, epoch)
        except FoldError as error:
            self.is_whole = False
            rule_id = rules.TRANSACTIONS if message.NAME in _TRANSACTION else rules.REFERENCES
            self._wrong(rule_id, batch, f"the record at {offset}: {error}")

    def _check_version(self, batch: ReadBatch, offset: int, message: Any, version: int) -> None:
        name = message.NAME
        if name == "FeatureLevelRecord" and message.name == METADATA_VERSION:
            self._level = message.feature_level
        elif name == "BeginTransactionRecord":
            self._level_before_transaction = self._level
        elif name == "AbortTransactionRecord":
            self._level = self._level_before_transaction
        # Before the first level any record can come.
        if self._level < 1:
            return
        newest = _VERSIONS.get(name)
        if newest is not None and version > newest(self._level):
            self._wrong(
                rules.RECORD_VERSION, batch,
                f"{name} v{version} at {offset}, metadata.version {self._level} has "
                f"v{newest(self._level)}",
            )  # fmt: skip
        exists = _EXISTS.get(name)
        if exists is not None and not exists(self._level):
            self._wrong(
                rules.RECORD_VERSION, batch,
                f"{name} at {offset}, metadata.version {self._level} does not have it",
            )  # fmt: skip

    def _check_transaction(
        self, batch: ReadBatch, offset: int, epoch: int, message: Message
    ) -> None:
        """A new leader first aborts the transaction that the one before left open
        (``ActivationRecordsGenerator``).
        """
        began = self._transaction_epoch
        if message.NAME in _TRANSACTION:
            self._transaction_epoch = epoch if _TRANSACTION[0] == message.NAME else None
        if began is None or epoch <= began or _TRANSACTION[2] == message.NAME:
            return
        self._wrong(
            rules.TRANSACTIONS, batch,
            f"the transaction of epoch {began} is open, and epoch {epoch} has {message.NAME} at "
            f"{offset} in place of AbortTransactionRecord",
        )  # fmt: skip
        self._transaction_epoch = None

    def _wrong(self, rule_id: str, batch: ReadBatch, sentence: str) -> None:
        self._findings.wrong(rule_id, batch.file, batch.position, sentence)
