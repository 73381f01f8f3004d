"""ListConfigResources (key 74): returns the names of resources with a configuration (KIP-1142).

These are topics, nodes, and the groups and client metrics subscriptions that were configured.
Version 0 (ListClientMetricsResources) returns subscriptions only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import controller_image, names_in_order
from gateway.handlers.nodes import reachable_nodes
from gateway.ports.streamed import WHOLE_MAX, respond
from kwire.messages.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)
from kwire.protocol import ApiKey, ConfigResourceType, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message
    from kwire.messages.list_config_resources_request import ListConfigResourcesRequest

API_KEY: Final = ApiKey.LIST_CONFIG_RESOURCES
VERSIONS: Final = range(2)

#: The types that version 1 may ask for: topics, brokers, their loggers, client metrics, groups.
_TYPES: Final = frozenset(ConfigResourceType) - {ConfigResourceType.UNKNOWN}


def handle(request: ListConfigResourcesRequest, context: Context) -> Message | Streamed:
    """Return names by type; an empty list requests every type. UNSUPPORTED_VERSION for a type that
    Kafka does not define.
    """
    if not may_on_cluster(context, Operation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    types = (
        {ConfigResourceType.CLIENT_METRICS} if context.version == 0 else set(request.resource_types)
    )
    if not _TYPES.issuperset(types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = controller_image(context)
    size = 0 if image is None else len(image.topics) + len(image.configs)
    elements = (
        ConfigResource(resource_type=one[0], resource_name=one[1])
        if one is not None and (not types or one[0] in types)
        else None
        for one in _resources(context)
    )
    return respond(ListConfigResourcesResponse(), "config_resources", elements, size)


def _resources(context: Context) -> Iterator[tuple[int, str] | None]:
    image = controller_image(context)
    configured = [] if image is None else list(image.configs)
    for name in names_in_order("", context):
        yield None if name is None else (ConfigResourceType.TOPIC, name)
    for node_id in reachable_nodes(context):
        yield ConfigResourceType.BROKER, str(node_id)
    if len(configured) <= WHOLE_MAX:
        configured.sort()
    for kind, name in configured:
        yield (
            (kind, name)
            if kind in (ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP)
            else None
        )
