"""Rules of Metadata: brokers, topics, partitions (KIP-227, KIP-430, KIP-516)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.fixtures import metadata, readable
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.conformance.rule import BROKER, Changes, Family, Level
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

_APIS: Final = (ApiKey.METADATA,)
_SCHEMA: Final = "MetadataResponse.json"
#: The value of authorized operations that were not asked for (KIP-430).
_NOT_ASKED: Final = -(1 << 31)
_NO_ID: Final = Uuid(bytes(range(16)))

FAMILY: Final = Family(
    "metadata",
    "Metadata",
    roles=BROKER,
    apis=_APIS,
    changes=Changes.OWN,
)


def _topics(probe: Probe, *names: str | None, version: int | None = None, **more: Any) -> Any:
    version = probe.newest(ApiKey.METADATA) if version is None else version
    wanted = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=version < 4, **more)
    return probe.call(request, version)


@FAMILY.rule("null-means-all", source="MetadataRequest.json", section="Topics", since="0.10")
def null_means_all(probe: Probe) -> None:
    """A null list of topics asks for all topics."""
    where = readable(probe)
    names = {topic.name for topic in metadata(probe, None).topics}
    probe.expect(where.topic in names, f"topic {where.topic} is missing among all topics")


@FAMILY.rule(
    "empty-means-none",
    source="MetadataRequest.json",
    section="Topics",
    since="0.10",
    changes=Changes.NOTHING,
)
def empty_means_none(probe: Probe) -> None:
    """From version 1 on an empty list of topics asks for no topic."""
    found = len(metadata(probe, []).topics)
    probe.expect(found == 0, f"{found} topics are described, none was asked for")


@FAMILY.rule("v0-empty-means-all", source="MetadataRequest.json", section="Topics")
def v0_empty_means_all(probe: Probe) -> None:
    """In version 0 an empty list of topics asks for all topics."""
    version = probe.need(ApiKey.METADATA, 0)
    where = readable(probe)
    names = {topic.name for topic in _topics(probe, version=version).topics}
    probe.expect(where.topic in names, f"topic {where.topic} is missing among all topics")


@FAMILY.rule(
    "unknown-topic",
    source="KafkaApis",
    section="getTopicMetadata",
    since="0.11",
    changes=Changes.NOTHING,
)
def unknown_topic(probe: Probe) -> None:
    """A topic that does not exist, and is not to be created, has error
    UNKNOWN_TOPIC_OR_PARTITION.
    """
    probe.need(ApiKey.METADATA, *range(4, 14))
    [topic] = metadata(probe, [NO_NAME]).topics
    probe.expect_error(
        topic.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, where=f"topic {NO_NAME}"
    )
    probe.expect(not topic.partitions, "a topic that does not exist has partitions")


@FAMILY.rule(
    "unknown-topic-stays-unknown",
    source="KIP-204",
    section="allow.auto.create.topics",
    since="0.11",
    changes=Changes.NOTHING,
)
def unknown_topic_stays_unknown(probe: Probe) -> None:
    """Asking for a topic with AllowAutoTopicCreation false does not create it."""
    probe.need(ApiKey.METADATA, *range(4, 14))
    for _ in range(3):
        [topic] = metadata(probe, [f"{NO_NAME}-2"]).topics
        probe.expect_error(topic.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule(
    "invalid-name",
    source="KafkaApis",
    section="getTopicMetadata: Topic.validate",
    since="0.11",
    changes=Changes.NOTHING,
)
def invalid_name(probe: Probe) -> None:
    """A topic name with a blank has error INVALID_TOPIC_EXCEPTION."""
    probe.need(ApiKey.METADATA, *range(4, 14))
    [topic] = metadata(probe, ["no topic"]).topics
    probe.expect_error(topic.error_code, ErrorCode.INVALID_TOPIC_EXCEPTION)


@FAMILY.rule("answers-what-was-asked", source=_SCHEMA, section="Topics")
def answers_what_was_asked(probe: Probe) -> None:
    """Every topic that was asked for is described once, and no other."""
    where = readable(probe)
    probe.need(ApiKey.METADATA, *range(4, 14))
    names = [topic.name for topic in metadata(probe, [where.topic, NO_NAME]).topics]
    probe.expect(sorted(names) == sorted([where.topic, NO_NAME]), f"the answer describes {names}")


@FAMILY.rule(
    "asked-twice",
    source="KafkaApis",
    section="handleTopicMetadataRequest: toSet",
    level=Level.SHOULD,
)
def asked_twice(probe: Probe) -> None:
    """A topic that is asked for twice is described once."""
    where = readable(probe)
    found = len(metadata(probe, [where.topic, where.topic]).topics)
    probe.expect(found == 1, f"a topic that was asked for twice is described {found} times")


@FAMILY.rule("topic-by-id", source="KIP-516", section="MetadataRequest v12", since="3.1")
def topic_by_id(probe: Probe) -> None:
    """From version 12 on a topic is found by its id alone; the answer has id and name."""
    version = probe.need(ApiKey.METADATA, 12, 13)
    where = readable(probe)
    wanted = [MetadataRequestTopic(name=None, topic_id=where.topic_id)]
    [topic] = probe.call(MetadataRequest(topics=wanted), version).topics
    probe.expect_error(topic.error_code, ErrorCode.NONE)
    probe.expect(topic.name == where.topic, f"id of {where.topic} has the name {topic.name}")
    probe.expect(topic.topic_id == where.topic_id, "the answer has another id")


@FAMILY.rule(
    "unknown-topic-id",
    source="KIP-516",
    section="UNKNOWN_TOPIC_ID",
    since="3.1",
    changes=Changes.NOTHING,
)
def unknown_topic_id(probe: Probe) -> None:
    """A topic id that no topic has has error UNKNOWN_TOPIC_ID, and no name."""
    version = probe.need(ApiKey.METADATA, 12, 13)
    wanted = [MetadataRequestTopic(name=None, topic_id=_NO_ID)]
    [topic] = probe.call(MetadataRequest(topics=wanted), version).topics
    probe.expect_error(topic.error_code, ErrorCode.UNKNOWN_TOPIC_ID)
    probe.expect(topic.name is None, f"an unknown id has the name {topic.name}")


@FAMILY.rule(
    "ids-are-set",
    source="KIP-516",
    section="MetadataResponse v10",
    since="2.8",
    changes=Changes.NOTHING,
)
def ids_are_set(probe: Probe) -> None:
    """Every topic has an id, and no two topics the same."""
    probe.need(ApiKey.METADATA, 10, 11, 12, 13)
    topics = [topic for topic in metadata(probe, None).topics if not topic.error_code]
    ids = [topic.topic_id for topic in topics]
    probe.expect(ZERO_UUID not in ids, "a topic has the id of zeros")
    probe.expect(len(set(ids)) == len(ids), "two topics have the same id")


@FAMILY.rule("same-topics-in-all-versions", source=_SCHEMA, section="Topics")
def same_topics_in_all_versions(probe: Probe) -> None:
    """A topic has the same partitions, leaders and replicas in every version."""
    where = readable(probe)
    seen = {}
    for version in probe.session.versions(ApiKey.METADATA):
        [topic] = _topics(probe, where.topic, version=version).topics
        probe.expect_error(topic.error_code, ErrorCode.NONE, where=f"v{version}")
        seen[version] = sorted(
            (one.partition_index, one.leader_id, tuple(one.replica_nodes))
            for one in topic.partitions
        )
    first = min(seen)
    for version, partitions in seen.items():
        probe.expect(
            partitions == seen[first], f"topic {where.topic} differs in v{first} and v{version}"
        )


@FAMILY.rule("brokers-are-nodes", source=_SCHEMA, section="Brokers", changes=Changes.NOTHING)
def brokers_are_nodes(probe: Probe) -> None:
    """There is a broker; each has an id of its own, a host and a port."""
    brokers = metadata(probe, []).brokers
    probe.expect(bool(brokers), "no broker is named")
    ids = [broker.node_id for broker in brokers]
    probe.expect(len(set(ids)) == len(ids), f"brokers have the ids {ids}")
    for broker in brokers:
        probe.expect(broker.node_id >= 0, f"a broker has the id {broker.node_id}")
        probe.expect(bool(broker.host), f"broker {broker.node_id} has no host")
        probe.expect(0 < broker.port < 65536, f"broker {broker.node_id} has port {broker.port}")


@FAMILY.rule(
    "controller-is-a-broker",
    source=_SCHEMA,
    section="ControllerId",
    since="0.10",
    changes=Changes.NOTHING,
)
def controller_is_a_broker(probe: Probe) -> None:
    """The id of the controller is that of a broker in the answer, to which clients can connect, or
    -1.
    """
    probe.need(ApiKey.METADATA, *range(1, 14))
    answer = metadata(probe, [])
    ids = [broker.node_id for broker in answer.brokers]
    probe.expect(
        answer.controller_id in (-1, *ids),
        f"the controller has id {answer.controller_id}, the brokers have {ids}",
    )


@FAMILY.rule(
    "cluster-id", source="KIP-78", section="Metadata v2", since="0.10.1", changes=Changes.NOTHING
)
def cluster_id(probe: Probe) -> None:
    """The cluster has an id, the same in every answer, and in DescribeCluster."""
    versions = [version for version in probe.session.versions(ApiKey.METADATA) if version >= 2]
    ids = {_topics(probe, version=version).cluster_id for version in versions}
    probe.expect(len(ids) == 1 and None not in ids and "" not in ids, f"cluster ids are {ids}")
    if ApiKey.DESCRIBE_CLUSTER in probe.session.offered:
        other = probe.call(DescribeClusterRequest()).cluster_id
        probe.expect(other in ids, f"DescribeCluster has cluster id {other}, Metadata {ids}")


@FAMILY.rule("partitions-are-whole", source=_SCHEMA, section="Partitions", changes=Changes.NOTHING)
def partitions_are_whole(probe: Probe) -> None:
    """Partition indexes of a topic are unique and not negative; a leader is a replica or -1, and
    the in-sync and offline replicas are replicas.
    """
    for topic in metadata(probe, None).topics:
        indexes = [one.partition_index for one in topic.partitions]
        probe.expect(
            len(set(indexes)) == len(indexes) and min(indexes, default=0) >= 0,
            f"topic {topic.name} has partitions {indexes}",
        )
        for one in topic.partitions:
            _check_replicas(probe, f"{topic.name}-{one.partition_index}", one)


def _check_replicas(probe: Probe, name: str, one: Any) -> None:
    replicas = list(one.replica_nodes)
    probe.expect(len(set(replicas)) == len(replicas), f"{name} has replicas {replicas}")
    probe.expect(
        one.leader_id in (-1, *replicas), f"{name} has leader {one.leader_id}, replicas {replicas}"
    )
    for what, nodes in (("in-sync", one.isr_nodes), ("offline", one.offline_replicas)):
        probe.expect(
            set(nodes) <= set(replicas), f"{name} has {what} replicas {nodes}, replicas {replicas}"
        )


@FAMILY.rule("leader-is-a-broker", source=_SCHEMA, section="LeaderId", changes=Changes.NOTHING)
def leader_is_a_broker(probe: Probe) -> None:
    """The leader of a partition without error is one of the brokers of the answer."""
    answer = metadata(probe, None)
    ids = {broker.node_id for broker in answer.brokers}
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code == ErrorCode.NONE:
                name = f"{topic.name}-{one.partition_index}"
                probe.expect(one.leader_id in ids, f"{name} is led by {one.leader_id}, no broker")


@FAMILY.rule(
    "leader-epoch", source="KIP-320", section="Metadata v7", since="2.1", changes=Changes.NOTHING
)
def leader_epoch(probe: Probe) -> None:
    """Every partition with a leader has a leader epoch of 0 or more."""
    probe.need(ApiKey.METADATA, *range(7, 14))
    for topic in metadata(probe, None).topics:
        for one in topic.partitions:
            name = f"{topic.name}-{one.partition_index}"
            probe.expect(
                one.leader_id < 0 or one.leader_epoch >= 0, f"{name} has epoch {one.leader_epoch}"
            )


@FAMILY.rule("operations-not-asked", source="KIP-430", section="MetadataResponse v8", since="2.3")
def operations_not_asked(probe: Probe) -> None:
    """Authorized operations that were not asked for are -2147483648."""
    version = probe.need(ApiKey.METADATA, *range(8, 14))
    where = readable(probe)
    answer = _topics(probe, where.topic, version=version)
    [topic] = answer.topics
    found = topic.topic_authorized_operations
    probe.expect(found == _NOT_ASKED, f"operations that were not asked for are {found}")


@FAMILY.rule("operations-asked", source="KIP-430", section="MetadataResponse v8", since="2.3")
def operations_asked(probe: Probe) -> None:
    """Authorized operations that were asked for are a set of operations: Describe is one, as the
    topic was described.
    """
    version = probe.need(ApiKey.METADATA, *range(8, 14))
    where = readable(probe)
    answer = _topics(probe, where.topic, version=version, include_topic_authorized_operations=True)
    [topic] = answer.topics
    found = topic.topic_authorized_operations
    probe.expect(found >= 0 and bool(found & 1 << 8), f"the authorized operations are {found:#x}")


@FAMILY.rule(
    "cluster-operations",
    source="KIP-430",
    section="MetadataResponse v8",
    since="2.3",
    changes=Changes.NOTHING,
)
def cluster_operations(probe: Probe) -> None:
    """In versions 8 to 10 the cluster's authorized operations are there if asked for, else
    -2147483648.
    """
    version = probe.need(ApiKey.METADATA, 8, 9, 10)
    without = _topics(probe, version=version).cluster_authorized_operations
    probe.expect(without == _NOT_ASKED, f"operations that were not asked for are {without}")
    asked = _topics(probe, version=version, include_cluster_authorized_operations=True)
    found = asked.cluster_authorized_operations
    probe.expect(found != _NOT_ASKED, "operations that were asked for are missing")


@FAMILY.rule(
    "throttle-time", source=_SCHEMA, section="ThrottleTimeMs", since="1.0", changes=Changes.NOTHING
)
def throttle_time(probe: Probe) -> None:
    """The throttle time is not negative."""
    probe.need(ApiKey.METADATA, *range(3, 14))
    found = metadata(probe, []).throttle_time_ms
    probe.expect(found >= 0, f"the throttle time is {found} ms")


@FAMILY.rule(
    "internal-topics",
    source="Topic",
    section="INTERNAL_TOPICS",
    since="0.10",
    changes=Changes.NOTHING,
)
def internal_topics(probe: Probe) -> None:
    """The topics __consumer_offsets and __transaction_state are internal, if they are there, and a
    topic of a client is not.
    """
    probe.need(ApiKey.METADATA, *range(1, 14))
    for topic in metadata(probe, None).topics:
        if topic.name in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
            probe.expect(topic.is_internal, f"{topic.name} is not internal")
        elif not topic.name.startswith("__"):
            probe.expect(not topic.is_internal, f"{topic.name} is internal")
