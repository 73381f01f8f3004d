"""Rules of CreateTopics, DeleteTopics and CreatePartitions (KIP-4, KIP-195, KIP-464, KIP-516).

They hold for brokers, which forward the requests, and for controllers.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.fixtures import create_topic
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

_CREATE: Final = ApiKey.CREATE_TOPICS
_DELETE: Final = ApiKey.DELETE_TOPICS
_PARTITIONS: Final = ApiKey.CREATE_PARTITIONS
_MANAGER: Final = "ReplicationControlManager"
_NO_ID: Final = Uuid(bytes(range(16)))

FAMILY: Final = Family(
    "topics",
    "Topics are created and deleted",
    apis=(_CREATE, _DELETE),
    changes=Changes.OWN,
)


def _create(probe: Probe, *topics: CreatableTopic, version: int | None = None, **more: Any) -> Any:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, **more)
    return probe.call(request, version).topics


def _refused(probe: Probe, *codes: int, name: str | None = None, **fields: Any) -> None:
    """Try to create a topic, and expect one of these errors. Nothing is made."""
    wanted = {"num_partitions": 1, "replication_factor": 1, **fields}
    _supported(probe)
    name = probe.session.new_name() if name is None else name
    [found] = _create(probe, CreatableTopic(name=name, **wanted), validate_only=True)
    probe.expect_error(found.error_code, *codes)


def _supported(probe: Probe) -> None:
    """End the check as not applicable if the server creates no topics at all."""
    probe.session.shared("creates topics", lambda: _try(probe), probe.deadline)
    if not probe.session.shared("creates topics", lambda: False, probe.deadline):
        probe.not_applicable("the server creates no topics")


def _try(probe: Probe) -> bool:
    with probe.other_probe() as other:
        topic = CreatableTopic(
            name=other.session.new_name(), num_partitions=1, replication_factor=1
        )
        [found] = _create(other, topic, validate_only=True)
        return bool(found.error_code == ErrorCode.NONE)


@FAMILY.rule(
    "create",
    source="KIP-4",
    section="CreateTopics",
    since="0.10.1",
    roles=BROKER,
    apis=(_CREATE, _DELETE, ApiKey.METADATA),
)
def create(probe: Probe) -> None:
    """A topic that was created is in the Metadata with as many partitions as were asked for."""
    _supported(probe)
    name = create_topic(probe, partitions=3)
    topic = probe.until(lambda: _described(probe, name), f"topic {name} in Metadata")
    probe.expect(len(topic.partitions) == 3, f"it has {len(topic.partitions)} partitions")


def _described(probe: Probe, name: str) -> Any:
    wanted = [MetadataRequestTopic(name=name)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    [topic] = probe.call(request).topics
    return None if topic.error_code else topic


@FAMILY.rule("answer-describes", source="KIP-525", section="CreateTopics v5", since="2.4")
def answer_describes(probe: Probe) -> None:
    """From version 5 on the answer to CreateTopics has partitions, replication factor and configs
    of the new topic, from version 7 on its id.
    """
    version = probe.need(_CREATE, 5, 6, 7)
    _supported(probe)
    name = probe.session.new_name()
    probe.session.on_end(f"topic {name}", lambda: _remove(probe, name))
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    [found] = _create(probe, topic, version=version)
    probe.expect_error(found.error_code, ErrorCode.NONE)
    sizes = (found.num_partitions, found.replication_factor)
    probe.expect(sizes == (2, 1), f"2 partitions of 1 replica are answered as {sizes}")
    names = {config.name for config in found.configs or ()}
    probe.expect("cleanup.policy" in names, "the configs of the topic are missing")
    if version >= 7:
        probe.expect(found.topic_id != ZERO_UUID, "the topic has no id")


def _remove(probe: Probe, name: str) -> None:
    with probe.other_probe() as other:
        _delete(other, name)


def _delete(probe: Probe, name: str | None, topic_id: Uuid = ZERO_UUID) -> Any:
    version = probe.newest(_DELETE)
    if version >= 6:
        state = DeleteTopicState(name=name, topic_id=topic_id)
        request = DeleteTopicsRequest(topics=[state], timeout_ms=10_000)
    else:
        request = DeleteTopicsRequest(topic_names=[name or ""], timeout_ms=10_000)
    [found] = probe.call(request, version).responses
    return found


@FAMILY.rule(
    "validate-only",
    source="KIP-4",
    section="CreateTopics v1: validate_only",
    since="0.10.2",
    roles=BROKER,
    apis=(_CREATE, ApiKey.METADATA),
)
def validate_only(probe: Probe) -> None:
    """A request that only validates is answered as another one, and creates nothing."""
    _supported(probe)
    name = probe.session.new_name()
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    [found] = _create(probe, topic, validate_only=True)
    probe.expect_error(found.error_code, ErrorCode.NONE)
    probe.expect(_described(probe, name) is None, f"topic {name} was created")


@FAMILY.rule("exists", source=_MANAGER, section="createTopics: TOPIC_ALREADY_EXISTS")
def exists(probe: Probe) -> None:
    """A topic that exists is not created again: TOPIC_ALREADY_EXISTS."""
    _supported(probe)
    name = create_topic(probe)
    _refused(probe, ErrorCode.TOPIC_ALREADY_EXISTS, name=name)


@FAMILY.rule("name-invalid", source="Topic", section="validate")
def name_invalid(probe: Probe) -> None:
    """A topic name with a character that names do not have is refused: INVALID_TOPIC_EXCEPTION."""
    _refused(probe, ErrorCode.INVALID_TOPIC_EXCEPTION, name=f"{probe.session.prefix}a/b")


@FAMILY.rule("name-too-long", source="Topic", section="MAX_NAME_LENGTH")
def name_too_long(probe: Probe) -> None:
    """A topic name of 250 characters is refused: INVALID_TOPIC_EXCEPTION."""
    name = probe.session.prefix.ljust(250, "x")
    _refused(probe, ErrorCode.INVALID_TOPIC_EXCEPTION, name=name)


@FAMILY.rule("name-longest", source="Topic", section="MAX_NAME_LENGTH")
def name_longest(probe: Probe) -> None:
    """A topic name of 249 characters is accepted."""
    _refused(probe, ErrorCode.NONE, name=probe.session.prefix.ljust(249, "x"))


@FAMILY.rule("name-of-points", source="Topic", section="validate")
def name_of_points(probe: Probe) -> None:
    """The topic names . and .. are refused: INVALID_TOPIC_EXCEPTION."""
    _refused(probe, ErrorCode.INVALID_TOPIC_EXCEPTION, name=".")
    _refused(probe, ErrorCode.INVALID_TOPIC_EXCEPTION, name="..")


@FAMILY.rule("name-empty", source="Topic", section="validate")
def name_empty(probe: Probe) -> None:
    """An empty topic name is refused: INVALID_TOPIC_EXCEPTION."""
    _refused(probe, ErrorCode.INVALID_TOPIC_EXCEPTION, name="")


@FAMILY.rule("name-collides", source="Topic", section="hasCollision")
def name_collides(probe: Probe) -> None:
    """A name that differs from that of a topic in points and underscores only is refused:
    INVALID_TOPIC_EXCEPTION.
    """
    _supported(probe)
    name = f"{probe.session.new_name()}.a_b"
    probe.session.on_end(f"topic {name}", lambda: _remove(probe, name))
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    [found] = _create(probe, topic)
    probe.expect_error(found.error_code, ErrorCode.NONE)
    other = name.replace(".a_b", "_a.b")
    _refused(probe, ErrorCode.INVALID_TOPIC_EXCEPTION, name=other)


@FAMILY.rule("no-partitions", source=_MANAGER, section="createTopic: INVALID_PARTITIONS")
def no_partitions(probe: Probe) -> None:
    """A topic of 0 partitions is refused: INVALID_PARTITIONS."""
    _refused(probe, ErrorCode.INVALID_PARTITIONS, num_partitions=0)


@FAMILY.rule("default-partitions", source="KIP-464", section="CreateTopics v4", since="2.4")
def default_partitions(probe: Probe) -> None:
    """A topic of -1 partitions and -1 replicas gets the defaults of the cluster."""
    probe.need(_CREATE, 4, 5, 6, 7)
    _refused(probe, ErrorCode.NONE, num_partitions=-1, replication_factor=-1)


@FAMILY.rule("no-replicas", source=_MANAGER, section="createTopic: INVALID_REPLICATION_FACTOR")
def no_replicas(probe: Probe) -> None:
    """A replication factor of 0 is refused: INVALID_REPLICATION_FACTOR."""
    _refused(probe, ErrorCode.INVALID_REPLICATION_FACTOR, replication_factor=0)


@FAMILY.rule(
    "too-many-replicas", source=_MANAGER, section="createTopic: INVALID_REPLICATION_FACTOR"
)
def too_many_replicas(probe: Probe) -> None:
    """A replication factor above the number of brokers is refused: INVALID_REPLICATION_FACTOR."""
    _refused(probe, ErrorCode.INVALID_REPLICATION_FACTOR, replication_factor=1000)


@FAMILY.rule("assignment-and-number", source=_MANAGER, section="createTopic: INVALID_REQUEST")
def assignment_and_number(probe: Probe) -> None:
    """A number of partitions beside a replica assignment is refused: INVALID_REQUEST."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
    _refused(probe, ErrorCode.INVALID_REQUEST, assignments=[assignment], replication_factor=-1)


@FAMILY.rule(
    "assignment-with-gap", source=_MANAGER, section="createTopic: INVALID_REPLICA_ASSIGNMENT"
)
def assignment_with_gap(probe: Probe) -> None:
    """An assignment without partition 0, or to a broker that is not there, is refused:
    INVALID_REPLICA_ASSIGNMENT.
    """
    assignment = CreatableReplicaAssignment(partition_index=1, broker_ids=[2147483000])
    _refused(
        probe, ErrorCode.INVALID_REPLICA_ASSIGNMENT, assignments=[assignment],
        num_partitions=-1, replication_factor=-1,
    )  # fmt: skip


@FAMILY.rule("config-unknown", source="ConfigurationControlManager", section="INVALID_CONFIG")
def config_unknown(probe: Probe) -> None:
    """A config that topics do not have is refused: INVALID_CONFIG."""
    config = CreatableTopicConfig(name="no.such.config", value="1")
    _refused(probe, ErrorCode.INVALID_CONFIG, configs=[config])


@FAMILY.rule("config-invalid", source="ConfigurationControlManager", section="INVALID_CONFIG")
def config_invalid(probe: Probe) -> None:
    """A config with a value that it does not take is refused: INVALID_CONFIG."""
    config = CreatableTopicConfig(name="retention.ms", value="soon")
    _refused(probe, ErrorCode.INVALID_CONFIG, configs=[config])


@FAMILY.rule("twice", source="ControllerApis", section="createTopics: INVALID_REQUEST")
def twice(probe: Probe) -> None:
    """A topic that is twice in one request is not created: INVALID_REQUEST."""
    _supported(probe)
    topic = CreatableTopic(name=probe.session.new_name(), num_partitions=1, replication_factor=1)
    for found in _create(probe, topic, topic):
        probe.expect_error(found.error_code, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("errors-are-apart", source="KIP-4", section="CreateTopics")
def errors_are_apart(probe: Probe) -> None:
    """Of several topics in one request each has its own result."""
    _supported(probe)
    good, bad = (
        CreatableTopic(name=probe.session.new_name(), num_partitions=count, replication_factor=1)
        for count in (1, 0)
    )
    found = {one.name: one.error_code for one in _create(probe, good, bad, validate_only=True)}
    wanted = {good.name: ErrorCode.NONE, bad.name: ErrorCode.INVALID_PARTITIONS}
    probe.expect(found == wanted, f"a good and a bad topic have errors {list(found.values())}")


# --- DeleteTopics ---------------------------------------------------------------------------


@FAMILY.rule("delete", source="KIP-4", section="DeleteTopics", since="0.10.1")
def delete(probe: Probe) -> None:
    """A topic that was deleted can no longer be deleted: UNKNOWN_TOPIC_OR_PARTITION."""
    _supported(probe)
    name = create_topic(probe)
    probe.expect_error(_delete(probe, name).error_code, ErrorCode.NONE)
    probe.expect_error(_delete(probe, name).error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule("delete-unknown", source=_MANAGER, section="deleteTopics")
def delete_unknown(probe: Probe) -> None:
    """A topic name that no topic has has error UNKNOWN_TOPIC_OR_PARTITION."""
    _supported(probe)
    found = _delete(probe, NO_NAME)
    probe.expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@FAMILY.rule("delete-by-id", source="KIP-516", section="DeleteTopics v6", since="2.8")
def delete_by_id(probe: Probe) -> None:
    """From version 6 on a topic is deleted by its id."""
    probe.need(_DELETE, 6)
    version = probe.need(_CREATE, 7)
    _supported(probe)
    name = probe.session.new_name()
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    probe.session.on_end(f"topic {name}", lambda: _remove(probe, name))
    [made] = _create(probe, topic, version=version)
    found = _delete(probe, None, made.topic_id)
    probe.expect_error(found.error_code, ErrorCode.NONE)
    probe.expect(found.topic_id == made.topic_id, "the answer has another id")


@FAMILY.rule("delete-unknown-id", source="KIP-516", section="DeleteTopics v6", since="2.8")
def delete_unknown_id(probe: Probe) -> None:
    """A topic id that no topic has has error UNKNOWN_TOPIC_ID."""
    probe.need(_DELETE, 6)
    _supported(probe)
    found = _delete(probe, None, _NO_ID)
    probe.expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_ID)


# --- CreatePartitions -----------------------------------------------------------------------


def _grow(probe: Probe, name: str, count: int, **more: Any) -> int:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, **more)
    [found] = probe.call(request).results
    code: int = found.error_code
    return code


@FAMILY.rule(
    "more-partitions",
    source="KIP-195",
    section="CreatePartitions",
    since="1.0",
    roles=BROKER,
    apis=(_PARTITIONS, _CREATE, ApiKey.METADATA),
)
def more_partitions(probe: Probe) -> None:
    """A topic gets more partitions, and Metadata shows them."""
    _supported(probe)
    name = create_topic(probe, partitions=1)
    probe.expect_error(_grow(probe, name, 3), ErrorCode.NONE)
    probe.until(
        lambda: (found := _described(probe, name)) is not None and len(found.partitions) == 3,
        "three partitions in Metadata",
    )


@FAMILY.rule(
    "fewer-partitions",
    source="KIP-195",
    section="CreatePartitions",
    since="1.0",
    apis=(_PARTITIONS, _CREATE, _DELETE),
)
def fewer_partitions(probe: Probe) -> None:
    """A topic does not get fewer partitions than it has, or as many: INVALID_PARTITIONS."""
    _supported(probe)
    name = create_topic(probe, partitions=2)
    for count in (1, 2):
        code = _grow(probe, name, count)
        probe.expect_error(code, ErrorCode.INVALID_PARTITIONS, where=f"count {count}")


@FAMILY.rule(
    "partitions-of-unknown-topic",
    source="KIP-195",
    section="CreatePartitions",
    since="1.0",
    apis=(_PARTITIONS, _CREATE),
)
def partitions_of_unknown_topic(probe: Probe) -> None:
    """A topic that does not exist gets no partitions: UNKNOWN_TOPIC_OR_PARTITION."""
    _supported(probe)
    code = _grow(probe, NO_NAME, 3, validate_only=True)
    probe.expect_error(code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
