"""Names the rules of logs. The modules beside this one check them and report by these ids.

A log is *damaged* where its bytes cannot be what any server wrote, and *wrong* where they can be
and still break a rule.
"""

from __future__ import annotations

from typing import Final

from kwire.conformance.probe import Probe
from kwire.conformance.rule import EVERY_ROLE, Family, Level, Rule

FAMILY: Final = Family("log", "Metadata logs on disk")


def _not_of_servers(probe: Probe) -> None:
    probe.not_applicable("the rule is about files: give --log")


def _rule(name: str, says: str, source: str, section: str = "", level: Level = Level.MUST) -> str:
    """Add a rule, and return its id."""
    rule_id = f"log.{name}"
    FAMILY.add(Rule(rule_id, says, _not_of_servers, source, section, level, "3.3", EVERY_ROLE))
    return rule_id


BATCH_WHOLE: Final = _rule(
    "batch-whole", "Every batch ends within its file.", "FileRecords", "batches"
)
WHOLE_TAIL: Final = _rule(
    "whole-tail", "The last segment ends with a whole batch; a crash can leave part of one.",
    "LogSegment", "recover", Level.SHOULD,
)  # fmt: skip
BATCH_HEADER: Final = _rule(
    "batch-header", "Every batch has a possible length and format 2.", "DefaultRecordBatch"
)
BATCH_CRC: Final = _rule(
    "batch-crc", "The CRC of every batch is that of its bytes.", "DefaultRecordBatch", "ensureValid"
)
RECORDS: Final = _rule(
    "records", "The records of every batch decode, and are as many as its header says.",
    "DefaultRecordBatch", "iterator",
)  # fmt: skip
SEGMENT_NAME: Final = _rule(
    "segment-name", "A segment has the base offset of its first batch as its name.", "LogFileUtils"
)
OFFSETS: Final = _rule(
    "offsets-contiguous",
    "Offsets have no gap and no overlap, within and between segments and in snapshots.",
    "UnifiedLog", "append",
)  # fmt: skip
EPOCHS: Final = _rule(
    "epochs-ascend", "Leader epochs of batches are not negative and do not fall.", "KIP-595"
)
LEADER_CHANGE: Final = _rule(
    "leader-change-first",
    "The first batch of each epoch of a leader is a control batch with LEADER_CHANGE.", "KIP-595",
    "LeaderChangeMessage",
)  # fmt: skip
LEADER_IS_VOTER: Final = _rule(
    "leader-is-voter", "The leader of LEADER_CHANGE is one of its voters.", "KIP-595"
)
CONTROL_RECORDS: Final = _rule(
    "control-records",
    "Control records decode, are of types that belong into the file, and are in control batches.",
    "ControlRecordType",
)  # fmt: skip
PRODUCER: Final = _rule(
    "no-producer", "No batch has a producer id, is transactional, or is without records.",
    "MemoryRecordsBuilder",
)  # fmt: skip
TIMESTAMPS: Final = _rule(
    "timestamps", "The largest timestamp of a batch is that of one of its records.",
    "DefaultRecordBatch", "maxTimestamp",
)  # fmt: skip
KEYS: Final = _rule(
    "no-keys", "Records of metadata have a value and no key.", "MetadataRecordSerde"
)
METADATA_RECORDS: Final = _rule(
    "metadata-records", "Every value is a metadata record of a known type and version.", "KIP-631",
    "Record Formats",
)  # fmt: skip
RECORD_VERSION: Final = _rule(
    "record-version",
    "Every record has a type and version that the finalized metadata.version allows.",
    "MetadataVersion",
)  # fmt: skip
REFERENCES: Final = _rule(
    "references", "Every record refers to topics, partitions and brokers that exist.",
    "MetadataDelta", "replay",
)  # fmt: skip
TRANSACTIONS: Final = _rule(
    "transactions",
    "Metadata transactions begin and end in turn, and a new leader aborts the one that is open.",
    "KIP-868",
)
STARTS_AT: Final = _rule(
    "starts-at", "A log that begins behind offset 0 has a snapshot at or behind its beginning.",
    "KIP-630", "When to Increase the Log Start Offset",
)  # fmt: skip
SNAPSHOT_FRAME: Final = _rule(
    "snapshot-frame",
    "A snapshot begins with SNAPSHOT_HEADER and ends with SNAPSHOT_FOOTER, at offsets from 0 on.",
    "KIP-630", "Snapshot Format",
)  # fmt: skip
SNAPSHOT_EPOCH: Final = _rule(
    "snapshot-epoch",
    "The epoch in a snapshot's name is that of the last record of the log below its end.",
    "KIP-630", "Validation of Snapshot and Log",
)  # fmt: skip
SNAPSHOT_END: Final = _rule(
    "snapshot-at-batch", "A snapshot ends where a batch of the log ends.", "KafkaMetadataLog",
    "createNewSnapshot",
)  # fmt: skip
SNAPSHOT_IN_LOG: Final = _rule(
    "snapshot-in-log",
    "No snapshot ends behind the log; a crash behind FetchSnapshot can leave one.",
    "KafkaMetadataLog", "truncateToLatestSnapshot", Level.SHOULD,
)  # fmt: skip
SNAPSHOT_STATE: Final = _rule(
    "snapshot-is-replay", "A snapshot has the state that the log below its end leads to.", "KIP-630"
)
EPOCH_CHECKPOINT: Final = _rule(
    "leader-epoch-checkpoint",
    "The file leader-epoch-checkpoint is whole, and names for each epoch its first offset.",
    "LeaderEpochFileCache",
)  # fmt: skip
QUORUM_STATE: Final = _rule(
    "quorum-state",
    "The file quorum-state is whole, its epoch is not below that of the log, and it has the leader "
    "that the log names for the epoch.",
    "FileQuorumStateStore",
)  # fmt: skip
PARTITION_METADATA: Final = _rule(
    "partition-metadata",
    "The file partition.metadata has version 0 and the topic id of the metadata log.",
    "PartitionMetadataFile",
)  # fmt: skip
META_PROPERTIES: Final = _rule(
    "meta-properties", "The file meta.properties has a version, a node id and a cluster id.",
    "MetaProperties",
)  # fmt: skip
OFFSET_INDEX: Final = _rule(
    "offset-index",
    "An offset index has whole entries, which ascend and lead to the batch with their offset.",
    "OffsetIndex",
)  # fmt: skip
