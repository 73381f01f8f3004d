"""ListConfigResources (key 74): the names of what has a configuration here: topics, nodes, what was configured (KIP-1142).

Version 0 knew client metrics alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.controller.resource_configs import ResourceType
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import made_here, topic_names
from gateway.handlers.errors import ErrorCode
from gateway.handlers.nodes import reachable_nodes
from kwire.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.list_config_resources_request import ListConfigResourcesRequest

API_KEY: Final = 74
VERSIONS: Final = range(2)

#: The types that version 1 may ask for: topics, brokers, their loggers, client metrics, groups.
_TYPES: Final = frozenset({2, 4, 8, 16, 32})


def handle(request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    """Names by type; no type asked means every type. UNSUPPORTED_VERSION for a type that Kafka has not."""
    if not may_on_cluster(context, Operation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    types = {ResourceType.CLIENT_METRICS} if context.version == 0 else set(request.resource_types)
    if not _TYPES.issuperset(types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_type=kind, resource_name=name)
            for kind, name in _resources(context)
            if not types or kind in types
        ]
    )


def _resources(context: Context) -> Iterator[tuple[int, str]]:
    for name in topic_names(context):
        yield ResourceType.TOPIC, name
    for node_id in reachable_nodes(context):
        yield ResourceType.BROKER, str(node_id)
    image = made_here(context)
    for kind, name in sorted(image.configs) if image is not None else ():
        if kind in (ResourceType.CLIENT_METRICS, ResourceType.GROUP):
            yield kind, name
