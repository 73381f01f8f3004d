"""Finds the fault of a request of a member of a consumer group, and its message, before it changes
anything (``throwIfConsumerGroupHeartbeatRequestIsInvalid`` and ``throwIf...`` of
``GroupMetadataManager``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from gateway.base.java.text import trim
from gateway.groups.consumer.events import ConsumerHeartbeat
from gateway.groups.consumer.member import JOINING, LEAVING, LEAVING_FOR_A_WHILE, Member
from gateway.groups.consumer.reconciliation import Reported
from kwire.protocol import ErrorCode


class Fault(NamedTuple):
    error: ErrorCode
    message: str


class RefusedError(Exception):
    """The member's request is answered with ``fault``, and changes nothing."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(error, message)


def request_fault(event: ConsumerHeartbeat, assignors: Sequence[str]) -> Fault | None:
    """The fault of the request itself, whatever its group. ``assignors``: those it may name."""
    message = _invalid(event)
    if message is not None:
        return Fault(ErrorCode.INVALID_REQUEST, message)
    if event.assignor is not None and event.assignor not in assignors:
        return Fault(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {event.assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )
    return None


def _invalid(event: ConsumerHeartbeat) -> str | None:
    epoch = event.member_epoch
    needs_member_id = event.member_id_required or epoch > JOINING or epoch == LEAVING
    if needs_member_id and not trim(event.member_id):
        return "MemberId can't be empty."
    for name, text in (
        ("GroupId", event.group_id),
        ("InstanceId", event.instance_id),
        ("RackId", event.rack_id),
    ):
        if text is not None and not trim(text):
            return f"{name} can't be empty."
    if epoch == JOINING:
        return _invalid_to_join(event)
    if epoch == LEAVING_FOR_A_WHILE and event.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < LEAVING_FOR_A_WHILE else None


def _invalid_to_join(event: ConsumerHeartbeat) -> str | None:
    if event.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if event.owned is None or event.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if event.topic_names is None and event.topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    return None


def check_epoch(member: Member, epoch: int, owned: Reported) -> None:
    """Raise RefusedError if the member is not in that epoch. The previous one is allowed
    with no other partitions than it has: the answer to its last heartbeat was lost.
    """
    if epoch == JOINING or epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.previous_epoch and _is_subset(owned, member):
        return
    than = "greater" if epoch > member.epoch else "smaller"
    raise RefusedError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_subset(owned: Reported, member: Member) -> bool:
    return owned is not None and all(
        topic_id in member.assigned and member.assigned[topic_id].keys() >= set(partitions)
        for topic_id, partitions in owned
    )


def check_instance(member: Member | None, member_id: str, instance_id: str) -> Member:
    """Return the static member, if it has that id. Raises RefusedError."""
    if member is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise RefusedError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def check_room(members: Collection[str], member_id: str, most: int) -> None:
    """Raise RefusedError if the group is full and does not have the member."""
    if len(members) >= most and member_id not in members:
        raise RefusedError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def check_released(member: Member, member_id: str, instance_id: str) -> None:
    """Raise RefusedError if the static member has not left."""
    if member.epoch != LEAVING_FOR_A_WHILE:
        raise RefusedError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {member.member_id} member.",
        )


def unknown_member(member_id: str, group_id: str) -> RefusedError:
    return RefusedError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )
