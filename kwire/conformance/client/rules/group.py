"""Rules of the classic group protocol: coordinators that load or move, rebalances, generations."""

from __future__ import annotations

import functools
from typing import Any, Final

from kwire.conformance.client.faults import EVER, Answer
from kwire.conformance.client.probe import ClientProbe
from kwire.conformance.client.traffic import Seen, fetch_offset
from kwire.conformance.rule import CLIENT, Family, Level, Rule
from kwire.protocol import ApiKey, ErrorCode

FAMILY: Final = Family("client-group", "Classic group protocol")

_JOIN: Final = ApiKey.JOIN_GROUP
_APIS: Final = (_JOIN,)
_FIND: Final = ApiKey.FIND_COORDINATOR


def _sent(probe: ClientProbe, api: ApiKey, error: int, act: Any = None) -> Seen:
    """Run the program with one refused request, and return that."""
    fault = probe.fault(f"error {ErrorCode(error).name}", api, error=error, act=act)
    probe.start()
    return probe.happened(fault)


def _until_join(probe: ClientProbe, error: ErrorCode, act: Any = None) -> Seen:
    """Run the program with every Heartbeat refused from the first one to the next JoinGroup, as a
    coordinator does. Returns the first one.
    """
    refused: list[Seen] = []

    def when(seen: Seen) -> bool:
        if refused and probe.traffic.after(refused[0], _JOIN):
            return False
        refused.append(seen)
        return True

    fault = probe.fault(
        f"error {error.name} until the client joins", ApiKey.HEARTBEAT, error=error, act=act,
        when=when, times=EVER,
    )  # fmt: skip
    probe.start()
    return probe.happened(fault)


def retried(api: ApiKey, error: ErrorCode, finds: bool, probe: ClientProbe) -> None:
    """Refuse one request with an error that passes."""
    probe.prepare()
    seen = _sent(probe, api, error)
    if finds and api is not _FIND:
        probe.request_after(seen, _FIND)
    probe.request_after(seen, api)
    probe.works(repeats=True)


def _add_retried() -> None:
    loading, unavailable, moved = (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
    for name, api, error, finds in (
        ("coordinator-not-available", _FIND, unavailable, True),
        ("coordinator-loading-find", _FIND, loading, True),
        ("coordinator-loading-join", _JOIN, loading, False),
        ("coordinator-loading-offsets", ApiKey.OFFSET_FETCH, loading, False),
        ("not-coordinator-join", _JOIN, moved, True),
        ("not-coordinator-sync", ApiKey.SYNC_GROUP, moved, True),
        ("not-coordinator-offsets", ApiKey.OFFSET_FETCH, moved, True),
    ):
        then = " asks for the coordinator and" if finds and api is not _FIND else ""
        FAMILY.add(
            Rule(
                id=f"client-group.{name}",
                says=f"A client whose {api.title} is answered with {error.name}{then} sends "
                f"{api.title} again.",
                check=functools.partial(retried, api, error, finds),
                source="Errors",
                section=f"{error.name}: RetriableException",
                roles=CLIENT,
                apis=(api, _JOIN),
            )
        )


_add_retried()


@FAMILY.rule(
    "coordinator-moves", source="AbstractCoordinator", section="HeartbeatResponseHandler",
    roles=CLIENT, apis=_APIS,
)  # fmt: skip
def coordinator_moves(probe: ClientProbe) -> None:
    """A client whose Heartbeat is answered with NOT_COORDINATOR asks for the coordinator, and goes
    on with the one that the answer names.
    """
    probe.prepare(nodes=2)

    def move(answer: Answer) -> None:
        probe.state.group.coordinator = 2

    seen = _sent(probe, ApiKey.HEARTBEAT, ErrorCode.NOT_COORDINATOR, move)
    probe.request_after(seen, _FIND)
    probe.until(
        lambda: [
            one
            for one in probe.traffic.after(seen)
            if one.broker == 2 and one.api in (ApiKey.HEARTBEAT, _JOIN)
        ],
        "a request of the group to the new coordinator",
    )
    probe.works(repeats=True)


@FAMILY.rule(
    "member-id-required", source="KIP-394", section="Proposed Changes", since="2.2",
    roles=CLIENT, apis=_APIS,
)  # fmt: skip
def member_id_required(probe: ClientProbe) -> None:
    """A client whose JoinGroup is answered with MEMBER_ID_REQUIRED joins with the id that the
    answer has.
    """
    probe.uses(_JOIN, 4)
    probe.prepare()
    probe.start()
    first = probe.until(lambda: probe.traffic.all(_JOIN), "a JoinGroup request")[0]
    second = probe.request_after(first, _JOIN)
    given = probe.state.group.promised
    probe.expect(second.request.member_id == given, "the second JoinGroup has another member id")
    probe.works()


def rejoins(error: ErrorCode, keeps_id: bool, probe: ClientProbe) -> None:
    """Answer a Heartbeat with an error of the membership."""
    probe.prepare()

    def act(answer: Answer) -> None:
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            probe.state.group.member = probe.state.group.promised = ""

    seen = _until_join(probe, error, act)
    member = seen.request.member_id
    again = probe.request_after(seen, _JOIN, f"a JoinGroup request after {error.name}")
    if keeps_id:
        probe.expect(again.request.member_id == member, "the client joins with another member id")
    else:
        if again.request.member_id == member:  # that JoinGroup has the same error
            again = probe.request_after(again, _JOIN, "a JoinGroup request of a new member")
        probe.expect(
            again.request.member_id != member, "the client joins with the member id that is unknown"
        )
    probe.request_after(again, ApiKey.SYNC_GROUP)
    probe.works(repeats=True)


for _name, _error, _keeps, _says in (
    ("rebalance", ErrorCode.REBALANCE_IN_PROGRESS, True, "joins again with its member id"),
    ("unknown-member", ErrorCode.UNKNOWN_MEMBER_ID, False, "joins as a new member"),
):
    FAMILY.add(
        Rule(
            id=f"client-group.{_name}",
            says=f"A client whose Heartbeat is answered with {_error.name} {_says}.",
            check=functools.partial(rejoins, _error, _keeps),
            source="AbstractCoordinator",
            section="HeartbeatResponseHandler",
            roles=CLIENT,
            apis=_APIS,
        )
    )


@FAMILY.rule(
    "illegal-generation", source="AbstractCoordinator", section="HeartbeatResponseHandler",
    roles=CLIENT, apis=_APIS,
)  # fmt: skip
def illegal_generation(probe: ClientProbe) -> None:
    """A client whose Heartbeat is answered with ILLEGAL_GENERATION joins the group again."""
    probe.prepare()
    seen = _until_join(probe, ErrorCode.ILLEGAL_GENERATION)
    again = probe.request_after(seen, _JOIN, "a JoinGroup request after ILLEGAL_GENERATION")
    probe.request_after(again, ApiKey.SYNC_GROUP)
    probe.works(repeats=True)


@FAMILY.rule(
    "assigns-partition", source="ConsumerCoordinator", section="onLeaderElected", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def assigns_partition(probe: ClientProbe) -> None:
    """The leader of a group of one member assigns itself the partition, in one SyncGroup
    request.
    """
    probe.prepare()
    probe.start()
    sync = probe.until(lambda: probe.traffic.all(ApiKey.SYNC_GROUP), "a SyncGroup request")[0]
    members = [one.member_id for one in sync.request.assignments]
    probe.expect(
        members == [probe.state.group.member],
        f"SyncGroup has assignments for {len(members)} members, not for the only one",
    )
    topic = probe.session.command.topic.encode()
    given = bytes(sync.request.assignments[0].assignment)
    if topic not in given:
        # Metadata may come after the first generation; the client then joins again.
        probe.until(lambda: topic in probe.state.group.assignment, "an assignment with the topic")
    probe.works(repeats=True)


@FAMILY.rule(
    "ids-of-the-answer", source="AbstractCoordinator", section="Generation", roles=CLIENT,
    apis=_APIS,
)  # fmt: skip
def ids_of_the_answer(probe: ClientProbe) -> None:
    """SyncGroup, Heartbeat and OffsetCommit of a member have the member id and the generation of
    the last JoinGroup answer.
    """
    probe.prepare()
    probe.start()
    probe.until(lambda: probe.traffic.all(ApiKey.HEARTBEAT), "a Heartbeat request")
    probe.works(repeats=True)
    group = probe.state.group
    for api in (ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT):
        last = probe.traffic.all(api)[-1]
        asked = last.request
        probe.expect(
            (asked.member_id, asked.generation_id) == (group.member or asked.member_id,
                                                       group.generation),
            f"{api.title} has generation {asked.generation_id}; the group is at "
            f"{group.generation}",
        )  # fmt: skip


@FAMILY.rule(
    "committed-offset", source="ConsumerCoordinator", section="initWithCommittedOffsetsIfNeeded",
    roles=CLIENT, apis=(ApiKey.OFFSET_FETCH,),
)  # fmt: skip
def committed_offset(probe: ClientProbe) -> None:
    """A client reads on from the committed offset of its group, also if it is inside a batch."""
    probe.prepare()
    probe.state.group.committed = 7
    probe.start()
    fetches = probe.until(
        lambda: [one for one in probe.traffic.all(ApiKey.FETCH) if fetch_offset(one) >= 0],
        "a Fetch request",
    )
    offset = fetch_offset(fetches[0])
    probe.expect(offset == 7, f"the first Fetch is for offset {offset}, 7 is committed")
    del probe.state.log.batches[0]  # it is not asked for
    values = probe.state.log.values()[2:]
    probe.reads_all(values)


@FAMILY.rule(
    "leaves", source="AbstractCoordinator", section="maybeLeaveGroup", level=Level.SHOULD,
    roles=CLIENT, apis=_APIS,
)  # fmt: skip
def leaves(probe: ClientProbe) -> None:
    """A program that is ended with SIGTERM leaves its group."""
    probe.prepare()
    probe.start()
    probe.reads_all(repeats=True)
    probe.stop()
    probe.expect(probe.traffic.all(ApiKey.LEAVE_GROUP), "no LeaveGroup was sent within 3 s")
