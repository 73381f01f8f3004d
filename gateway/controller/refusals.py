"""One error for all that a request asked, in the shape in which that API answers. Knows no state.

For what concerns the request as a whole: nobody leads, the time is over, more than one operation may hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.controller.partition_refusals import PARTITION_SHAPES
from kwire.message import Message
from kwire.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kwire.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kwire.messages.alter_client_quotas_response import EntityData as QuotaEntity
from kwire.messages.alter_client_quotas_response import EntryData as QuotaEntry
from kwire.messages.alter_configs_response import AlterConfigsResourceResponse as LegacyResourceResponse
from kwire.messages.alter_configs_response import AlterConfigsResponse
from kwire.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kwire.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kwire.messages.broker_registration_response import BrokerRegistrationResponse
from kwire.messages.controller_registration_response import ControllerRegistrationResponse
from kwire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kwire.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kwire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kwire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from kwire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kwire.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kwire.messages.incremental_alter_configs_response import AlterConfigsResourceResponse, IncrementalAlterConfigsResponse
from kwire.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kwire.messages.unregister_broker_response import UnregisterBrokerResponse
from kwire.messages.update_features_response import UpdateFeaturesResponse

#: DeleteTopics names topics in structs, by name or id, from here on.
DELETE_BY_ID: Final = 6
#: Whose a token is that was not made (``KafkaPrincipal.ANONYMOUS``).
_NOBODY: Final[Mapping[str, Any]] = {
    "principal_type": "User",
    "principal_name": "ANONYMOUS",
    "token_requester_principal_type": "User",
    "token_requester_principal_name": "ANONYMOUS",
}


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


def _create_acls(request: Any, version: int, error: int, message: str | None) -> Message:
    return CreateAclsResponse(results=[AclCreationResult(error_code=error, error_message=message) for _ in request.creations])


def _create_delegation_token(request: Any, version: int, error: int, message: str | None) -> Message:
    return CreateDelegationTokenResponse(
        error_code=error, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1, **_NOBODY
    )


def _renew_delegation_token(request: Any, version: int, error: int, message: str | None) -> Message:
    return RenewDelegationTokenResponse(error_code=error)


def _expire_delegation_token(request: Any, version: int, error: int, message: str | None) -> Message:
    return ExpireDelegationTokenResponse(error_code=error)


def _delete_acls(request: Any, version: int, error: int, message: str | None) -> Message:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=error, error_message=message) for _ in request.filters]
    )


def _alter_client_quotas(request: Any, version: int, error: int, message: str | None) -> Message:
    return AlterClientQuotasResponse(
        entries=[
            QuotaEntry(
                error_code=error,
                error_message=message,
                entity=[QuotaEntity(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity],
            )
            for entry in request.entries
        ]
    )


def _alter_user_scram_credentials(request: Any, version: int, error: int, message: str | None) -> Message:
    users = dict.fromkeys(change.name for change in [*request.deletions, *request.upsertions])  # one answer a user
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message) for user in users]
    )


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
    "AlterClientQuotasRequest": _alter_client_quotas,
    **PARTITION_SHAPES,
    "AlterConfigsRequest": _alter_configs,
    "AlterUserScramCredentialsRequest": _alter_user_scram_credentials,
    "ControllerRegistrationRequest": _controller_registration,
    "CreateAclsRequest": _create_acls,
    "CreateDelegationTokenRequest": _create_delegation_token,
    "ExpireDelegationTokenRequest": _expire_delegation_token,
    "RenewDelegationTokenRequest": _renew_delegation_token,
    "CreatePartitionsRequest": _create_partitions,
    "CreateTopicsRequest": _create_topics,
    "DeleteAclsRequest": _delete_acls,
    "DeleteTopicsRequest": _delete_topics,
    "IncrementalAlterConfigsRequest": _incremental_alter_configs,
}
