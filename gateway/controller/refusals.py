"""One error for all that a request asked, in the shape in which that API answers. Knows no state.

For what concerns the request as a whole: nobody leads, the time is over, more than one operation may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.controller.admin_refusals import ADMIN_SHAPES
from gateway.controller.partition_refusals import PARTITION_SHAPES
from kwire.message import Message
from kwire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kwire.messages.alter_configs_response import AlterConfigsResourceResponse as LegacyResourceResponse
from kwire.messages.alter_configs_response import AlterConfigsResponse
from kwire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kwire.messages.broker_registration_response import BrokerRegistrationResponse
from kwire.messages.controller_registration_response import ControllerRegistrationResponse
from kwire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kwire.messages.incremental_alter_configs_response import AlterConfigsResourceResponse, IncrementalAlterConfigsResponse
from kwire.messages.unregister_broker_response import UnregisterBrokerResponse
from kwire.messages.update_features_response import UpdateFeaturesResponse

#: DeleteTopics names topics in structs, by name or id, from here on.
DELETE_BY_ID: Final = 6


def refused(request: Message, version: int, error: int, message: str | None) -> Message:
    """The answer to ``request`` of ``version``, in which everything asked has this error code."""
    return _SHAPES[request.NAME](request, version, int(error), message)


def _create_topics(request: Any, version: int, error: int, message: str | None) -> Message:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=topic.name, error_code=error, error_message=message) for topic in request.topics]
    )


def _delete_topics(request: Any, version: int, error: int, message: str | None) -> Message:
    if version < DELETE_BY_ID:
        asked = [{"name": name} for name in request.topic_names]
    else:
        asked = [{"name": topic.name, "topic_id": topic.topic_id} for topic in request.topics]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(**topic, error_code=error, error_message=message) for topic in asked]
    )


def _create_partitions(request: Any, version: int, error: int, message: str | None) -> Message:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message) for topic in request.topics
        ]
    )


def _incremental_alter_configs(request: Any, version: int, error: int, message: str | None) -> Message:
    return IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(**resource, error_code=error, error_message=message) for resource in _of(request)]
    )


def _alter_configs(request: Any, version: int, error: int, message: str | None) -> Message:
    return AlterConfigsResponse(
        responses=[LegacyResourceResponse(**resource, error_code=error, error_message=message) for resource in _of(request)]
    )


def _of(request: Any) -> list[dict[str, Any]]:
    return [{"resource_type": one.resource_type, "resource_name": one.resource_name} for one in request.resources]


def _controller_registration(request: Any, version: int, error: int, message: str | None) -> Message:
    return ControllerRegistrationResponse(error_code=error, error_message=message)


def _broker_registration(request: Any, version: int, error: int, message: str | None) -> Message:
    return BrokerRegistrationResponse(error_code=error)


def _broker_heartbeat(request: Any, version: int, error: int, message: str | None) -> Message:
    return BrokerHeartbeatResponse(error_code=error)


def _unregister_broker(request: Any, version: int, error: int, message: str | None) -> Message:
    return UnregisterBrokerResponse(error_code=error, error_message=message)


def _update_features(request: Any, version: int, error: int, message: str | None) -> Message:
    # No results: clients of the versions that have some take the error of the whole.
    return UpdateFeaturesResponse(error_code=error, error_message=message)


def _allocate_producer_ids(request: Any, version: int, error: int, message: str | None) -> Message:
    return AllocateProducerIdsResponse(error_code=error)


_SHAPES: Final[Mapping[str, Callable[[Any, int, int, str | None], Message]]] = {
    "AllocateProducerIdsRequest": _allocate_producer_ids,
    "BrokerHeartbeatRequest": _broker_heartbeat,
    "BrokerRegistrationRequest": _broker_registration,
    "UnregisterBrokerRequest": _unregister_broker,
    "UpdateFeaturesRequest": _update_features,
    **ADMIN_SHAPES,
    **PARTITION_SHAPES,
    "AlterConfigsRequest": _alter_configs,
    "ControllerRegistrationRequest": _controller_registration,
    "CreatePartitionsRequest": _create_partitions,
    "CreateTopicsRequest": _create_topics,
    "DeleteTopicsRequest": _delete_topics,
    "IncrementalAlterConfigsRequest": _incremental_alter_configs,
}
