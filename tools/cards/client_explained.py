"""Explains the rules that a client does not keep, for ``tools.cards.clients``.

Each failure was repeated by hand with Kafka 4.3.1 behind a proxy that changes one answer in the
same way, so that the scripted cluster is not the only source.
"""

from __future__ import annotations

from typing import Final

_RDKAFKA_OFFSETS: Final = (
    "librdkafka sends no OffsetFetch again after NOT_COORDINATOR for a whole group"
    " ([librdkafka 5586](https://github.com/confluentinc/librdkafka/issues/5586))"
)
_RDKAFKA_TAGS: Final = (
    "librdkafka before 2.2 skips a byte too few of each unknown tagged field"
    " ([librdkafka 4278](https://github.com/confluentinc/librdkafka/pull/4278))"
)
_RDKAFKA_THROTTLE: Final = "librdkafka reports throttle times to the application and sends on"
_RDKAFKA_CRC: Final = "`check.crcs` is false by default"
_AIO_START: Final = (
    "`start()` raises if the only bootstrap node fails; the application starts again"
)
_AIO_OFFSETS: Final = (
    "the error of the group in an OffsetFetch answer is not looked at: the consumer goes to"
    " `auto_offset_reset` in place of its committed offset. Behind the proxy a group with offset 10"
    " committed read from offset 0"
)
_AIO_THROTTLE: Final = "throttle times are not obeyed"
_START: Final = (
    "ApiVersions", "ApiVersions-half", "Metadata", "Metadata-half", "SaslAuthenticate",
    "SaslAuthenticate-half", "SaslHandshake", "SaslHandshake-half", "at-connect",
)  # fmt: skip
_CODEC: Final = "the codec is a library of its own, which is not installed here"

_CONFLUENT: Final = {
    "client-group.coordinator-moves": f"{_RDKAFKA_OFFSETS}; behind the proxy Heartbeat went on and"
    " no Fetch followed",
    "client-group.not-coordinator-offsets": f"{_RDKAFKA_OFFSETS}; behind the proxy Heartbeat went"
    " on and no Fetch followed",
    "client-records.crc": f"{_RDKAFKA_CRC}. With true librdkafka takes bytes of the damaged batch"
    " for the next offset and resets: behind the proxy Fetch for offset 0 was followed by one for"
    " offset 3747030074347618581",
    "client-throttle.Fetch": _RDKAFKA_THROTTLE,
    "client-throttle.FindCoordinator": _RDKAFKA_THROTTLE,
    "client-throttle.ListOffsets": _RDKAFKA_THROTTLE,
    "client-throttle.Metadata": _RDKAFKA_THROTTLE,
}
_KAFKA_PYTHON: Final = {
    "client-fetch.unknown-error": "`poll()` raises UnrecognizedBrokerError",
    "client-metadata.dead-nodes": "by chance, in about one start of three, `poll()` raises"
    " KafkaConnectionError, as behind the proxy",
    "client-records.snappy": _CODEC,
    "client-records.zstd": _CODEC,
}
_AIOKAFKA: Final = {
    **{f"client-close.{name}": _AIO_START for name in _START},
    "client-group.coordinator-loading-offsets": _AIO_OFFSETS,
    "client-group.not-coordinator-offsets": _AIO_OFFSETS,
    "client-records.snappy": _CODEC,
    "client-records.zstd": _CODEC,
    "client-sasl.authenticates-again": "a connection is authenticated once; the client connects"
    " again after the broker closed it",
    "client-throttle.Fetch": _AIO_THROTTLE,
    "client-throttle.ListOffsets": _AIO_THROTTLE,
}
_KCAT: Final = {
    "client-answers.unknown-tags-in-header": _RDKAFKA_TAGS,
    "client-answers.unknown-tags-in-structs": _RDKAFKA_TAGS,
    "client-fetch.unknown-error": "kcat ends at every error of a consumer",
    "client-group.coordinator-moves": f"{_RDKAFKA_OFFSETS}, and kcat ends at every error of a"
    " consumer",
    "client-group.not-coordinator-offsets": f"{_RDKAFKA_OFFSETS}, and kcat ends at every error of"
    " a consumer",
    "client-metadata.unknown-topic": "kcat ends at every error of a consumer",
    "client-records.crc": _RDKAFKA_CRC,
    "client-throttle.Fetch": _RDKAFKA_THROTTLE,
    "client-throttle.FindCoordinator": _RDKAFKA_THROTTLE,
    "client-throttle.ListOffsets": _RDKAFKA_THROTTLE,
    "client-throttle.Metadata": _RDKAFKA_THROTTLE,
}

#: (client, rule) -> Markdown.
EXPLAINED: Final[dict[tuple[str, str], str]] = {
    (client, rule): why
    for client, rules in (
        ("confluent-kafka", _CONFLUENT),
        ("kafka-python", _KAFKA_PYTHON),
        ("aiokafka", _AIOKAFKA),
        ("kcat", _KCAT),
    )
    for rule, why in rules.items()
}
