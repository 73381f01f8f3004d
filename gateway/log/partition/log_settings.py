"""Holds the settings of a local log, with Kafka's defaults for ``__cluster_metadata``
(``MetadataLogConfig``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.base.sizes import MIB
from gateway.log.partition.cleanup_settings import CleanupSettings

_DAY_MS: Final = 24 * 60 * 60 * 1000
_NEVER: Final = 2**63 - 1
_CLEANUP: Final = CleanupSettings()


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Sizes in bytes, times in ms; a negative retention keeps everything.

    With ``fsync`` False the operating system decides when bytes reach the disk: a power failure may
    then lose even committed records, which are fetched again.
    """

    segment_bytes: int = 1024 * MIB  #: metadata.log.segment.bytes
    segment_ms: int = 7 * _DAY_MS  #: metadata.log.segment.ms, between the timestamps of batches
    index_interval_bytes: int = 4096  #: index.interval.bytes
    retention_bytes: int = (
        100 * MIB
    )  #: metadata.max.retention.bytes, of segments and snapshots together
    retention_ms: int = 7 * _DAY_MS  #: metadata.max.retention.ms, of the last record in a snapshot
    fsync: bool = True  #: metadata.log.fsync
    #: flush.messages: with so many records that are not on disk, an append is not done before they
    #: are.
    flush_messages: int = _NEVER
    producer_id_expiration_ms: int = _DAY_MS  #: producer.id.expiration.ms
    #: file.delete.delay.ms, of a topic that holds data: other segments are deleted at once.
    file_delete_delay_ms: int = 60_000
    cleanup: CleanupSettings = _CLEANUP  #: of a topic that holds data
