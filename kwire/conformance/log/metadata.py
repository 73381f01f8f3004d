"""Replays metadata records, and checks each against the state and metadata.version before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.cluster.fold import FoldError
from kwire.cluster.image import METADATA_VERSION, Image
from kwire.cluster.loader import Loader
from kwire.conformance.log import rules
from kwire.conformance.log.batches import ReadBatch
from kwire.conformance.log.findings import Findings
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.protocol import metadata_version as levels
from kwire.records import decode_metadata_record

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


class Replay:
    """A state that records are replayed on. ``image`` is the state before the next record."""

    def __init__(self, findings: Findings, image: Image | None = None) -> None:
        self._findings = findings
        self._loader = Loader(image)
        self._level = self._loader.image.metadata_version
        self._level_before_transaction = self._level
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
            if record.key is not None:
                self._wrong(rules.KEYS, batch, f"the record at {record.offset} has a key")
            try:
                _, version, message = decode_metadata_record(record.value or b"")
            except DecodeError as error:
                self.is_whole = False
                self._wrong(
                    rules.METADATA_RECORDS, batch, f"the record at {record.offset}: {error}"
                )
                continue
            self._check_version(batch, record.offset, message, version)
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
        # Levels below 3.3 and the time before the first level are not checked.
        if self._level < levels.MINIMUM_METADATA_VERSION:
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

    def _wrong(self, rule_id: str, batch: ReadBatch, sentence: str) -> None:
        self._findings.wrong(rule_id, batch.file, batch.position, sentence)
