"""Explains the rules that kfake does not keep."""

from __future__ import annotations

from typing import Final

from tools.conformance_reports.causes import BYTES, FRAMES, OLD_CLIENTS, Cause

KFAKE: Final = (
    Cause(
        "framing.api-key-*",
        "A request with an unknown API key ends the process: `kmsg.RequestForKey` returns nil"
        " (`client_conn.go`)",
        f"{BYTES} `0000000a 7d00 0000 00000001 ffff`; the connection closes, and the process ends"
        " with a nil pointer panic",
    ),
    Cause(
        "framing.size-* framing.http-request framing.answers-before-a-fault framing.others-live-on",
        "Sizes are not checked: a negative size or one of 2 GiB allocates memory for that many"
        " bytes and waits for them",
        f"{BYTES} `ffffffff`; the connection stays open, and the resident memory of the process"
        " grows from 23 to 745 MiB",
        "stayed open",
    ),
    Cause(
        "framing.answered-after-half-close",
        "A client that closes its side behind a request gets no answer if both come together",
        f"{BYTES} ApiVersions 2 and shutdown(SHUT_WR): 14 of 20 got no answer",
    ),
    Cause(
        "framing.tag-count-beyond-frame",
        "The number of tagged fields is not checked against the bytes that are there",
        f"{BYTES} an ApiVersions 3 request with 2,147,483,647 tagged fields; the process computes"
        " for more than 8 s and does not answer",
    ),
    Cause(
        "framing.header-short framing.client-id-beyond-frame schema.*.truncated",
        "What is missing in a header, or in a request without fields, counts as zero",
        f"{BYTES} `00000007 0012 0000 000000` is answered as ApiVersions 0, `0000000a 0012 0000"
        " 00000001 7fff` as well, `00000009 0010 0000 00000001 00` as ListGroups 0",
        "the server answered",
    ),
    Cause(
        "api-versions.too-new* api-versions.next-version api-versions.again-after-refusal",
        "ApiVersions above version 5 closes the connection: KIP-511 wants UNSUPPORTED_VERSION in"
        " version 0, and clients of a later release depend on it",
        f"{BYTES} ApiVersions 6 with the fields of version 3 and with those of version 5, and"
        " ApiVersions 32767; the connection closes",
    ),
    Cause(
        "api-versions.no-removed-versions",
        f"ListOffsets 0: {OLD_CLIENTS}",
        "`kafka-broker-api-versions` lists them",
    ),
    Cause(
        "api-versions.supported-features-from-one",
        "ApiVersions 3 names `eligible.leader.replicas.version` with 0 as its lowest level, which"
        " Kafka names from version 4 on only (KAFKA-17011)",
        "`kafka-topics --list` of Kafka 3.7.2 ends with: The AdminClient thread has exited",
    ),
    Cause(
        "topics.answer-describes",
        "The answer to CreateTopics has null configs for a topic that was created without any",
        "`kafka-topics --create --topic t` of Kafka 4.3.1 ends with a NullPointerException in"
        " KafkaAdminClient, and `t` is there",
    ),
    Cause(
        "topics.name-*",
        "Names of topics are not checked",
        f"{FRAMES} CreateTopics for `a/b`, `..`, the empty name and 250 letters has error 0",
    ),
    Cause(
        "topics.no-replicas",
        "A topic with 0 replicas is made",
        f"{FRAMES} CreateTopics with replication factor 0 has error 0",
    ),
    Cause(
        "topics.config-* configs.unknown-config configs.invalid-value",
        "Names and values of configs are not checked",
        "`kafka-configs --alter --add-config no.such=1` completes, and `--describe` shows it;"
        " `retention.ms=x`, which the tool refuses by itself, has error 0 in a frame of"
        " kafka-python's codec",
    ),
    Cause(
        "topics.fewer-partitions",
        "CreatePartitions with the number that the topic has is no error",
        f"{FRAMES} count 3 for a topic with 3 partitions has error 0, count 2 has"
        " INVALID_PARTITIONS",
    ),
    Cause(
        "configs.append-to-number",
        "Appending to a config that is no list has error INVALID_REQUEST",
        f"{FRAMES} IncrementalAlterConfigs APPEND for `retention.ms` has error 42",
    ),
    Cause(
        "configs.synonyms",
        "The config that was set is missing among its synonyms",
        "`kafka-configs --describe` shows `retention.ms=1000 synonyms={DEFAULT_CONFIG:...}`, Kafka"
        " `{DYNAMIC_TOPIC_CONFIG:..., DEFAULT_CONFIG:...}`",
    ),
    Cause(
        "configs.documentation",
        "No config has a documentation",
        f"{FRAMES} DescribeConfigs 4 with IncludeDocumentation has null",
    ),
    Cause(
        "acls.prefix-matches",
        "A filter of pattern type MATCH does not find prefixed ACLs",
        "`kafka-acls --add --topic pre --resource-pattern-type prefixed`, then `--list --topic"
        " prefix --resource-pattern-type match` shows nothing, `--list` shows the ACL",
    ),
    Cause(
        "acls.empty-name acls.cluster-name",
        "Names of resources in ACLs are not checked",
        f"{FRAMES} CreateAcls for a topic without a name and for a cluster `other` has error 0",
    ),
    Cause(
        "metadata.v0-empty-means-all",
        "Metadata 0 with an empty list names no topic",
        f"{FRAMES} Metadata 0 names none, Metadata 1 with null names all",
    ),
    Cause(
        "metadata.invalid-name",
        "The name of a topic that cannot be is unknown, not invalid",
        f"{FRAMES} Metadata 4 for `a b` has error 3",
    ),
    Cause(
        "fetch-epochs.diverging-epoch",
        "A Fetch behind the end of its last fetched epoch has OFFSET_OUT_OF_RANGE and no diverging"
        " epoch: the client resets where KIP-595 lets it truncate",
        f"{FRAMES} Fetch 12 at offset 107 of 3 with LastFetchedEpoch 0 has error 1",
    ),
    Cause(
        "groups.heartbeat-of-no-group",
        "Heartbeat for a group that is not there has GROUP_ID_NOT_FOUND, which a member does not"
        " expect, Kafka's UNKNOWN_MEMBER_ID makes it join again",
        f"{FRAMES} Heartbeat 3 has error 69",
    ),
    Cause(
        "offsets.nothing-committed",
        "OffsetFetch for a group that is not there has GROUP_ID_NOT_FOUND, where Kafka says that"
        " nothing is committed",
        f"{FRAMES} OffsetFetch 5, 7, 8 and 9 have error 69; `kafka-consumer-groups --describe"
        " --offsets` ends with GroupIdNotFoundException",
    ),
    Cause(
        "offsets.null-metadata",
        "Null metadata comes back as null, Kafka's as an empty string; the schema allows both",
        f"{FRAMES} OffsetCommit 7 with null, then OffsetFetch 5",
    ),
    Cause(
        "offsets.metadata-too-large",
        "Metadata of a commit has no limit",
        f"{FRAMES} OffsetCommit 7 with 30,000 bytes has error 0",
    ),
    Cause(
        "produce.count-wrong produce.last-offset-wrong produce.two-batches",
        "A batch that is refused for its form has CORRUPT_MESSAGE, which producers send again, in"
        " place of INVALID_RECORD, which they do not",
        f"{FRAMES} two batches in one request, and batches with the CRC of their bytes and a wrong"
        " number of records or last offset, have error 2",
    ),
    Cause(
        "produce.no-key-in-compacted-topic",
        "A compacted topic takes records without a key",
        f"{FRAMES} Produce 9 to a topic with `cleanup.policy=compact` has error 0",
    ),
    Cause(
        "produce.log-append-time",
        "`message.timestamp.type=LogAppendTime` is not obeyed",
        f"{FRAMES} Produce 9 to such a topic has append time -1",
    ),
    Cause(
        "sasl.no-sasl-here",
        "SaslHandshake on a listener without SASL has no error",
        f"{FRAMES} SaslHandshake 1 has error 0 and no mechanisms",
    ),
)
