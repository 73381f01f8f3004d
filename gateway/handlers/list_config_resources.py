"""ListConfigResources (key 74): the names of what has a configuration here, the topic and this node (KIP-1142).

Version 0 knew client metrics alone, of which there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.describe_configs import ResourceType
from gateway.handlers.errors import ErrorCode
from gateway.handlers.topic import TOPIC_NAME
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
    if context.version == 0:
        return ListConfigResourcesResponse()
    if not _TYPES.issuperset(request.resource_types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    here = ((ResourceType.TOPIC, TOPIC_NAME), (ResourceType.BROKER, str(context.gateway.node_id)))
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_type=kind, resource_name=name)
            for kind, name in here
            if not request.resource_types or kind in request.resource_types
        ]
    )
