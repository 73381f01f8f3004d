"""Lists the configuration keys of topics: names, types, defaults, limits, synonyms of Kafka 4.4.0.

They are read from ``LogConfig.configKeys()`` and ``ServerTopicConfigSynonyms`` of its jars; the
texts in ``help`` are kwire's. Kafka's one internal key, ``internal.segment.bytes``, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.base.java.text import trim
from gateway.controller.configs.config_def import ConfigKey, ConfigType, Synonym, Value

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE,
    ConfigType.LIST,
)  # fmt: skip
_LONG_MAX: Final = str(2**63 - 1)
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
#: A throttled replica: partition:broker (``ThrottledReplicaListValidator``, KIP-73).
_THROTTLED: Final = re.compile(r"(?:[0-9]+:[0-9]+)?")


def gzip_level(value: Value) -> str | None:
    """Return the fault of a compression level of gzip; None if it is valid
    (``CompressionType.GZIP``).
    """
    return (
        None
        if value == -1 or (isinstance(value, int) and 1 <= value <= 9)
        else "Value must be between 1 and 9 or equal to -1"
    )


def _throttled_replicas(value: Value) -> str | None:
    replicas = [trim(one) for one in value] if isinstance(value, list) else []
    # Kafka ignores empty elements, beside "*" as well.
    if all(map(_THROTTLED.fullmatch, replicas)) or "".join(replicas) == "*":
        return None
    return "must be the literal '*' or a list of replicas as partition:broker,partition:broker,..."


_KEYS: Final = (
    ConfigKey(
        "cleanup.policy",
        LIST,
        "delete",
        choices=("compact", "delete"),
        synonyms=(Synonym("log.cleanup.policy", "delete"),),
        help="What happens to old records: delete drops whole segments, compact keeps the "
        "newest record of each key.",
    ),
    # Levels of the three codecs came with KIP-390; the limits are those of the libraries.
    ConfigKey(
        "compression.gzip.level",
        INT,
        "-1",
        check=gzip_level,
        synonyms=(Synonym("compression.gzip.level", "-1"),),
        help="How hard gzip works where compression.type is gzip.",
    ),
    ConfigKey(
        "compression.lz4.level",
        INT,
        "9",
        low=1,
        high=17,
        synonyms=(Synonym("compression.lz4.level", "9"),),
        help="How hard lz4 works where compression.type is lz4.",
    ),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=(Synonym("compression.type", "producer"),),
        help="How records are stored: with one of the codecs, without any, or as the producer "
        "sent them.",
    ),
    ConfigKey(
        "compression.zstd.level",
        INT,
        "3",
        low=-131072,
        high=22,
        synonyms=(Synonym("compression.zstd.level", "3"),),
        help="How hard zstd works where compression.type is zstd.",
    ),
    ConfigKey(
        "delete.retention.ms",
        LONG,
        "86400000",
        low=0,
        synonyms=(Synonym("log.cleaner.delete.retention.ms", "86400000"),),
        help="How long a deletion marker of a compacted topic is kept, ms.",
    ),
    ConfigKey(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        "false",
        help="Whether share groups may use the topic as a dead-letter queue (share.version 2).",
    ),
    ConfigKey(
        "file.delete.delay.ms",
        LONG,
        "60000",
        low=0,
        synonyms=(Synonym("log.segment.delete.delay.ms", "60000"),),
        help="How long a file stays on the disk after it was given up, ms.",
    ),
    ConfigKey(
        "flush.messages",
        LONG,
        _LONG_MAX,
        low=1,
        synonyms=(Synonym("log.flush.interval.messages", _LONG_MAX),),
        help="After how many records the log is synced to the disk.",
    ),
    # Two synonyms, because the interval of the scheduler is the broker's default of the other
    # (``DynamicBrokerConfig.brokerConfigSynonyms``).
    ConfigKey(
        "flush.ms",
        LONG,
        _LONG_MAX,
        low=0,
        synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        help="After what time the log is synced to the disk, ms.",
    ),
    ConfigKey(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        check=_throttled_replicas,
        is_set=False,
        help="Replicas whose fetching is throttled: partition:broker, separated by commas, or "
        "* for all.",
    ),
    ConfigKey(
        "index.interval.bytes",
        INT,
        "4096",
        low=0,
        synonyms=(Synonym("log.index.interval.bytes", "4096"),),
        help="How many bytes of records lie between two entries of the offset index.",
    ),
    ConfigKey(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        check=_throttled_replicas,
        is_set=False,
        help="Replicas to which the leader sends at a throttled rate: partition:broker, "
        "separated by commas, or *.",
    ),
    # -2 stands for the value of ``retention.bytes`` (KIP-405).
    ConfigKey(
        "local.retention.bytes",
        LONG,
        "-2",
        low=-2,
        synonyms=(Synonym("log.local.retention.bytes", "-2"),),
        help="Bytes of a partition kept on the broker's disk beside tiered storage; -2 is "
        "retention.bytes.",
    ),
    # -2 stands for the value of ``retention.ms`` (KIP-405).
    ConfigKey(
        "local.retention.ms",
        LONG,
        "-2",
        low=-2,
        synonyms=(Synonym("log.local.retention.ms", "-2"),),
        help="How long segments stay on the broker's disk beside tiered storage, ms; -2 is "
        "retention.ms.",
    ),
    # KIP-1030 raises the least, 1 ms, in Kafka 5.0.
    ConfigKey(
        "max.compaction.lag.ms",
        LONG,
        _LONG_MAX,
        low=1,
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms", _LONG_MAX),),
        help="How long a record may stay uncompacted, ms.",
    ),
    ConfigKey(
        "max.decompressed.message.bytes",
        INT,
        "2147483639",
        low=1,
        high=2147483639,
        synonyms=(Synonym("max.decompressed.message.bytes", "2147483639"),),
        help="The largest record that is accepted, bytes after decompression.",
    ),
    # 1 MiB, and 12 bytes for base offset and length (``LogConfig.DEFAULT_MAX_MESSAGE_BYTES``).
    ConfigKey(
        "max.message.bytes",
        INT,
        "1048588",
        low=0,
        synonyms=(Synonym("message.max.bytes", "1048588"),),
        help="The largest batch of records that is accepted, bytes.",
    ),
    # An hour since KIP-1030. KIP-937 replaced ``message.timestamp.difference.max.ms`` by two
    # limits, for past and future.
    ConfigKey(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        low=0,
        synonyms=(Synonym("log.message.timestamp.after.max.ms", "3600000"),),
        help="How far a record's timestamp may lie after the broker's clock, ms.",
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        LONG,
        _LONG_MAX,
        low=0,
        synonyms=(Synonym("log.message.timestamp.before.max.ms", _LONG_MAX),),
        help="How far a record's timestamp may lie before the broker's clock, ms.",
    ),
    ConfigKey(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        synonyms=(Synonym("log.message.timestamp.type", "CreateTime"),),
        help="Whose time a record carries: of its creation, or of its arrival in the log.",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        low=0,
        high=1,
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio", "0.5"),),
        help="The share of a log that must be uncompacted before it is compacted.",
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        LONG,
        "0",
        low=0,
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms", "0"),),
        help="How long a record is kept as it is before it may be compacted away, ms.",
    ),
    # Once the cluster keeps eligible leader replicas (KIP-966), one value counts for all brokers:
    # ``apis.update_features`` writes it.
    ConfigKey(
        "min.insync.replicas",
        INT,
        "1",
        low=1,
        synonyms=(Synonym("min.insync.replicas", "1"),),
        help="How many replicas must have a record before a producer with acks=all is answered.",
    ),
    ConfigKey(
        "preallocate",
        BOOLEAN,
        "false",
        synonyms=(Synonym("log.preallocate", "false"),),
        help="Whether the file of a new segment gets its full size at once.",
    ),
    ConfigKey(
        "remote.copy.lag.bytes",
        LONG,
        "-1",
        low=-1,
        synonyms=(Synonym("log.remote.copy.lag.bytes", "-1"),),
        help="Bytes that stay on the broker's disk before they go to tiered storage.",
    ),
    ConfigKey(
        "remote.copy.lag.ms",
        LONG,
        "0",
        low=-1,
        synonyms=(Synonym("log.remote.copy.lag.ms", "0"),),
        help="How long a segment stays before it goes to tiered storage, ms.",
    ),
    ConfigKey(
        "remote.log.copy.disable",
        BOOLEAN,
        "false",
        help="Whether nothing more is copied to tiered storage.",
    ),
    ConfigKey(
        "remote.log.delete.on.disable",
        BOOLEAN,
        "false",
        help="Whether what lies in tiered storage is deleted when that is disabled.",
    ),
    ConfigKey(
        "remote.storage.enable", BOOLEAN, "false", help="Whether segments go to tiered storage."
    ),
    ConfigKey(
        "retention.bytes",
        LONG,
        "-1",
        synonyms=(Synonym("log.retention.bytes", "-1"),),
        help="Bytes of a partition that are kept, by whole segments; -1 is no limit.",
    ),
    # The first synonym that is set wins, the smallest unit first.
    ConfigKey(
        "retention.ms",
        LONG,
        "604800000",
        low=-1,
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", None, _MINUTE_MS),
            Synonym("log.retention.hours", "168", _HOUR_MS),
        ),
        help="How long records are kept, ms; -1 is for ever.",
    ),
    # The least is 1 MiB since KIP-1030.
    ConfigKey(
        "segment.bytes",
        INT,
        "1073741824",
        low=1048576,
        synonyms=(Synonym("log.segment.bytes", "1073741824"),),
        help="The size at which a new segment is begun.",
    ),
    # KIP-1030 raises the least in Kafka 5.0.
    ConfigKey(
        "segment.index.bytes",
        INT,
        "10485760",
        low=4,
        synonyms=(Synonym("log.index.size.max.bytes", "10485760"),),
        help="The size of a segment's index files.",
    ),
    ConfigKey(
        "segment.jitter.ms",
        LONG,
        "0",
        low=0,
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", "0", _HOUR_MS)),
        help="By how much at most the time of a new segment is moved at random, ms.",
    ),
    # The least is still 1 ms: KIP-1030 raises it to a minute in Kafka 5.0.
    ConfigKey(
        "segment.ms",
        LONG,
        "604800000",
        low=1,
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", "168", _HOUR_MS)),
        help="The age at which a new segment is begun, ms.",
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        synonyms=(Synonym("unclean.leader.election.enable", "false"),),
        help="Whether a replica that may lack records can become leader when there is no other.",
    ),
)
#: Every key by its name, sorted by name.
TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({key.name: key for key in _KEYS})
