"""CreateTopics: topics with their partitions and configuration (``ReplicationControlManager.createTopics``).

Each topic of a request fares on its own; the records of all that can be created are one operation.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gateway.controller.assignments import bad_assignment, by_hand_partition, check_by_hand, placed_partitions
from gateway.controller.case import Case, Verdict
from gateway.controller.config_keys import ConfigError, ConfigSource
from gateway.controller.config_records import clear_elr
from gateway.controller.errors import ApiError, Error
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.controller.state import State
from gateway.controller.topic_configs import check_topic_configs, effective_topic_configs
from gateway.controller.topic_names import RESERVED_TOPICS, name_fault
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.create_topics_response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

#: "The default", for counts.
UNSET: Final = -1
#: From here on the answer tells the topic's configuration (KIP-525).
_WITH_CONFIGS: Final = 5


def create_topics(request: CreateTopicsRequest, case: Case) -> Verdict:
    """The records, and a result for each name asked. Raises ApiError where the request as a whole is too large."""
    count = Counter(topic.name for topic in request.topics)
    asked = {topic.name: topic for topic in request.topics}
    may_all = case.may_on_cluster("CREATE")
    creatable = [topic for name, topic in asked.items() if count[name] == 1 and _is_allowed(name, may_all, case)]
    _check_size(creatable, case)
    records: list[Message] = []
    results = []
    for topic in asked.values():
        try:
            _check_request(topic.name, count[topic.name], may_all, case)
            made, result = _create(topic, case)
        except ApiError as refusal:
            result = CreatableTopicResult(name=topic.name, error_code=refusal.error, error_message=refusal.message)
        else:
            records += made
        results.append(result)
    return Verdict(records, CreateTopicsResponse(topics=results))


def _is_allowed(name: str, may_all: bool, case: Case) -> bool:
    return name not in RESERVED_TOPICS and (may_all or case.may_on_topic("CREATE", name))


def _check_request(name: str, times: int, may_all: bool, case: Case) -> None:
    if times > 1:
        raise ApiError(Error.INVALID_REQUEST, "Duplicate topic name.")
    if name in RESERVED_TOPICS:
        raise ApiError(Error.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if not _is_allowed(name, may_all, case):
        raise ApiError(Error.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _check_size(topics: list[CreatableTopic], case: Case) -> None:
    """Before anything is placed: what a request may ask for is bounded (KAFKA-17870)."""
    total = 0
    for topic in topics:
        wanted = case.settings.num_partitions if topic.num_partitions == UNSET else max(0, topic.num_partitions)
        total += len(topic.assignments) or wanted
    if total > OPERATION_RECORDS_MAX:
        raise ApiError(
            Error.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {total}, {OPERATION_RECORDS_MAX} are the most.",
        )


def _create(topic: CreatableTopic, case: Case) -> tuple[list[Message], CreatableTopicResult]:
    _check_name(topic.name, case.state)
    configs = _configs(topic)
    topic_id = case.new_id()
    partitions = _by_hand(topic, topic_id, case) if topic.assignments else _placed(topic, topic_id, case)
    set_configs: list[Message] = [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    # In Kafka's order, so that whoever reads along never meets a partition before its topic's configuration.
    records = [TopicRecord(name=topic.name, topic_id=topic_id), *set_configs, *clear_elr(set_configs, case.image), *partitions]
    return records, _result(topic.name, topic_id, configs, partitions, case)


def _check_name(name: str, state: State) -> None:
    fault = name_fault(name)
    if fault is not None:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION, fault)
    if name in state.image.topic_ids:
        raise ApiError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = state.colliding(name)
    if other is not None:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _configs(topic: CreatableTopic) -> dict[str, str]:
    """What is to be set, by name in their order. Of a key that is there twice the last counts, as in Kafka's map."""
    if not topic.configs:
        return {}
    unset = [config.name for config in topic.configs if config.value is None]
    if unset:
        raise ApiError(Error.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(unset)}")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
        check_topic_configs(configs)
    except ConfigError as error:
        raise ApiError(Error.INVALID_CONFIG, str(error)) from None
    return dict(sorted(configs.items()))


def _by_hand(topic: CreatableTopic, topic_id: Uuid, case: Case) -> list[PartitionRecord]:
    if topic.replication_factor != UNSET:
        raise ApiError(
            Error.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != UNSET:
        raise ApiError(Error.INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions was not set to -1.")
    nodes = case.nodes
    found: dict[int, PartitionRecord] = {}
    replicas_count: int | None = None
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, assignment.broker_ids
        if index in found:
            raise bad_assignment(f"Found multiple manual partition assignments for partition {index}")
        check_by_hand(replicas, replicas_count, nodes)
        replicas_count = len(replicas)
        found[index] = by_hand_partition(topic_id, index, replicas, case)
    if any(index not in found for index in range(len(found))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [found[index] for index in range(len(found))]


def _placed(topic: CreatableTopic, topic_id: Uuid, case: Case) -> list[PartitionRecord]:
    if topic.replication_factor < UNSET or topic.replication_factor == 0:
        raise ApiError(
            Error.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.num_partitions < UNSET or topic.num_partitions == 0:
        raise ApiError(Error.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    settings = case.settings
    count = settings.num_partitions if topic.num_partitions == UNSET else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == UNSET else topic.replication_factor
    try:
        return placed_partitions(topic_id, 0, count, factor, case)
    except ApiError as refusal:
        why = f"Unable to replicate the partition {factor} time(s): {refusal.message}"
        raise ApiError(refusal.error, why) from None


def _result(
    name: str, topic_id: Uuid, configs: dict[str, str], partitions: list[PartitionRecord], case: Case
) -> CreatableTopicResult:
    result = CreatableTopicResult(name=name, topic_id=topic_id, error_message=None)
    if not case.may_on_topic("DESCRIBE_CONFIGS", name):
        result.topic_config_error_code = Error.TOPIC_AUTHORIZATION_FAILED
        return result
    result.num_partitions = len(partitions)
    result.replication_factor = len(partitions[0].replicas)
    if case.version >= _WITH_CONFIGS:
        result.configs = _shown_configs(configs, case)
    return result


def _shown_configs(configs: dict[str, str], case: Case) -> list[CreatableTopicConfigs]:
    """Every key with its value, in the order of the names. What a topic leaves to the brokers is the same for all topics."""
    inherited: dict[str, CreatableTopicConfigs] | None = case.state.memo.get(__name__)
    if inherited is None:
        effective = effective_topic_configs(case.image, {}, case.settings.node_id)
        inherited = {
            one.key.name: CreatableTopicConfigs(name=one.key.name, value=one.value, config_source=one.source) for one in effective
        }
        case.state.memo[__name__] = inherited
    own = {
        name: CreatableTopicConfigs(name=name, value=value, config_source=ConfigSource.TOPIC_CONFIG)
        for name, value in configs.items()
    }
    return list({**inherited, **own}.values())
