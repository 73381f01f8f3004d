"""Bugs of the group coordinator: members, generations, assignments and committed offsets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from gateway.app import node
from gateway.groups import coordinator, membership, rebalance
from gateway.groups.events import ListGroups
from gateway.groups.group import Group, State
from gateway.groups.joining import Joining
from gateway.groups.membership import Membership
from gateway.groups.rebalance import Rebalance
from gateway.handlers.apis import (
    find_coordinator,
    join_group,
    list_groups,
    offset_commit,
    offset_fetch,
)
from kwire.protocol import ErrorCode
from tests.conformance_faults.mutants import mutant, without_error, wrapped
from tests.patches import patched

Context = AbstractContextManager[Any]


@mutant("groups.rebalance-is-told")
def a_generation_stays() -> Context:
    """The generation of a group is not raised when its members have joined again."""

    def stay(original: Any, group: Group, wall_ms: int) -> None:
        before = group.generation
        original(group, wall_ms)
        group.generation = max(before, 1)

    return wrapped(Group, "next_generation", stay)


@mutant("groups.rebalance-is-told", waits=True)
def heartbeats_tell_of_no_rebalance() -> Context:
    """A member whose group rebalances gets no REBALANCE_IN_PROGRESS."""
    return wrapped(membership, "_heartbeat_fault", without_error(ErrorCode.REBALANCE_IN_PROGRESS))


@mutant("groups.heartbeat-of-old-generation")
def heartbeats_of_any_generation_count() -> Context:
    """The generation of a Heartbeat is not compared."""
    return wrapped(membership, "_heartbeat_fault", without_error(ErrorCode.ILLEGAL_GENERATION))


@mutant("groups.sync-of-old-generation")
def syncs_of_any_generation_count() -> Context:
    """The generation of a SyncGroup is not compared."""
    return wrapped(membership, "_sync_fault", without_error(ErrorCode.ILLEGAL_GENERATION))


@mutant("groups.member-id-required")
def members_join_without_an_id() -> Context:
    """A new member is admitted at once, as before KIP-394."""
    return patched(join_group, _FIRST_REQUIRING_MEMBER_ID=join_group.VERSIONS.stop)


@mutant("groups.unknown-member-joins")
def unknown_members_get_another_error() -> Context:
    """A member id that the coordinator did not give is refused with GROUP_ID_NOT_FOUND."""

    def refuse(original: Any, self: Joining, asked: Any, event: Any, error: ErrorCode) -> None:
        unknown = error is ErrorCode.UNKNOWN_MEMBER_ID
        original(self, asked, event, ErrorCode.GROUP_ID_NOT_FOUND if unknown else error)

    return wrapped(Joining, "_refuse", refuse)


@mutant("groups.session-timeout-too-short")
def any_session_timeout_is_taken() -> Context:
    """The lower limit of session timeouts is not checked."""
    return wrapped(
        node,
        "settings_of",
        lambda original, config: replace(original(config), min_session_timeout_ms=0),
    )


@mutant("groups.no-protocol-in-common")
def protocols_are_not_compared() -> Context:
    """A member joins that has no protocol in common with the others."""

    def supports(original: Any, group: Group, kind: str, protocols: Any) -> bool:
        return bool(original(group, kind, protocols) or group.state is not State.EMPTY)

    return wrapped(Group, "supports", supports)


@mutant("groups.leader-gets-members")
def the_leader_learns_no_members() -> Context:
    """The list of members in the leader's JoinGroup response is empty."""

    def current(original: Any, group: Any, member: Any, members: Any) -> Any:
        return original(group, member, [])

    return wrapped(rebalance, "current_generation", current)


@mutant("groups.assignment-comes-back")
def assignments_are_dropped() -> Context:
    """Every member gets an empty assignment."""
    return wrapped(
        Rebalance, "assign", lambda original, self, group, assignments: original(self, group, {})
    )


@mutant("groups.static-member-fenced")
def static_members_are_not_fenced() -> Context:
    """Another member with the instance id of a static member is only unknown."""

    def fault(original: Any, *values: Any) -> ErrorCode:
        found: ErrorCode = original(*values)
        fenced = found is ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.UNKNOWN_MEMBER_ID if fenced else found

    return wrapped(Group, "member_fault", fault)


@mutant("groups.leave")
def members_that_leave_stay() -> Context:
    """LeaveGroup is answered without an error, and the member stays."""
    return patched(Membership, _remove=lambda self, group, leaver: ErrorCode.NONE)


@mutant("groups.leave-of-no-member")
def anybody_may_leave() -> Context:
    """LeaveGroup of an unknown member gets no error."""
    return wrapped(Membership, "_remove", without_error(ErrorCode.UNKNOWN_MEMBER_ID))


@mutant("groups.delete-with-members")
def groups_with_members_are_deleted() -> Context:
    """DeleteGroups removes the members of a group, too."""

    def delete(original: Any, self: Any, asked: Any, event: Any) -> Any:
        for group in [self._state.groups.get(name) for name in event.group_ids]:
            if group is not None and group.state is not State.EMPTY:
                self._rebalance.reset(group)
        return original(self, asked, event)

    return wrapped(coordinator.GroupCoordinator, "_delete", delete)


@mutant("groups.described")
def members_are_not_described() -> Context:
    """DescribeGroups has no members."""

    def described(original: Any, group: Any) -> Any:
        return replace(original(group), members=[])

    return wrapped(coordinator, "_description", described)


@mutant("groups.listed-by-type")
def types_of_groups_are_not_compared() -> Context:
    """ListGroups lists classic groups to a client that wants consumer groups."""
    return patched(list_groups, ListGroups=lambda states, types: ListGroups(states, frozenset()))


@mutant("offsets.last-commit-counts")
def the_first_commit_counts() -> Context:
    """A committed offset is not replaced by a later commit."""

    def commit(original: Any, group: Group, where: Any, committed: Any) -> None:
        if committed is None or where not in group.offsets:
            original(group, where, committed)

    return wrapped(Group, "commit", commit)


@mutant("offsets.commit-of-no-member")
def anybody_may_commit() -> Context:
    """A commit for a group with members is taken from a client that is none of them."""
    return wrapped(Group, "commit_fault", without_error(ErrorCode.UNKNOWN_MEMBER_ID))


@mutant("offsets.commit-of-old-generation")
def commits_of_any_generation_count() -> Context:
    """The generation of an OffsetCommit is not compared."""
    return wrapped(Group, "commit_fault", without_error(ErrorCode.ILLEGAL_GENERATION))


@mutant("offsets.leader-epoch")
def epochs_of_commits_are_dropped() -> Context:
    """A committed offset comes back without its leader epoch."""

    def kept(original: Any, name: str, said: Any) -> Any:
        return replace(original(name, said), leader_epoch=-1)

    return wrapped(offset_commit, "_to_commit", kept)


@mutant("offsets.nothing-committed")
def offsets_begin_at_zero() -> Context:
    """A partition without a committed offset has offset 0."""
    return patched(offset_fetch, _NOTHING=offset_fetch._NOTHING._replace(offset=0))


@mutant("offsets.unknown-coordinator-type")
def every_coordinator_is_that_of_groups() -> Context:
    """FindCoordinator names this node for coordinators of any type."""

    def find(original: Any, kind: int, key: str, context: Any) -> Any:
        return original(find_coordinator._GROUP, key, context)

    return wrapped(find_coordinator, "_find", find)
