"""Random requests about groups with members of both protocols, sent to two servers alike.

A group begins with a member of KIP-848. Members of the classic protocol join it; it becomes a
classic group when they are left alone, and a consumer group again with the next of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kwire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from kwire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.interop.group_requests import TOPICS, Conversation, Server

_NAMES = ("k", "l", "m")
_INSTANCES = (None, None, "i1", "i2")
_Answers = Iterator[tuple[Any, Any, str]]


@dataclass
class _Classic:
    """A classic member as its client knows it. ``owned``: topic -> partitions."""

    generation: int
    instance_id: str | None
    topics: tuple[str, ...]
    owned: dict[str, list[int]]


class MixedConversation(Conversation):
    """Random requests about one group. ``upgrades`` and ``downgrades`` count what became of it."""

    def __init__(self, seed: int, servers: tuple[Server, Server]) -> None:
        super().__init__(seed, servers)
        self._classic: dict[str, _Classic] = {}
        self._classic_instances = {name: self._chance.choice(_INSTANCES) for name in _NAMES}
        self._type = ""
        self.upgrades = self.downgrades = 0

    def run(self, steps: int) -> _Answers:
        for server in self._servers:
            server.forget()
        for answers in super().run(steps):
            yield answers
            self._look()

    def _step(self) -> Callable[[], _Answers]:
        if self._chance.random() < (0.1 if self._type == "classic" else 0.4):
            return super()._step()
        if self._type == "classic":
            return self._chance.choice(
                [self._generation, self._classic_beat, self._describe_classic]
            )
        return self._chance.choices(
            [self._classic_join, self._classic_sync, self._classic_beat, self._classic_leave,
             self._classic_commit, self._others_leave],
            weights=[3, 3, 5, 1, 2, 1],
        )[0]  # fmt: skip

    def _operate(self) -> _Answers:
        if self._type != "classic":  # there a member of no name would make both wait
            yield from super()._operate()

    def _look(self) -> None:
        """Learn what kind of group it is, and who is still in it."""
        server, before = self._servers[0], self._type
        listed = server.ask(ListGroupsRequest(), 5).groups
        self._type = next((g.group_type for g in listed if g.group_id == self._group), "")
        self.upgrades += (before, self._type) == ("classic", "consumer")
        self.downgrades += (before, self._type) == ("consumer", "classic")

    # Members of the classic protocol in a consumer group.

    def _subscription(self, member: _Classic) -> bytes:
        owned = [TopicPartition(topic=name, partitions=some) for name, some in member.owned.items()]
        subscription = ConsumerProtocolSubscription(
            topics=list(member.topics), owned_partitions=owned, generation_id=member.generation,
            rack_id=None,
        )  # fmt: skip
        return b"\0\3" + subscription.encode(3)

    def _join_request(
        self, member_id: str, member: _Classic, names: Sequence[str]
    ) -> JoinGroupRequest:
        metadata = self._subscription(member)
        return JoinGroupRequest(
            group_id=self._group, member_id=member_id, group_instance_id=member.instance_id,
            session_timeout_ms=300_000, rebalance_timeout_ms=300_000, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        )  # fmt: skip

    def _classic_join(self) -> _Answers:
        if not self._members or self._type != "consumer":
            yield from self._join()
            return
        name, instance_id = self._chance.choice(_NAMES), None
        instance_id = self._classic_instances[name]
        known = self._classic.get(name)
        member = known or _Classic(-1, instance_id, tuple(self._topics()), {})
        if known is not None and self._chance.random() < 0.2:
            member.topics = tuple(self._topics())
        if self._chance.random() < 0.1:
            member.owned = {}
        # The order of ids that servers make decides about assignments of the uniform assignor.
        anew = instance_id is not None and known is None and self._assignor == "range"
        names = self._chance.choice(
            [["range"], ["range", "cooperative-sticky"], ["sticky", "range"]]
        )
        if self._chance.random() < 0.05:
            names = ["none"]
        answers: list[Any] = []

        def ask(server: Server) -> Any:
            member_id = "" if anew else server.made.get(name, name)
            answer = server.ask(self._join_request(member_id, member, names), 9)
            if anew and answer.error_code == 0:
                server.learn(name, answer.member_id)
            answers.append(answer)
            return (
                answer.error_code, answer.generation_id, answer.protocol_type,
                answer.protocol_name, server.text(answer.member_id), answer.leader,
                len(answer.members),
            )  # fmt: skip

        yield from self._both(f"classic join of {name} {member} {anew} {names}", ask)
        self._note(name, member, answers[0].error_code, answers[0].generation_id)

    def _note(self, name: str, member: _Classic, error: int, generation: int) -> None:
        if error:
            if error in (25, 82):
                self._classic.pop(name, None)
            return
        member.generation = generation
        for others in (self._classic, self._members):
            for other in [
                other
                for other, one in others.items()
                if member.instance_id is not None and one.instance_id == member.instance_id
            ]:
                del others[other]
        self._classic[name] = member

    def _someone(self) -> tuple[str, _Classic]:
        name = self._chance.choice(_NAMES)
        member = self._classic.get(name) or _Classic(1, self._classic_instances[name], (), {})
        return name, member

    def _classic_sync(self) -> _Answers:
        name, member = self._someone()
        generation = member.generation + self._chance.choice([0] * 8 + [-1, 1])
        kind = self._chance.choice(["consumer", "consumer", None, "connect"])
        protocol = self._chance.choice([None, None, "range", "none"])
        found: list[dict[str, list[int]]] = []

        def ask(server: Server) -> Any:
            request = SyncGroupRequest(
                group_id=self._group, member_id=server.made.get(name, name),
                group_instance_id=member.instance_id, generation_id=generation,
                protocol_type=kind, protocol_name=protocol,
            )  # fmt: skip
            answer = server.ask(request, 5)
            given = _assignment(answer.assignment)
            found.append(given)
            return answer.error_code, answer.protocol_type, answer.protocol_name, given

        for first, second, what in self._both(f"sync of {name} {generation} {kind}", ask):
            yield first, second, what
            if first[0] == 0:
                member.owned = found[0]

    def _classic_beat(self) -> _Answers:
        name, member = self._someone()
        generation = member.generation + self._chance.choice([0] * 8 + [-1, 1])

        def ask(server: Server) -> Any:
            request = HeartbeatRequest(
                group_id=self._group, member_id=server.made.get(name, name),
                group_instance_id=member.instance_id, generation_id=generation,
            )  # fmt: skip
            return server.ask(request, 4).error_code

        yield from self._both(f"classic beat of {name} {generation}", ask)

    def _classic_leave(self) -> _Answers:
        name, member = self._someone()

        def ask(server: Server) -> Any:
            one = MemberIdentity(
                member_id=server.made.get(name, name), group_instance_id=member.instance_id
            )
            answer = server.ask(LeaveGroupRequest(group_id=self._group, members=[one]), 5)
            return answer.error_code, [one.error_code for one in answer.members]

        yield from self._both(f"classic leave of {name}", ask)
        self._classic.pop(name, None)

    def _others_leave(self) -> _Answers:
        """Have all members of KIP-848 leave, if classic ones stay."""
        for name, member in list(self._members.items()) if self._classic else ():
            yield from self._heartbeat(name, member, -1, None, {})

    def _classic_commit(self) -> _Answers:
        (name, member), topic = self._someone(), self._chance.choice(sorted(TOPICS))
        generation = member.generation + self._chance.choice([0, 0, -1, 1])
        version = self._chance.choice([8, 9])

        def ask(server: Server) -> Any:
            offsets = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
            request = OffsetCommitRequest(
                group_id=self._group, member_id=server.made.get(name, name),
                generation_id_or_member_epoch=generation,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=offsets)],
            )  # fmt: skip
            answer = server.ask(request, version)
            return [one.error_code for of in answer.topics for one in of.partitions]

        yield from self._both(f"classic commit of {name} {generation} {topic} {version}", ask)

    # A classic group.

    def _describe_classic(self) -> _Answers:
        yield from self._both("describe as classic", self._described)

    def _described(self, server: Server) -> Any:
        (group,) = server.ask(DescribeGroupsRequest(groups=[self._group]), 6).groups
        members = sorted(
            (
                server.text(one.member_id), one.group_instance_id, one.client_id, one.client_host,
                sorted(_assignment(one.member_assignment).items()),
            )
            for one in group.members
        )  # fmt: skip
        return group.error_code, group.group_state, group.protocol_type, members

    def _generation(self) -> _Answers:
        """Have all classic members join, and the leader of each server assign the same."""
        state = self._described(self._servers[0])
        names = [name for name, *_ in state[3]]
        if not names or any(name not in self._classic for name in names):
            yield from self._describe_classic()
            return
        partitions = iter(range(TOPICS["t0"]))
        plan = {name: [next(partitions)] for name in names}
        generations: list[int] = []

        def join(server: Server) -> Any:
            requests = [
                self._join_request(server.made.get(name, name), self._classic[name], ["range"])
                for name in names
            ]
            answers = server.ask_at_once(requests, 9)
            generations.append(answers[0].generation_id)
            led = [one for one in answers if one.leader == one.member_id]
            return (
                [(one.error_code, one.generation_id, one.protocol_name) for one in answers],
                [sorted(server.text(m.member_id) or "" for m in one.members) for one in led],
            )

        def sync(server: Server) -> Any:
            given = [
                SyncGroupRequestAssignment(
                    member_id=server.made.get(name, name), assignment=_bytes({"t0": some})
                )
                for name, some in plan.items()
            ]
            requests = [
                SyncGroupRequest(
                    group_id=self._group, member_id=server.made.get(name, name),
                    group_instance_id=self._classic[name].instance_id,
                    generation_id=generations[0], assignments=given,
                )
                for name in names
            ]  # fmt: skip
            return [
                (one.error_code, _assignment(one.assignment))
                for one in server.ask_at_once(requests, 5)
            ]

        yield from self._both(f"join of all {names}", join)
        yield from self._both(f"sync of all {names}", sync)
        for name in names:
            self._classic[name].generation = generations[0]
            self._classic[name].owned = {"t0": plan[name]}


def _assignment(data: bytes) -> dict[str, list[int]]:
    if not data:
        return {}
    assignment = ConsumerProtocolAssignment.decode(data[2:], int.from_bytes(data[:2]))
    return {
        one.topic: sorted(one.partitions)
        for one in sorted(assignment.assigned_partitions, key=lambda one: one.topic)
        if one.partitions
    }


def _bytes(partitions: dict[str, list[int]]) -> bytes:
    assigned = [Assigned(topic=topic, partitions=some) for topic, some in partitions.items()]
    return b"\0\3" + ConsumerProtocolAssignment(assigned_partitions=assigned).encode(3)
