"""DeleteTopics: deletes topics by name or by id (``ControllerApis.deleteTopics``); one
record removes partitions and configuration, too.

A requester that may not describe a topic does not learn whether it exists, nor the name of an id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.controller.admin_api import AdminApi, Refusal, Resource, SlicedDecision
from gateway.controller.errors import ApiError
from gateway.controller.records import check_count
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.services import AUDIT_TOPIC, AUDIT_TOPIC_ID
from gateway.ports.streamed import Streamed, respond
from gateway.ports.view_topics import VIEW_NAMES, VIEW_TOPICS
from kwire.message import Message
from kwire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode
from kwire.uuid import METADATA_TOPIC_ID, ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kwire.messages.delete_topics_request import DeleteTopicsRequest

#: From this version on a request names topics in structs, by name or by id.
_BY_ID: Final = 6


class _Asked(NamedTuple):
    """One topic of the request: ``name`` is None, or ``topic_id`` the zero id, if not given."""

    name: str | None
    topic_id: Uuid


def delete_topics(
    request: DeleteTopicsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return the records, and a result for each topic of the request in its order. Raises ApiError
    for more records than one request may make.

    Kafka shuffles the results, so that their order does not reveal which topics are absent and
    which are forbidden; here a result depends on its own topic alone.
    """
    asked = _asked(request, context.version)
    deletion = _Deletion(context, Counter(asked))
    yield
    # Ids are looked up before names: if a name and an id stand for one topic, the name is refused
    # (ControllerApis.deleteTopics).
    results = {}
    # A dict and not a set, whose order Python's hash seed decides: equal requests make equal
    # records.
    for topic in sorted(dict.fromkeys(asked), key=lambda topic: topic.name is not None):
        results[topic] = deletion.result(topic)
        check_count(deletion.records)
        yield
    return ControllerResult(
        deletion.records,
        DeleteTopicsResponse(responses=[results[topic] for topic in dict.fromkeys(asked)]),
    )


def _asked(request: DeleteTopicsRequest, version: int) -> list[_Asked]:
    if version < _BY_ID:
        return [_Asked(name, ZERO_UUID) for name in request.topic_names]
    return [_Asked(topic.name, topic.topic_id) for topic in request.topics]


class _Deletion:
    """Decides on the topics of one request, one after the other."""

    def __init__(self, context: ControllerRequestContext, count: Counter[_Asked]) -> None:
        self._context = context
        self._count = count
        # DELETE on the cluster implies it on every topic, as in ``ControllerApis.deleteTopics``.
        self._may_all = context.may_on_cluster("DELETE")
        self._doomed: set[Uuid] = set()
        self.records: list[Message] = []

    def result(self, topic: _Asked) -> DeletableTopicResult:
        result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_message=None)
        try:
            self._check_request(topic)
            name, topic_id = (
                self._by_id(topic.topic_id, result)
                if topic.name is None
                else self._by_name(topic.name)
            )
            # After the permission: the response has name and id of a topic that the requester may
            # see.
            result.name, result.topic_id = name, topic_id
            self._delete(topic_id)
        except ApiError as refusal:
            result.error_code, result.error_message = refusal.error, refusal.message
        return result

    def _check_request(self, topic: _Asked) -> None:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        # They could name two topics.
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
            )
        # Neither mention counts, as in ``ControllerApis.deleteTopics``.
        if self._count[topic] > 1:
            what = "id" if topic.name is None else "name"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
        if topic.name == CLUSTER_METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Deletion of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
            )
        name = topic.name or self._context.image.topics.get(topic.topic_id)
        if name == AUDIT_TOPIC or topic.topic_id == AUDIT_TOPIC_ID:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Deletion of internal topic {AUDIT_TOPIC} is prohibited.",
            )
        view = topic.name if topic.name in VIEW_TOPICS else VIEW_NAMES.get(topic.topic_id)
        if view is not None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Deletion of internal topic {view} is prohibited."
            )

    def _by_id(self, topic_id: Uuid, result: DeletableTopicResult) -> tuple[str, Uuid]:
        name = self._context.image.topics.get(topic_id)
        if name is None:
            # Also to a requester without permissions: a random id tells nothing.
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        if not self._may("DELETE", name):
            # The name of an id is not revealed to a requester without DESCRIBE.
            result.name = name if self._may("DESCRIBE", name) else None
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        return name, topic_id

    def _by_name(self, name: str) -> tuple[str, Uuid]:
        # Before the lookup: the error of a requester without DESCRIBE must not depend on whether
        # the topic exists.
        if not self._may("DESCRIBE", name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        topic_id = self._context.image.topic_ids.get(name)
        if topic_id is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        # With DESCRIBE the requester knows that the topic exists, so the error may say what is
        # missing.
        if not self._may("DELETE", name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        return name, topic_id

    def _may(self, operation: str, name: str) -> bool:
        return self._may_all or self._context.may_on_topic(operation, name)

    def _delete(self, topic_id: Uuid) -> None:
        # The duplicates above are equal entries; this is one topic by its name and by its id.
        if topic_id in self._doomed:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "The provided topic name maps to an ID that was already supplied.",
            )
        context = self._context
        context.apply_partition_change_quota(len(context.image.partitions[topic_id]))
        self._doomed.add(topic_id)
        # By its id: a topic of the same name that is created in between is another one (KIP-516).
        self.records.append(RemoveTopicRecord(topic_id=topic_id))


def _refuse(request: DeleteTopicsRequest, refusal: Refusal) -> Message | Streamed:
    asked = _asked(request, refusal.version)
    responses = (
        DeletableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=refusal.error,
            error_message=refusal.message,
        )
        for topic in asked
    )
    return respond(DeleteTopicsResponse(), "responses", responses, len(asked))


def _resources(request: DeleteTopicsRequest) -> Iterator[Resource]:
    for topic in request.topics:
        if topic.topic_id == ZERO_UUID:
            yield "TOPIC", topic.name
        else:
            yield "TOPIC_ID", str(topic.topic_id)
    for name in request.topic_names:
        yield "TOPIC", name


API: Final = AdminApi(
    key=ApiKey.DELETE_TOPICS,
    operation="deleteTopics",
    decide=delete_topics,
    refuse=_refuse,
    resources=_resources,
)
