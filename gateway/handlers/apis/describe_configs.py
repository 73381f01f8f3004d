"""DescribeConfigs (key 32): returns the configuration of topics, this node, groups and client
metrics subscriptions.

No request can change the configuration of the metadata log or of this node. The other resources
exist only on a node of the embedded quorum. Each value has its source and documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.base.error_text import error_text
from gateway.controller.configs.client_metrics_keys import CLIENT_METRICS_KEYS
from gateway.controller.configs.config_def import ConfigSource
from gateway.controller.configs.group_keys import GROUP_KEYS
from gateway.handlers.access import Operation, may, may_on_cluster
from gateway.handlers.catalog import controller_image, topic_named
from gateway.handlers.config_entries import (
    Entry,
    of_all_brokers,
    of_audit_topic,
    of_metadata_log,
    of_node,
    of_others,
    of_topic,
    of_view_topic,
)
from gateway.handlers.group_requests import may_on_group
from gateway.handlers.topic import is_valid_name
from gateway.ports.services import AUDIT_TOPIC_ID
from gateway.ports.streamed import limited
from gateway.ports.view_topics import VIEW_TOPICS
from kwire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kwire.protocol import ApiKey, ConfigResourceType, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message
    from kwire.messages.describe_configs_request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

API_KEY: Final = ApiKey.DESCRIBE_CONFIGS
VERSIONS: Final = range(1, 5)

#: More resources than this are described in slices. One has 30 to 150 keys.
_WHOLE_MAX: Final = 8

#: Resources with dynamic configs only: their keys, and the source of a value that was set.
_KEPT: Final = {
    ConfigResourceType.CLIENT_METRICS: (CLIENT_METRICS_KEYS, ConfigSource.CLIENT_METRICS_CONFIG),
    ConfigResourceType.GROUP: (GROUP_KEYS, ConfigSource.GROUP_CONFIG),
}


def handle(request: DescribeConfigsRequest, context: Context) -> Message | Streamed:
    """Return the requested keys of each resource; null or an empty list requests all.

    A resource that is named more than once is described once. Beyond ``response.max.bytes`` a
    resource gets INVALID_REQUEST: every group name has a configuration, so ten bytes of a request
    can cause kilobytes of response.
    """
    resources = {(asked.resource_type, asked.resource_name): asked for asked in request.resources}
    response = limited(
        DescribeConfigsResponse(),
        "results",
        resources.values(),
        lambda asked: _result(asked, request, context),
        _refused,
        context.gateway.config.response_max_bytes,
    )
    return response.whole() if len(resources) <= _WHOLE_MAX else response


def _refused(asked: DescribeConfigsResource, fault: ErrorCode, why: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        error_code=fault,
        error_message=error_text(why),
    )


def _result(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResult:
    fault, why = _fault(asked, context)
    result = _refused(asked, fault, why)
    if not fault:
        # A set: a request may name as many keys as a broker has.
        keys = frozenset(asked.configuration_keys or ())
        result.configs = [
            _config(entry, request)
            for entry in _entries(asked, context)
            if not keys or entry.name in keys
        ]
    return result


def _fault(asked: DescribeConfigsResource, context: Context) -> tuple[ErrorCode, str]:
    name = asked.resource_name
    match asked.resource_type:
        case ConfigResourceType.TOPIC:
            return _topic_fault(name, context)
        case ConfigResourceType.BROKER:
            return _broker_fault(name, context)
        case ConfigResourceType.GROUP if controller_image(context) is not None:
            return _group_fault(name, context)
        case ConfigResourceType.CLIENT_METRICS if controller_image(context) is not None:
            return _subscription_fault(name, context)
        case other:
            return (
                ErrorCode.INVALID_REQUEST,
                f"There are no configurations of resource type {other} here.",
            )


def _topic_fault(name: str, context: Context) -> tuple[ErrorCode, str]:
    if not may(context, Operation.DESCRIBE_CONFIGS, name):
        return (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            f"DESCRIBE_CONFIGS on topic {name} is not allowed.",
        )
    if not is_valid_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "That is no name for a topic."
    if topic_named(name, context) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name} here."
    return ErrorCode.NONE, ""


def _broker_fault(name: str, context: Context) -> tuple[ErrorCode, str]:
    if not may_on_cluster(context, Operation.DESCRIBE_CONFIGS):
        return (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "DESCRIBE_CONFIGS on the cluster is not allowed.",
        )
    node = str(context.gateway.node_id)
    if name not in ("", node):
        return (
            ErrorCode.INVALID_REQUEST,
            f"This is broker {node}: it cannot speak for broker {name}.",
        )
    return ErrorCode.NONE, ""


def _group_fault(name: str, context: Context) -> tuple[ErrorCode, str]:
    if not may_on_group(context, Operation.DESCRIBE_CONFIGS, name):
        return (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            f"DESCRIBE_CONFIGS on group {name} is not allowed.",
        )
    return (
        (ErrorCode.NONE, "")
        if name
        else (ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    )


def _subscription_fault(name: str, context: Context) -> tuple[ErrorCode, str]:
    if not may_on_cluster(context, Operation.DESCRIBE_CONFIGS):
        return (
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "DESCRIBE_CONFIGS on the cluster is not allowed.",
        )
    return (
        (ErrorCode.NONE, "")
        if name
        else (ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    )


def _entries(asked: DescribeConfigsResource, context: Context) -> Iterator[Entry]:
    image, name = controller_image(context), asked.resource_name
    if asked.resource_type == ConfigResourceType.BROKER:
        return (
            of_node(context.gateway.config, image, context.gateway.node_id)
            if name
            else of_all_brokers(image)
        )
    topic = topic_named(name, context) if asked.resource_type == ConfigResourceType.TOPIC else None
    if topic is not None and topic.name in VIEW_TOPICS:
        return of_view_topic(topic.name)
    if topic is not None and topic.partitions is None:
        return of_metadata_log()
    if topic is not None and topic.topic_id == AUDIT_TOPIC_ID:
        return of_audit_topic(context.gateway.config)
    assert image is not None, "a resource of a controller was found without one"
    if topic is not None:
        return of_topic(name, image, context.gateway.node_id)
    keys, source = _KEPT[ConfigResourceType(asked.resource_type)]
    return of_others(
        keys, image.configs.get((asked.resource_type, name), {}), source, asked.resource_type
    )


def _config(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    hidden = entry.is_sensitive
    synonyms = [
        DescribeConfigsSynonym(name=name, value=None if hidden else value, source=source)
        for name, value, source in entry.origins
    ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=None if hidden else entry.value,
        read_only=entry.read_only,
        is_sensitive=hidden,
        config_source=entry.source,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=entry.type,
        documentation=entry.help if request.include_documentation and entry.help else None,
    )
