"""CreateTopics: creates topics with their partitions and configuration
(``ReplicationControlManager.createTopics``).

Each topic of a request has its own result; the records of all topics that can be created are one
operation.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision, named_topics
from gateway.controller.assignments import (
    bad_assignment,
    by_hand_partition,
    check_by_hand,
    placed_partitions,
)
from gateway.controller.configs.config_def import ConfigError, ConfigSource
from gateway.controller.configs.config_records import clear_elr
from gateway.controller.configs.topic_configs import check_topic_configs, effective_topic_configs
from gateway.controller.errors import ApiError
from gateway.controller.records import OPERATION_RECORDS_MAX, check_count
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.controller.state import State
from gateway.controller.topic_names import RESERVED_TOPICS, name_fault
from gateway.ports.streamed import Streamed, respond
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

#: The count that asks for the broker's default (KIP-464).
UNSET: Final = -1
#: From this version on the response has the topic's configuration (KIP-525).
_WITH_CONFIGS: Final = 5


def create_topics(
    request: CreateTopicsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the records of all topics that can be created, and a result for each name.

    Raises ApiError if the request as a whole is too large.
    """
    # All names first, because the first of two equal ones is refused, too.
    count = Counter(topic.name for topic in request.topics)
    asked = {topic.name: topic for topic in request.topics}
    yield
    # CREATE on the cluster implies CREATE on every topic (ControllerApis.createTopics).
    may_all = context.may_on_cluster("CREATE")
    creatable = []
    for name, topic in asked.items():
        if count[name] == 1 and _is_allowed(name, may_all, context):
            creatable.append(topic)
        yield
    # Only topics that may be created count: a forbidden one must not fail the others.
    _check_size(creatable, context)
    yield
    records: list[Message] = []
    results = []
    for topic in asked.values():
        try:
            _check_request(topic.name, count[topic.name], may_all, context)
            made, result = yield from create_topic(topic, context)
        except ApiError as refusal:
            result = CreatableTopicResult(
                name=topic.name, error_code=refusal.error, error_message=refusal.message
            )
        else:
            records += made
            # Configurations too, which ``_check_size`` does not count.
            check_count(records)
        results.append(result)
        yield
    return ControllerResult(records, CreateTopicsResponse(topics=results))


def _is_allowed(name: str, may_all: bool, context: ControllerRequestContext) -> bool:
    return name not in RESERVED_TOPICS and (may_all or context.may_on_topic("CREATE", name))


def _check_request(name: str, times: int, may_all: bool, context: ControllerRequestContext) -> None:
    # None of them is created: their settings may differ.
    if times > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    # Before the permission is asked, as in ``ControllerApis.createTopics``.
    if name in RESERVED_TOPICS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    if not _is_allowed(name, may_all, context):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _check_size(topics: list[CreatableTopic], context: ControllerRequestContext) -> None:
    """Raise ApiError for too many partitions, before any is placed (KAFKA-17870)."""
    total = 0
    for topic in topics:
        # A negative number fails its own topic only (``_placed``).
        wanted = (
            context.settings.num_partitions
            if topic.num_partitions == UNSET
            else max(0, topic.num_partitions)
        )
        total += len(topic.assignments) or wanted
    if total > OPERATION_RECORDS_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {total}, "
            f"{OPERATION_RECORDS_MAX} are the most.",
        )


def create_topic(
    topic: CreatableTopic, context: ControllerRequestContext
) -> Slices[tuple[list[Message], CreatableTopicResult]]:
    """Return the records and the result of one topic, in slices. Raises ApiError."""
    _check_name(topic.name, context.state)
    configs = _configs(topic)
    # Also where the request only validates: the records are made and dropped.
    topic_id = context.new_id()
    # Assignments replace both counts, which must be unset then (ReplicationControlManager).
    partitions = yield from (
        _by_hand(topic, topic_id, context)
        if topic.assignments
        else _placed(topic, topic_id, context)
    )
    context.apply_partition_change_quota(len(partitions))
    set_configs: list[Message] = [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    # In Kafka's order, so that a consumer of the log never reads a partition before its topic's
    # configuration.
    records = [
        TopicRecord(name=topic.name, topic_id=topic_id),
        *set_configs,
        *clear_elr(set_configs, context.image),
        *partitions,
    ]
    return records, _result(topic.name, topic_id, configs, partitions, context)


def _check_name(name: str, state: State) -> None:
    fault = name_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    # The proposals count: two requests in a row cannot create one topic twice.
    if name in state.image.topic_ids:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = state.colliding(name)
    # Kafka refuses it although both topics would work: their metrics would have one name.
    if other is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _configs(topic: CreatableTopic) -> dict[str, str]:
    """Return the keys to set, in the order of their names. The last value of a repeated key counts,
    as in Kafka's map.
    """
    if not topic.configs:
        return {}
    unset = [config.name for config in topic.configs if config.value is None]
    # A null value would unset a key that a new topic does not have.
    if unset:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(unset)}",
        )
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
        check_topic_configs(configs)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return dict(sorted(configs.items()))


def _by_hand(
    topic: CreatableTopic, topic_id: Uuid, context: ControllerRequestContext
) -> Slices[list[PartitionRecord]]:
    # -1 has to be sent, because an assignment with counts could contradict them.
    if topic.replication_factor != UNSET:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to "
            "-1.",
        )
    if topic.num_partitions != UNSET:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    nodes = context.nodes
    found: dict[int, PartitionRecord] = {}
    # Every partition must have as many replicas as the first one: a topic has one replication
    # factor when it is created.
    replicas_count: int | None = None
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, assignment.broker_ids
        if index in found:
            raise bad_assignment(
                f"Found multiple manual partition assignments for partition {index}"
            )
        check_by_hand(replicas, replicas_count, nodes)
        replicas_count = len(replicas)
        found[index] = by_hand_partition(topic_id, index, replicas, context)
        yield
    # Partitions are numbered without gaps: clients count them up to the number in Metadata.
    if any(index not in found for index in range(len(found))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [found[index] for index in range(len(found))]


def _placed(
    topic: CreatableTopic, topic_id: Uuid, context: ControllerRequestContext
) -> Slices[list[PartitionRecord]]:
    if topic.replication_factor < UNSET or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < UNSET or topic.num_partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    settings = context.settings
    count = settings.num_partitions if topic.num_partitions == UNSET else topic.num_partitions
    factor = (
        settings.default_replication_factor
        if topic.replication_factor == UNSET
        else topic.replication_factor
    )
    try:
        placed = yield from placed_partitions(topic_id, 0, count, factor, context)
    except ApiError as refusal:
        # ReplicationControlManager.createTopic puts these words before the placer's reason.
        why = f"Unable to replicate the partition {factor} time(s): {refusal.message}"
        # The error code stays: INVALID_REPLICATION_FACTOR.
        raise ApiError(refusal.error, why) from None
    return placed


def _result(
    name: str,
    topic_id: Uuid,
    configs: dict[str, str],
    partitions: list[PartitionRecord],
    context: ControllerRequestContext,
) -> CreatableTopicResult:
    result = CreatableTopicResult(name=name, topic_id=topic_id, error_message=None)
    if not context.may_on_topic("DESCRIBE_CONFIGS", name):
        # The topic is created all the same: only its counts and configuration are withheld
        # (KIP-525).
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    # Those that were made and not those that were asked for: -1 is no answer.
    result.num_partitions = len(partitions)
    result.replication_factor = len(partitions[0].replicas)
    # The counts are in every version's struct; the encoder leaves out what a version does not have.
    if context.version >= _WITH_CONFIGS:
        result.configs = _shown_configs(configs, context)
    return result


def _shown_configs(
    configs: dict[str, str], context: ControllerRequestContext
) -> list[CreatableTopicConfigs]:
    """Return every key with its effective value, in the order of the names.

    The values that a topic does not set are the same for all topics, so they are kept.
    """
    inherited: dict[str, CreatableTopicConfigs] | None = context.state.memo.get(__name__)
    if inherited is None:
        effective = effective_topic_configs(context.image, {}, context.settings.node_id)
        inherited = {
            one.key.name: CreatableTopicConfigs(
                name=one.key.name, value=one.value, config_source=one.source
            )
            for one in effective
        }
        context.state.memo[__name__] = inherited
    own = {
        name: CreatableTopicConfigs(name=name, value=value, config_source=ConfigSource.TOPIC_CONFIG)
        for name, value in configs.items()
    }
    return list({**inherited, **own}.values())


def _refuse(request: CreateTopicsRequest, refusal: Refusal) -> Message | Streamed:
    topics = (
        CreatableTopicResult(
            name=topic.name, error_code=refusal.error, error_message=refusal.message
        )
        for topic in request.topics
    )
    return respond(CreateTopicsResponse(), "topics", topics, len(request.topics))


API: Final = AdminApi(
    key=ApiKey.CREATE_TOPICS,
    operation="createTopics",
    decide=create_topics,
    refuse=_refuse,
    resources=named_topics,
)
