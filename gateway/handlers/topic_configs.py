"""The configuration of the topic, as names, types and values of Kafka 4.3.1. It knows no request.

The values are Kafka's defaults for a topic, but for those that ``KafkaRaftLog`` sets for the metadata log itself:
batches up to 8 MiB, and no retention of its own, because snapshots decide what is deleted.
"""

from __future__ import annotations

import enum
from typing import Final


class ConfigType(enum.IntEnum):
    """``DescribeConfigsResponse.ConfigType``."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


_LONG_MAX: Final = str(2**63 - 1)

#: Name -> (type, value).
TOPIC_CONFIGS: Final[dict[str, tuple[ConfigType, str]]] = {
    "cleanup.policy": (ConfigType.LIST, "delete"),
    "compression.gzip.level": (ConfigType.INT, "-1"),
    "compression.lz4.level": (ConfigType.INT, "9"),
    "compression.type": (ConfigType.STRING, "producer"),
    "compression.zstd.level": (ConfigType.INT, "3"),
    "delete.retention.ms": (ConfigType.LONG, "86400000"),
    "file.delete.delay.ms": (ConfigType.LONG, "60000"),
    "flush.messages": (ConfigType.LONG, _LONG_MAX),
    "flush.ms": (ConfigType.LONG, _LONG_MAX),
    "follower.replication.throttled.replicas": (ConfigType.LIST, ""),
    "index.interval.bytes": (ConfigType.INT, "4096"),
    "leader.replication.throttled.replicas": (ConfigType.LIST, ""),
    "local.retention.bytes": (ConfigType.LONG, "-2"),
    "local.retention.ms": (ConfigType.LONG, "-2"),
    "max.compaction.lag.ms": (ConfigType.LONG, _LONG_MAX),
    "max.message.bytes": (ConfigType.INT, "8388608"),
    "message.timestamp.after.max.ms": (ConfigType.LONG, "3600000"),
    "message.timestamp.before.max.ms": (ConfigType.LONG, _LONG_MAX),
    "message.timestamp.type": (ConfigType.STRING, "CreateTime"),
    "min.cleanable.dirty.ratio": (ConfigType.DOUBLE, "0.5"),
    "min.compaction.lag.ms": (ConfigType.LONG, "0"),
    "min.insync.replicas": (ConfigType.INT, "1"),
    "preallocate": (ConfigType.BOOLEAN, "false"),
    "remote.log.copy.disable": (ConfigType.BOOLEAN, "false"),
    "remote.log.delete.on.disable": (ConfigType.BOOLEAN, "false"),
    "remote.storage.enable": (ConfigType.BOOLEAN, "false"),
    "retention.bytes": (ConfigType.LONG, "-1"),
    "retention.ms": (ConfigType.LONG, "-1"),
    "segment.bytes": (ConfigType.INT, "1073741824"),
    "segment.index.bytes": (ConfigType.INT, "10485760"),
    "segment.jitter.ms": (ConfigType.LONG, "0"),
    "segment.ms": (ConfigType.LONG, "604800000"),
    "unclean.leader.election.enable": (ConfigType.BOOLEAN, "false"),
}
