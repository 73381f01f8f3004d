"""DescribeConfigs (key 32): the configuration of the topic and of this node, which nobody can change over the wire.

The node's values are those it runs with; each says whether it was set or is the default, and what the key is for.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.config import KEYS, Key
from gateway.handlers.access import Operation, may, may_on_cluster
from gateway.handlers.errors import ErrorCode
from gateway.handlers.topic import TOPIC_NAME, is_valid_name
from gateway.handlers.topic_configs import TOPIC_CONFIGS, ConfigType
from kwire.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

API_KEY: Final = 32
VERSIONS: Final = range(1, 5)


class ResourceType(enum.IntEnum):
    """``ConfigResource.Type``, as far as there is anything of it here."""

    TOPIC = 2
    BROKER = 4


class Source(enum.IntEnum):
    """``DescribeConfigsResponse.ConfigSource``: where a value comes from."""

    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class _Entry:
    """One key with its value as text (None: not set), and its default."""

    name: str
    type: ConfigType
    value: str | None
    default: str | None
    help: str = ""


def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """The keys asked of each resource; null, or none named, means all.

    A resource named more than once is answered once: five bytes of request must not cost ten kilobytes of answer each.
    """
    resources = {(asked.resource_type, asked.resource_name): asked for asked in request.resources}
    return DescribeConfigsResponse(results=[_result(asked, request, context) for asked in resources.values()])


def _result(asked: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name, error_message="")
    fault, why = _fault(asked, context)
    if fault:
        result.error_code, result.error_message = fault, why
    else:
        result.configs = [
            _config(entry, request)
            for entry in _entries(asked, context)
            if not asked.configuration_keys or entry.name in asked.configuration_keys
        ]
    return result


def _fault(asked: DescribeConfigsResource, context: Context) -> tuple[ErrorCode, str]:
    if asked.resource_type == ResourceType.TOPIC:
        return _topic_fault(asked.resource_name, context)
    if asked.resource_type == ResourceType.BROKER:
        return _broker_fault(asked.resource_name, context)
    return ErrorCode.INVALID_REQUEST, f"There are no configurations of resource type {asked.resource_type} here."


def _topic_fault(name: str, context: Context) -> tuple[ErrorCode, str]:
    if not may(context, Operation.DESCRIBE_CONFIGS, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"DESCRIBE_CONFIGS on topic {name} is not allowed."
    if not is_valid_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, "That is no name for a topic."
    if name != TOPIC_NAME:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}; this server has {TOPIC_NAME}."
    return ErrorCode.NONE, ""


def _broker_fault(name: str, context: Context) -> tuple[ErrorCode, str]:
    if not may_on_cluster(context, Operation.DESCRIBE_CONFIGS):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "DESCRIBE_CONFIGS on the cluster is not allowed."
    node = str(context.gateway.node_id)
    if name not in ("", node):
        return ErrorCode.INVALID_REQUEST, f"This is broker {node}: it cannot speak for broker {name}."
    return ErrorCode.NONE, ""


def _entries(asked: DescribeConfigsResource, context: Context) -> Iterator[_Entry]:
    if asked.resource_type == ResourceType.TOPIC:
        for name, (kind, value) in TOPIC_CONFIGS.items():
            yield _Entry(name, kind, value, value)
    elif asked.resource_name:  # the empty name asks for defaults that were changed at run time: nobody can
        for key in KEYS.values():
            value = getattr(context.gateway.config, key.attribute)
            yield _Entry(key.name, _type(key), _text(value), _text(key.default), _documentation(key))


def _config(entry: _Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    is_set = entry.value != entry.default
    sources = [(entry.default, Source.DEFAULT_CONFIG)]
    if is_set:
        sources.insert(0, (entry.value, Source.STATIC_BROKER_CONFIG))
    synonyms = [DescribeConfigsSynonym(name=entry.name, value=value, source=source) for value, source in sources]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=True,
        config_source=sources[0][1],
        synonyms=synonyms if request.include_synonyms else [],
        config_type=entry.type,
        documentation=entry.help if request.include_documentation and entry.help else None,
    )


def _type(key: Key) -> ConfigType:
    match key.default:
        case bool():
            return ConfigType.BOOLEAN
        case int():
            return ConfigType.INT
        case tuple() | Mapping():
            return ConfigType.LIST
        case _:
            return ConfigType.STRING


def _text(value: Any) -> str | None:
    """The value in the form in which it stands in a properties file."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(str(one) for one in value)
        case Mapping():
            return ",".join(f"{name}:{one}" for name, one in value.items())
        case _:
            return str(value)


def _documentation(key: Key) -> str:
    return f"{key.help} ({key.unit})" if key.unit else key.help
