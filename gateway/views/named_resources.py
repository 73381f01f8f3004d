"""What a request for a change is about: types and names of resources, as ACLs call them, each once. Nothing of what is set.

Tokens are not named: who asks for a change of one names it by its HMAC, which is its password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kwire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from kwire.message import Message

#: (type, name); the name of the cluster, of what is everybody's, and of what a filter leaves open is None.
Resource = tuple[str, str | None]

#: ``ConfigResource.Type``: topics, nodes, their loggers, subscriptions to clients' metrics, groups.
_CONFIG_TYPES: Final = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
#: ``ResourceType`` of ACLs.
_ACL_TYPES: Final = {
    1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER",
}  # fmt: skip


def named_resources(request: Message) -> list[Resource]:
    """In the order of the request. Empty where it names none, or is of an API that changes nothing here."""
    found = _BY_API.get(request.NAME)
    return [] if found is None else list(dict.fromkeys(found(request)))


def _topics(request: Any) -> Iterator[Resource]:
    for topic in request.topics or ():
        yield "TOPIC", topic.name


def _deleted_topics(request: Any) -> Iterator[Resource]:
    for topic in request.topics:
        yield ("TOPIC", topic.name) if topic.topic_id == ZERO_UUID else ("TOPIC_ID", str(topic.topic_id))
    for name in request.topic_names:
        yield "TOPIC", name


def _configured(request: Any) -> Iterator[Resource]:
    for resource in request.resources:
        yield _CONFIG_TYPES.get(resource.resource_type, "UNKNOWN"), resource.resource_name or None


def _acls(request: Any) -> Iterator[Resource]:
    for acl in request.creations:
        yield _ACL_TYPES.get(acl.resource_type, "UNKNOWN"), acl.resource_name


def _acl_filters(request: Any) -> Iterator[Resource]:
    for one in request.filters:
        yield _ACL_TYPES.get(one.resource_type_filter, "UNKNOWN"), one.resource_name_filter


def _quota_entities(request: Any) -> Iterator[Resource]:
    for entry in request.entries:
        for entity in entry.entity:
            yield entity.entity_type.upper().replace("-", "_"), entity.entity_name


def _scram_users(request: Any) -> Iterator[Resource]:
    for one in (*request.deletions, *request.upsertions):
        yield "USER", one.name


def _token_owner(request: Any) -> Iterator[Resource]:
    if request.owner_principal_name:
        yield "USER", request.owner_principal_name


def _elected(request: Any) -> Iterator[Resource]:
    for topic in request.topic_partitions or ():
        yield "TOPIC", topic.topic


def _features(request: Any) -> Iterator[Resource]:
    for update in request.feature_updates:
        yield "FEATURE", update.feature


def _broker(request: Any) -> Iterator[Resource]:
    yield "BROKER", str(request.broker_id)


_BY_API: Final[dict[str, Callable[[Any], Iterable[Resource]]]] = {
    "AlterClientQuotasRequest": _quota_entities,
    "AlterConfigsRequest": _configured,
    "AlterPartitionReassignmentsRequest": _topics,
    "AlterUserScramCredentialsRequest": _scram_users,
    "CreateAclsRequest": _acls,
    "CreateDelegationTokenRequest": _token_owner,
    "CreatePartitionsRequest": _topics,
    "CreateTopicsRequest": _topics,
    "DeleteAclsRequest": _acl_filters,
    "DeleteTopicsRequest": _deleted_topics,
    "ElectLeadersRequest": _elected,
    "IncrementalAlterConfigsRequest": _configured,
    "UnregisterBrokerRequest": _broker,
    "UpdateFeaturesRequest": _features,
}
