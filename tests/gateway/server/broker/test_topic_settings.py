"""The settings of a topic: its own configuration, that of the brokers, and Kafka's defaults."""

from __future__ import annotations

import pytest

from gateway.broker.produce.validation import TopicRules
from gateway.server.broker.topic_settings import TopicSettings, topic_settings
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE, Image
from kwire.records import Compression, TimestampType


def of(topic: dict[str, str], brokers: dict[str, str] | None = None) -> TopicSettings:
    image = Image()
    image.configs[TOPIC_RESOURCE, "t"] = topic
    image.configs[BROKER_RESOURCE, ""] = brokers or {}
    return topic_settings(image, "t", 1, fsync=True)


def test_defaults_are_those_of_kafka() -> None:
    log, rules = of({})
    assert rules == TopicRules()
    assert (log.segment_bytes, log.segment_ms) == (1 << 30, 604_800_000)
    assert (log.retention_bytes, log.retention_ms, log.fsync) == (-1, 604_800_000, True)
    assert log.file_delete_delay_ms == 60_000


def test_configuration_of_the_topic_counts_before_that_of_the_brokers() -> None:
    brokers = {"message.max.bytes": "100", "log.retention.hours": "2"}
    log, rules = of({"max.message.bytes": "50"}, brokers)
    assert rules.max_message_bytes == 50 and log.retention_ms == 7_200_000
    assert of({}, brokers).rules.max_message_bytes == 100
    delayed = {"log.segment.delete.delay.ms": "7"}
    assert of({}, delayed).log.file_delete_delay_ms == 7
    assert of({"file.delete.delay.ms": "8"}, delayed).log.file_delete_delay_ms == 8


def test_timestamps_and_replicas_are_as_configured() -> None:
    rules = of(
        {
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "7",
            "message.timestamp.after.max.ms": "8",
            "min.insync.replicas": "2",
        }
    ).rules
    assert rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (rules.timestamp_before_max_ms, rules.timestamp_after_max_ms) == (7, 8)
    assert rules.min_insync_replicas == 2


@pytest.mark.parametrize(
    ("policy", "compacted", "keeps_for_ever"),
    [("delete", False, False), ("compact", True, True), ("compact,delete", True, False)],
)
def test_topic_that_is_only_compacted_has_no_retention(
    policy: str, compacted: bool, keeps_for_ever: bool
) -> None:
    log, rules = of({"cleanup.policy": policy, "retention.bytes": "5"})
    assert rules.compacted is compacted
    assert (log.retention_ms == -1, log.retention_bytes == -1) == (keeps_for_ever, keeps_for_ever)


@pytest.mark.parametrize(
    ("configs", "compression", "level"),
    [
        ({"compression.type": "producer"}, None, None),
        ({"compression.type": "uncompressed"}, Compression.NONE, None),
        ({"compression.type": "snappy"}, Compression.SNAPPY, None),
        ({"compression.type": "gzip"}, Compression.GZIP, None),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Compression.GZIP, 9),
        ({"compression.type": "zstd"}, Compression.ZSTD, 3),
        ({"compression.type": "lz4", "compression.lz4.level": "12"}, Compression.LZ4, 12),
    ],
)
def test_compression_of_the_topic_has_its_level(
    configs: dict[str, str], compression: Compression | None, level: int | None
) -> None:
    rules = of(configs).rules
    assert (rules.compression, rules.compression_level) == (compression, level)
