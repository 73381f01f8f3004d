"""Reads the configuration of a topic as the broker uses it (``LogConfig``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.broker.produce.validation import TopicRules
from gateway.controller.configs.topic_configs import effective_topic_config
from gateway.log.partition.cleanup_settings import CleanupSettings
from gateway.log.partition.log_settings import LogSettings
from gateway.server.broker.broker_config import broker_number
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.records.record import Compression, TimestampType

if TYPE_CHECKING:
    from kwire.cluster.image import Image

#: ``compression.type`` of a topic: None where the producer decides.
_COMPRESSIONS: Final = {
    "producer": None,
    "uncompressed": Compression.NONE,
    **{one.name.lower(): one for one in Compression if one},
}
#: The compressions that have a level, by the key of the topic.
_LEVELS: Final = {
    Compression.GZIP: "compression.gzip.level",
    Compression.LZ4: "compression.lz4.level",
    Compression.ZSTD: "compression.zstd.level",
}


class TopicSettings(NamedTuple):
    """The settings of a topic: for its logs, and for batches of producers."""

    log: LogSettings
    rules: TopicRules


def topic_settings(image: Image, topic: str, node_id: int, *, fsync: bool) -> TopicSettings:
    """Return the effective settings of a topic on this node. ``fsync``: whether a segment is synced
    before the next one begins.
    """
    own = image.configs.get((TOPIC_RESOURCE, topic), {})

    def value(name: str) -> Any:
        key, text, _ = effective_topic_config(image, own, node_id, name)
        return key.parse(text or "")

    compression = _COMPRESSIONS[value("compression.type")]
    level = _LEVELS.get(compression) if compression is not None else None
    # A topic that is compacted alone keeps the newest record of each key for ever.
    policy = value("cleanup.policy")
    deletes, compacts = "delete" in policy, "compact" in policy
    is_append_time = value("message.timestamp.type") == "LogAppendTime"
    return TopicSettings(
        LogSettings(
            segment_bytes=value("segment.bytes"),
            segment_ms=value("segment.ms"),
            index_interval_bytes=value("index.interval.bytes"),
            retention_bytes=value("retention.bytes") if deletes else -1,
            retention_ms=value("retention.ms") if deletes else -1,
            fsync=fsync,
            flush_messages=value("flush.messages"),
            producer_id_expiration_ms=broker_number(image, node_id, "producer.id.expiration.ms"),
            file_delete_delay_ms=value("file.delete.delay.ms"),
            cleanup=CleanupSettings(
                deletes=deletes,
                compacts=compacts,
                min_cleanable_ratio=value("min.cleanable.dirty.ratio"),
                min_lag_ms=value("min.compaction.lag.ms"),
                max_lag_ms=value("max.compaction.lag.ms"),
                delete_retention_ms=value("delete.retention.ms"),
            ),
        ),
        TopicRules(
            max_message_bytes=value("max.message.bytes"),
            compression=compression,
            # -1 is the library's default for gzip.
            compression_level=None if level is None or value(level) == -1 else value(level),
            timestamp_type=(
                TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
            ),
            timestamp_before_max_ms=value("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=value("message.timestamp.after.max.ms"),
            compacted=compacts,
            min_insync_replicas=value("min.insync.replicas"),
        ),
    )
