"""Checks the configuration of a resource: topic, broker, client metrics subscription, group.

Follows ``ControllerConfigurationValidator``, and for brokers the checks of the broker that forwards
the change (``DynamicBrokerConfig.validateConfigs``). It knows no request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.base.java.text import parse_integer
from gateway.base.slices import Slices, pieces
from gateway.controller.configs.broker_keys import BROKER_KEYS, LISTENER_KEYS, STATIC_BROKER_KEYS
from gateway.controller.configs.client_metrics_keys import CLIENT_METRICS_KEYS, INTERVAL_MS
from gateway.controller.configs.config_def import ConfigError, ConfigKey, Value
from gateway.controller.configs.group_keys import GROUP_KEYS
from gateway.controller.configs.topic_configs import check_topic_configs
from gateway.controller.configs.topic_keys import TOPIC_KEYS
from gateway.controller.errors import ApiError
from gateway.controller.request_context import ControllerRequestContext
from gateway.controller.topic_names import name_fault
from gateway.ports.services import AUDIT_TOPIC
from gateway.ports.view_topics import VIEW_TOPICS
from kwire.protocol import CLUSTER_METADATA_TOPIC, ConfigResourceType, ErrorCode


class Resource(NamedTuple):
    """A resource with a configuration. A broker without a name stands for all brokers."""

    type: int
    name: str


#: The keys of each type. A broker may have others, too: those of its plug-ins.
KEYS: Final[Mapping[int, Mapping[str, ConfigKey]]] = MappingProxyType({
    ConfigResourceType.TOPIC: TOPIC_KEYS,
    ConfigResourceType.BROKER: BROKER_KEYS,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
    ConfigResourceType.GROUP: GROUP_KEYS,
})  # fmt: skip
#: Keys of a broker that are looked at between two slices.
_KEYS_PER_SLICE: Final = 100
_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)


def check_allowed(resource: Resource, context: ControllerRequestContext) -> None:
    """Raise ApiError unless the requester may change the configuration of ``resource``."""
    # The permissions of ControllerApis.authorizeAlterResource.
    match resource.type:
        case ConfigResourceType.TOPIC:
            allowed, error = (
                context.may_on_topic("ALTER_CONFIGS", resource.name),
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
        case ConfigResourceType.GROUP:
            allowed, error = (
                context.allows("ALTER_CONFIGS", "GROUP", resource.name),
                ErrorCode.GROUP_AUTHORIZATION_FAILED,
            )
        case _:
            # Brokers, their loggers and metrics subscriptions belong to the cluster.
            allowed, error = (
                context.may_on_cluster("ALTER_CONFIGS"),
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            )
    if not allowed:
        raise ApiError(error, "Authorization failed.")


def check_configs(resource: Resource, configs: Mapping[str, str]) -> Slices[None]:
    """Raise ApiError unless the name of ``resource`` is valid and it may have ``configs``, all of
    them. In slices: a broker may have any number of keys.
    """
    yield
    match resource.type:
        case ConfigResourceType.TOPIC:
            _check_topic(resource.name, configs)
        case ConfigResourceType.BROKER:
            yield from _check_broker(resource.name, configs)
        case ConfigResourceType.CLIENT_METRICS:
            _check_client_metrics(resource.name, configs)
        case ConfigResourceType.GROUP:
            _check_group(resource.name, configs)
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}.")


def check_exists(resource: Resource, context: ControllerRequestContext) -> None:
    """Raise ApiError for a topic or broker that does not exist. Groups and subscriptions can be
    configured before they exist.
    """
    if resource.type == ConfigResourceType.TOPIC and resource.name not in context.image.topic_ids:
        if resource.name == AUDIT_TOPIC:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"The configuration of {AUDIT_TOPIC} is each node's own: metadata.audit.* in its "
                "file.",
            )
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
        )
    if resource.type == ConfigResourceType.BROKER and resource.name:
        image, node_id = context.image, parse_integer(resource.name, 32)
        # Controllers have dynamic configs as well, and register under ids of their own.
        if (
            node_id not in image.brokers
            and node_id not in image.controllers
            and node_id not in context.settings.serving_nodes
        ):
            raise ApiError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {node_id} found."
            )


def _check_topic(name: str, configs: Mapping[str, str]) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    fault = name_fault(name)
    # The name before its configuration: an invalid name cannot be the name of a topic that exists.
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name == CLUSTER_METADATA_TOPIC:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The configuration of {CLUSTER_METADATA_TOPIC} is fixed: it is the metadata log"
            " itself.",
        )
    if name in VIEW_TOPICS:
        why = f"The configuration of {name} is fixed: it is derived from the metadata log."
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    try:
        check_topic_configs(configs)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if name == AUDIT_TOPIC and "compact" in configs.get("cleanup.policy", ""):
        why = f"Entries of {AUDIT_TOPIC} have no keys: its cleanup.policy is delete."
        raise ApiError(ErrorCode.INVALID_CONFIG, why)


def _check_broker(name: str, configs: Mapping[str, str]) -> Slices[None]:
    if name:
        try:
            node_id = parse_integer(name, 32)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."
            ) from None
        if node_id < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    # In the order of DynamicBrokerConfig.validateConfigs. Keys in none of the tables are accepted:
    # they are those of plug-ins, which only the broker knows.
    _refuse_some(configs.keys() & STATIC_BROKER_KEYS, "Cannot update these configs dynamically")
    _refuse_some(
        configs.keys() & LISTENER_KEYS,
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
    )
    try:
        for some in pieces(configs.items(), _KEYS_PER_SLICE):
            for key, value in some:
                # The value of an unknown key cannot be checked: only its plug-in knows the type.
                if key in BROKER_KEYS:
                    BROKER_KEYS[key].parse(value)
            yield
    except ConfigError as error:
        # INVALID_REQUEST where a topic gets INVALID_CONFIG: in Kafka the broker checks before it
        # forwards.
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if not name:
        # Key stores, listeners and directories differ from broker to broker (PerBrokerConfigs).
        of_one: set[str] = set()
        for keys in pieces(configs, _KEYS_PER_SLICE):
            of_one |= {key for key in keys if _is_of_one_broker(key)}
            yield
        _refuse_some(
            of_one,
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _is_of_one_broker(key: str) -> bool:
    return _OF_LISTENER.fullmatch(key) is not None or (
        key in BROKER_KEYS and BROKER_KEYS[key].per_broker
    )


def _refuse_some(names: Iterable[str], why: str) -> None:
    if found := sorted(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(found)}]")


def _check_client_metrics(name: str, configs: Mapping[str, str]) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in configs:
        if key not in CLIENT_METRICS_KEYS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}"
            )
    # ClientMetricsConfigs checks the interval itself, and so has another error than ConfigDef.
    interval_ms = _parse_all(CLIENT_METRICS_KEYS, configs).get("interval.ms")
    if interval_ms is not None and interval_ms not in INTERVAL_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, it must be between {INTERVAL_MS[0]} and "
            f"{INTERVAL_MS[-1]} ms",
        )


def _check_group(name: str, configs: Mapping[str, str]) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    for key in configs:
        if key not in GROUP_KEYS:
            # INVALID_CONFIG here and INVALID_REQUEST above, as ``GroupConfig`` and
            # ``ClientMetricsConfigs`` have it.
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {key}")
    _parse_all(GROUP_KEYS, configs)


def _parse_all(keys: Mapping[str, ConfigKey], configs: Mapping[str, str]) -> dict[str, Value]:
    try:
        return {name: keys[name].parse(value) for name, value in configs.items()}
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
