"""Explains the rules that a client does not keep, for ``tools.conformance_reports.clients``.

Each failure that a proxy can show was reproduced against Kafka 4.3.1, behind a proxy with the same
fault: so the scripted cluster does not cause it.
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
    "client-throttle.Produce": _AIO_THROTTLE,
}
_FRANZ_GO: Final = {
    "client-fetch.unknown-topic-id": "it fetches again, and asks for no metadata. Behind the proxy"
    " three answers with UNKNOWN_TOPIC_ID were followed by Fetch requests only",
    "client-metadata.leader-is-gone": "it asks for no other coordinator as long as the old one"
    " accepts connections and closes them. Behind the proxy it did not in 32 s",
    "client-versions.newer-server": "it sends SaslHandshake in the highest version that the broker"
    " offers. Behind the proxy, which offered version 21, it sent SaslHandshake 21",
}
_SARAMA: Final = {
    "client-answers.unknown-tags-in-header": "it takes tagged fields in the header of an answer for"
    " the body. Behind the proxy, which put one into the answer to Metadata, it ended with"
    " insufficient data to decode packet",
    "client-fetch.position-validated": "it does not use OffsetForLeaderEpoch (KIP-320)",
}
_JS_HALF: Final = (
    "the part of an answer that came before the connection closed is left in front of the answers"
    " of the next connection. Behind the proxy half an answer to ApiVersions was followed by"
    " another ApiVersions, whose answer had no match, and by nothing"
)
_JS_START: Final = (
    "`connect()`, `subscribe()` or `run()` rejects, behind the proxy as well; the application"
    " starts again"
)
_JS_FIND: Final = (
    "the consumer stops, and tells it by an event only. Behind the proxy it stopped with"
    " KafkaJSGroupCoordinatorNotFound"
)
_JS_EMPTY: Final = (
    "it asks for the same offset again and again"
    " ([kafkajs 1072](https://github.com/tulios/kafkajs/issues/1072))"
)
_KAFKAJS: Final = {
    "client-close.ApiVersions-half": _JS_HALF,
    "client-close.OffsetCommit-half": _JS_HALF,
    "client-close.SaslHandshake-half": _JS_HALF,
    "client-close.FindCoordinator": _JS_FIND,
    "client-close.FindCoordinator-half": _JS_FIND,
    "client-close.InitProducerId": _JS_START,
    "client-close.InitProducerId-half": _JS_START,
    "client-close.Metadata": _JS_START,
    "client-close.Metadata-half": _JS_START,
    "client-close.SaslAuthenticate": "`connect()` rejects; the application starts again",
    "client-close.SaslAuthenticate-half": "`connect()` rejects; the application starts again",
    "client-fetch.unknown-error": "the consumer stops, and tells it by an event only. Behind the"
    " proxy it stopped with Unknown error code 999",
    "client-group.coordinator-loading-find": _JS_FIND,
    "client-metadata.dead-nodes": "by chance, it goes on to connect to a node that refuses"
    " connections",
    "client-metadata.leader-is-gone": "at the new leader it sends one Fetch in about 6 s; the rule"
    " has 25 s",
    "client-metadata.unknown-error": _JS_START,
    "client-metadata.unknown-topic": _JS_START,
    "client-produce.duplicate-sequence": "`send()` rejects, behind the proxy as well",
    "client-records.crc": "CRCs are not checked. Behind the proxy, which changed a byte of the"
    " records, it took them",
    "client-records.empty-batch": _JS_EMPTY,
    "client-records.empty-batch-at-end": _JS_EMPTY,
    "client-records.lz4": _CODEC,
    "client-records.snappy": _CODEC,
    "client-records.zstd": _CODEC,
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
        ("franz-go", _FRANZ_GO),
        ("sarama", _SARAMA),
        ("kafkajs", _KAFKAJS),
        ("kcat", _KCAT),
    )
    for rule, why in rules.items()
}
