"""Random requests of members of consumer groups (KIP-848), sent to two servers alike.

Topics have other ids on each server, and are compared by their names. The next request depends on
the answer of the first server, as that of a client does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kwire import Message
from kwire.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kwire.messages.delete_groups_request import DeleteGroupsRequest
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.uuid import Uuid
from tools.wire_client import WireClient

#: Topic -> partitions. Their ids decide which is first for the uniform assignor, so only groups of
#: the range assignor read several.
TOPICS = {"t0": 4, "t1": 2, "t2": 3}
_MEMBERS = ("a", "b", "c", "d", "e")
_INSTANCES = (None, None, None, "i1", "i2")


class Server:
    """One of the servers."""

    def __init__(self, bootstrap: str) -> None:
        self._client = WireClient(bootstrap)
        names = [MetadataRequestTopic(name=name) for name in TOPICS]
        answer = self._client.call(MetadataRequest(topics=names), 12)
        self.ids: dict[str, Uuid] = {one.name: one.topic_id for one in answer.topics}
        self._names = {topic_id: name for name, topic_id in self.ids.items()}
        self._address = bootstrap
        #: Member ids that this server made, by the names of the members, and back.
        self.made: dict[str, str] = {}
        self._aliases: dict[str, str] = {}

    def forget(self) -> None:
        """Forget the members of another conversation."""
        self.made.clear()
        self._aliases.clear()

    def learn(self, name: str, member_id: str) -> None:
        """Note the member id that the server made for a member."""
        self.made[name], self._aliases[member_id] = member_id, name

    def text(self, said: str | None) -> str | None:
        """A text of the server, with the names of members in place of the ids that it made."""
        for member_id, name in self._aliases.items() if said else ():
            said = (said or "").replace(member_id, name)
        return said

    def ask_at_once(self, requests: Sequence[Message], version: int) -> list[Any]:
        """The answers to requests that wait for each other, each on a connection of its own."""
        clients = [WireClient(self._address) for _ in requests]
        with ThreadPoolExecutor(len(requests)) as pool:
            waiting = [
                pool.submit(client.call, request, version)
                for client, request in zip(clients, requests, strict=True)
            ]
        for client in clients:
            client.close()
        return [one.result() for one in waiting]

    def ask(self, request: Message, version: int) -> Any:
        """The answer, decoded."""
        return self._client.call(request, version)

    def named(self, topics: Any) -> list[tuple[str, list[int]]]:
        """Partitions with the names of their topics."""
        return sorted((self._names[one.topic_id], sorted(one.partitions)) for one in topics)


@dataclass
class _Member:
    epoch: int = 0
    instance_id: str | None = None
    owned: dict[str, list[int]] = field(default_factory=dict)


class Conversation:
    """Random requests about one group, and what a server answers to them."""

    def __init__(self, seed: int, servers: tuple[Server, Server]) -> None:
        self._chance = random.Random(seed)
        self._servers = servers
        self._group = f"group-{seed}"
        self._assignor = "range" if seed % 2 else "uniform"
        self._members: dict[str, _Member] = {}
        #: A client keeps its instance id. (Kafka lets a member that changes it keep both until the
        #: next restart.)
        self._instances = {name: self._chance.choice(_INSTANCES) for name in _MEMBERS}

    def run(self, steps: int) -> Iterator[tuple[Any, Any, str]]:
        """Yield both answers to each request, and what the request was."""
        for _ in range(steps):
            yield from self._step()()

    def _step(self) -> Callable[[], Iterator[tuple[Any, Any, str]]]:
        return self._chance.choices(
            [self._join, self._beat, self._leave, self._commit, self._fetch, self._describe,
             self._operate],
            weights=[3, 12, 1, 3, 2, 2, 1],
        )[0]  # fmt: skip

    def _both(self, what: str, ask: Any) -> Iterator[tuple[Any, Any, str]]:
        first, second = (ask(server) for server in self._servers)
        yield first, second, f"{self._group} {what}"

    # Heartbeats.

    def _topics(self) -> list[str]:
        if self._assignor == "uniform":
            return self._chance.choice([["t0"], ["t0"], ["t0", "missing"]])
        return self._chance.sample(["missing", *TOPICS], self._chance.randrange(1, 4))

    def _join(self) -> Iterator[tuple[Any, Any, str]]:
        name = self._chance.choice(_MEMBERS)
        member = _Member(instance_id=self._instances[name])
        fields = {
            "subscribed_topic_names": self._topics(),
            "rebalance_timeout_ms": 300_000,
            "server_assignor": self._assignor,
            "rack_id": self._chance.choice([None, "r"]),
        }
        yield from self._heartbeat(name, member, 0, {}, fields)

    def _beat(self) -> Iterator[tuple[Any, Any, str]]:
        if not self._members:
            yield from self._join()
            return
        name = self._chance.choice(sorted(self._members))
        member = self._members[name]
        epoch = member.epoch + self._chance.choice([0] * 12 + [-1, 1])
        fields: dict[str, Any] = {}
        if self._chance.random() < 0.1:
            fields = {"subscribed_topic_names": self._topics()}
        if self._chance.random() < 0.1:
            fields = {"subscribed_topic_names": self._topics(), "rebalance_timeout_ms": 300_000}
        owned = self._chance.choice([member.owned, member.owned, member.owned, None])
        yield from self._heartbeat(name, member, epoch, owned, fields)

    def _leave(self) -> Iterator[tuple[Any, Any, str]]:
        name = self._chance.choice(_MEMBERS)
        member = self._members.get(name, _Member())
        yield from self._heartbeat(name, member, self._chance.choice([-1, -2]), None, {})

    def _heartbeat(
        self,
        name: str,
        member: _Member,
        epoch: int,
        owned: dict[str, list[int]] | None,
        fields: dict[str, Any],
    ) -> Iterator[tuple[Any, Any, str]]:
        answers: list[Any] = []

        def ask(server: Server) -> Any:
            said = None if owned is None else [
                TopicPartitions(topic_id=server.ids[topic], partitions=partitions)
                for topic, partitions in owned.items()
            ]  # fmt: skip
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._group, member_id=name, member_epoch=epoch,
                instance_id=member.instance_id, topic_partitions=said, **fields,
            )  # fmt: skip
            answer = server.ask(request, 1)
            given = None
            if answer.assignment is not None:
                given = server.named(answer.assignment.topic_partitions)
            answers.append((answer, given))
            return (
                answer.error_code, server.text(answer.error_message), answer.member_id,
                answer.member_epoch,
                answer.heartbeat_interval_ms, given,
            )  # fmt: skip

        yield from self._both(f"heartbeat of {name} {epoch} {member} {owned} {fields}", ask)
        answer, given = answers[0]
        if answer.error_code:
            if answer.error_code in (25, 110, 82):  # the client has to join again
                self._members.pop(name, None)
            return
        if epoch < 0:
            self._members.pop(name, None)
            return
        member.epoch = answer.member_epoch
        if given is not None:
            member.owned = {topic: partitions for topic, partitions in given if partitions}
        for other in [
            other for other, one in self._members.items()
            if one.instance_id is not None and one.instance_id == member.instance_id
        ]:  # fmt: skip
            del self._members[other]
        self._members[name] = member

    # Offsets.

    def _epoch(self) -> tuple[str, int]:
        name = self._chance.choice(_MEMBERS)
        member = self._members.get(name, _Member(epoch=-1))
        return name, member.epoch + self._chance.choice([0, 0, 0, -1, 1])

    def _commit(self) -> Iterator[tuple[Any, Any, str]]:
        (name, epoch), topic = self._epoch(), self._chance.choice(sorted(TOPICS))
        version = self._chance.choice([8, 9, 9, 9])
        partitions = self._chance.sample(range(TOPICS[topic]), self._chance.randrange(1, 3))

        def ask(server: Server) -> Any:
            offsets = [
                OffsetCommitRequestPartition(partition_index=one, committed_offset=one + 1)
                for one in partitions
            ]
            request = OffsetCommitRequest(
                group_id=self._group, member_id=name, generation_id_or_member_epoch=epoch,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=offsets)],
            )  # fmt: skip
            answer = server.ask(request, version)
            return [one.error_code for of in answer.topics for one in of.partitions]

        yield from self._both(f"commit {version} of {name} {epoch} {topic} {partitions}", ask)

    def _fetch(self) -> Iterator[tuple[Any, Any, str]]:
        (name, epoch), anyone = self._epoch(), self._chance.random() < 0.3

        def ask(server: Server) -> Any:
            group = OffsetFetchRequestGroup(
                group_id=self._group, topics=None, member_id=None if anyone else name,
                member_epoch=-1 if anyone else epoch,
            )  # fmt: skip
            (answer,) = server.ask(OffsetFetchRequest(groups=[group]), 9).groups
            offsets = [
                (topic.name, one.partition_index, one.committed_offset)
                for topic in answer.topics
                for one in topic.partitions
            ]
            return answer.error_code, sorted(offsets)

        yield from self._both(f"fetch of {name} {epoch} {anyone}", ask)

    # Requests of others.

    def _describe(self) -> Iterator[tuple[Any, Any, str]]:
        def describe(server: Server) -> Any:
            request = ConsumerGroupDescribeRequest(group_ids=[self._group])
            (group,) = server.ask(request, 1).groups
            members = [
                (
                    server.text(one.member_id), one.instance_id, one.rack_id, one.member_epoch,
                    one.client_id,
                    one.client_host, sorted(one.subscribed_topic_names),
                    one.subscribed_topic_regex, one.member_type,
                    server.named(one.assignment.topic_partitions),
                    server.named(one.target_assignment.topic_partitions),
                )
                for one in group.members
            ]  # fmt: skip
            return (
                group.error_code, group.error_message, group.group_state, group.group_epoch,
                group.assignment_epoch, group.assignor_name, sorted(members),
            )  # fmt: skip

        def classic(server: Server) -> Any:
            (group,) = server.ask(DescribeGroupsRequest(groups=[self._group]), 6).groups
            return group.error_code, group.error_message, group.group_state

        def listed(server: Server) -> Any:
            answer = server.ask(ListGroupsRequest(), 5)
            return sorted(
                (one.group_id, one.protocol_type, one.group_state, one.group_type)
                for one in answer.groups
                if one.group_id == self._group
            )

        yield from self._both("describe", describe)
        yield from self._both("describe as classic", classic)
        yield from self._both("list", listed)

    def _operate(self) -> Iterator[tuple[Any, Any, str]]:
        name, instance_id = self._chance.choice(_MEMBERS), self._chance.choice(_INSTANCES)

        def leave(server: Server) -> Any:
            member_id = "" if instance_id else name
            one = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            answer = server.ask(LeaveGroupRequest(group_id=self._group, members=[one]), 5)
            return answer.error_code, [one.error_code for one in answer.members]

        def delete(server: Server) -> Any:
            answer = server.ask(DeleteGroupsRequest(groups_names=[self._group]), 2)
            return [one.error_code for one in answer.results]

        def join(server: Server) -> Any:
            protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
            request = JoinGroupRequest(
                group_id=self._group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
                protocol_type="consumer", protocols=[protocol],
            )  # fmt: skip
            return server.ask(request, 9).error_code

        def beat(server: Server) -> Any:
            request = HeartbeatRequest(group_id=self._group, member_id=name, generation_id=1)
            return server.ask(request, 4).error_code

        def forget(server: Server) -> Any:
            one = OffsetDeleteRequestPartition(partition_index=0)
            topic = OffsetDeleteRequestTopic(name="t0", partitions=[one])
            answer = server.ask(OffsetDeleteRequest(group_id=self._group, topics=[topic]), 0)
            return answer.error_code, [
                one.error_code for of in answer.topics for one in of.partitions
            ]

        what, ask = self._chance.choice(
            [("leave", leave), ("delete", delete), ("join", join), ("beat", beat),
             ("forget", forget)]
        )  # fmt: skip
        if what == "join" and not self._members:
            return  # a classic group would stay, with a member id that is promised
        yield from self._both(f"{what} {name} {instance_id}", ask)
        if what == "leave":
            for gone in [
                one for one, member in self._members.items()
                if (member.instance_id == instance_id if instance_id else one == name)
            ]:  # fmt: skip
                del self._members[gone]


def assert_same(conversations: Iterable[Conversation], steps: int) -> None:
    """Hold conversations, and compare all answers."""
    for conversation in conversations:
        said: list[str] = []
        for first, second, what in conversation.run(steps):
            said.append(f"{what}: {first}")
            assert first == second, "\n".join([*said[-12:], f"the other: {second}"])
