"""Transcripts of the group coordinator: commands, and below each what came of it, compared line by
line.

    play('''
    > join a
    a <- MEMBER_ID_REQUIRED id=a-1
    ''')

A command is ``> verb who key=value ...``. Below it stand the effects in order: ``who <- result``
for an answer (``who`` is the token), ``disk ...`` for a Persist, and ``= group State generation
(members, * the leader)`` where the group changed. Member ids are a client's name and the number of
the command that made them. Times are ms.
"""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

from gateway.groups import (
    Answer,
    Effect,
    EventTime,
    Failure,
    GroupCoordinator,
    LimitExceeded,
    Persist,
    Record,
    Settings,
)
from gateway.groups import events as e
from gateway.groups.consumer.events import DescribeConsumerGroupsResult
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.records import GroupMetadata, read_record
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

START_S = 1000.0
START_MS = 1_700_000_000_000
_UUID = re.compile(r"00000000-0000-4000-8000-0*([0-9a-f]+)")


def play(transcript: str, **settings: Any) -> Script:
    """Carry the transcript out and compare; gives the script to look at."""
    script = Script(**settings)
    script.play(transcript)
    return script


class Script:
    """A coordinator, the time, and the disk."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.core = GroupCoordinator(self.settings)
        self.disk: dict[bytes, bytes] = {}
        self.written: list[Record] = []
        self.exceeded: list[tuple[str, str]] = []
        self.owners: dict[bytes, str] = {}
        self.ms = 0
        self.made = 0
        self.core.load([], self.moment())
        self._shown: dict[str, str] = {}

    def moment(self) -> EventTime:
        return EventTime(
            START_S + self.ms / 1000, START_MS + self.ms, self.made.to_bytes(16, "big")
        )

    def play(self, transcript: str) -> None:
        wanted = [line.strip() for line in dedent(transcript).strip().splitlines() if line.strip()]
        got: list[str] = []
        for line in wanted:
            if line.startswith(">"):
                got += [line, *self.command(line[1:])]
            elif line.startswith("#"):
                got.append(line)
        shown = "\n".join(got)
        assert got == wanted, f"what came of it:\n\n{shown}\n"

    def command(self, line: str) -> list[str]:
        verb, *words = line.split()
        who = words[0] if words and "=" not in words[0] else ""
        pairs = (word.split("=", 1) for word in words if "=" in word)
        args = {name: _long(value) for name, value in pairs}
        if verb == "wait":
            return self._wait(int(who))
        if verb == "restart":
            return self._restart()
        self.made += 1
        event = getattr(self, f"_{verb.replace('-', '_')}")(who, args)
        return self._effects(self.core.handle(event, who, self.moment()))

    # Commands.

    def _join(self, who: str, a: dict[str, str]) -> e.JoinGroup:
        version = int(a.get("v", "9"))
        names = [name for name in a.get("protocols", "range").split(",") if name]
        metadata = (
            subscription(a["topics"].split(","))
            if "topics" in a
            else b"?" + a.get("meta", "").encode()
        )
        return e.JoinGroup(
            group_id=a.get("group", "g"),
            member_id=a.get("id", ""),
            instance_id=a.get("instance"),
            client_id=who,
            client_host="/127.0.0.1",
            session_timeout_ms=int(a.get("session", "10000")),
            rebalance_timeout_ms=int(a.get("rebalance", "60000")),
            protocol_type=a.get("type", "consumer"),
            protocols=tuple(e.Protocol(name, metadata) for name in names),
            member_id_required=version >= 4,
            can_skip_assignment=version >= 9,
            owner=a.get("owner", ""),
        )

    def _sync(self, who: str, a: dict[str, str]) -> e.SyncGroup:
        pairs = [one.split(":") for one in a.get("assign", "").split(",") if one]
        return e.SyncGroup(
            group_id=a.get("group", "g"),
            member_id=a["id"],
            instance_id=a.get("instance"),
            generation=int(a["gen"]),
            protocol_type=a.get("type"),
            protocol_name=a.get("protocol"),
            assignments=tuple((name, data.encode()) for name, data in pairs),
        )

    def _heartbeat(self, who: str, a: dict[str, str]) -> e.Heartbeat:
        return e.Heartbeat(
            group_id=a.get("group", "g"),
            member_id=a["id"],
            instance_id=a.get("instance"),
            generation=int(a["gen"]),
        )

    def _leave(self, who: str, a: dict[str, str]) -> e.LeaveGroup:
        ids = a.get("id", "").split(",")
        leavers = tuple(e.Leaver(member_id, a.get("instance")) for member_id in ids)
        return e.LeaveGroup(group_id=a.get("group", "g"), leavers=leavers)

    def _commit(self, who: str, a: dict[str, str]) -> e.OffsetCommit:
        offset = e.OffsetToCommit(
            a.get("topic", "t"),
            int(a.get("partition", "0")),
            int(a["offset"]),
            int(a.get("epoch", "-1")),
            a.get("meta", ""),
        )
        return e.OffsetCommit(
            group_id=a.get("group", "g"),
            member_id=a.get("id", ""),
            instance_id=a.get("instance"),
            generation=int(a.get("gen", "-1")),
            retention_ms=int(a.get("retention", "-1")),
            offsets=(offset,),
            knows_group_id_not_found=int(a.get("v", "9")) >= 9,
            owner=a.get("owner", ""),
        )

    def _fetch(self, who: str, a: dict[str, str]) -> e.OffsetFetch:
        wanted = None if "topic" not in a else ((a["topic"], int(a.get("partition", "0"))),)
        return e.OffsetFetch(
            tuple((group_id, wanted) for group_id in a.get("group", "g").split(","))
        )

    def _forget(self, who: str, a: dict[str, str]) -> e.OffsetDelete:
        return e.OffsetDelete(
            group_id=a.get("group", "g"), partitions=tuple((t, 0) for t in a["topic"].split(","))
        )

    def _list(self, who: str, a: dict[str, str]) -> e.ListGroups:
        return e.ListGroups(frozenset(name for name in a.get("states", "").split(",") if name))

    def _describe(self, who: str, a: dict[str, str]) -> e.DescribeGroups:
        return e.DescribeGroups(tuple(a.get("group", "g").split(",")))

    def _delete(self, who: str, a: dict[str, str]) -> e.DeleteGroups:
        return e.DeleteGroups(tuple(a.get("group", "g").split(",")))

    def _wait(self, ms: int) -> list[str]:
        """Let time pass, stopping at each deadline."""
        lines = []
        until = self.ms + ms
        for _ in range(1000):
            due = self.core.next_deadline()
            if due is None or due > START_S + until / 1000 + 1e-6:
                break
            self.ms = max(self.ms, round((due - START_S) * 1000))
            lines += [
                f"{self.ms}: {line}" for line in self._effects(self.core.on_timer(self.moment()))
            ]
        self.ms = until
        return lines

    def _restart(self) -> list[str]:
        lines = self._effects(self.core.unload())
        self.core = GroupCoordinator(self.settings)
        self._shown = {}
        return lines + self._effects(
            self.core.load(list(self.disk.items()), self.moment(), self.owners)
        )

    # Results.

    def _effects(self, effects: list[Effect]) -> list[str]:
        lines = []
        for effect in effects:
            if isinstance(effect, Persist):
                self.owners.update(effect.owners)
                lines += [
                    _short(f"disk {self._write(key, value)}") for key, value in effect.records
                ]
            elif isinstance(effect, Failure):
                lines.append(f"failure {effect.what} {effect.group_id}")
            elif isinstance(effect, LimitExceeded):
                self.exceeded.append((effect.limit, effect.owner))
            elif isinstance(effect, Answer):
                lines.append(_short(f"{effect.asked.token} <- {_result(effect)}"))
        return lines + self._changes()

    def _write(self, key: bytes, value: bytes | None) -> str:
        self.written.append((key, value))
        if value is None:
            self.disk.pop(key)
            name = key[4:].decode(errors="replace").rstrip("\0")
            return f"delete group {name}" if key[1] == 2 else "delete offset"
        self.disk[key] = value
        read = read_record(key, value)
        if isinstance(read, GroupMetadata):
            return f"group {read.group_id}"
        assert isinstance(read, tuple)
        assert not isinstance(read, ConsumerRecord)
        group_id, (topic, partition), committed = read
        return f"offset {group_id} {topic}-{partition} {committed.offset}"

    def _changes(self) -> list[str]:
        now = {group_id: _picture(group) for group_id, group in self.core.groups.items()}
        lines = [
            f"= {group_id} {picture}"
            for group_id, picture in now.items()
            if self._shown.get(group_id) != picture
        ]
        lines += [f"= {group_id} gone" for group_id in self._shown if group_id not in now]
        self._shown = now
        return [_short(line) for line in lines]


def subscription(topics: list[str]) -> bytes:
    """The protocol metadata that a consumer sends."""
    return b"\0\0" + ConsumerProtocolSubscription(topics=topics).encode(0)


def _picture(group: Any) -> str:
    members = [member_id + "*" * (member_id == group.leader) for member_id in group.members]
    pending = [f"{member_id}?" for member_id in sorted(group.pending_members)]
    return f"{group.state.value} {group.generation} ({', '.join(members + pending)})"


def _result(effect: Answer) -> str:
    match effect.result:
        case e.JoinResult() as r if r.error.name == "NONE":
            members = ",".join(m.member_id for m in r.members)
            extra = " skip" if r.skip_assignment else ""
            return (
                f"id={r.member_id} gen={r.generation} {r.protocol_name} leader={r.leader}"
                f" [{members}]{extra}"
            )
        case e.JoinResult() as r:
            return f"{r.error.name} id={r.member_id}"
        case e.SyncResult() as r if r.error.name == "NONE":
            return f"{r.protocol_name} '{r.assignment.decode()}'"
        case e.LeaveResult() as r if r.error.name == "NONE":
            return " ".join(error.name for error in r.errors)
        case e.CommitResult() | e.DeleteGroupsResult() as r:
            return " ".join(error.name for error in r.errors)
        case e.OffsetDeleteResult() as r if r.error.name == "NONE":
            return " ".join(error.name for error in r.errors)
        case e.OffsetFetchResult() as r:
            return " ".join(_fetched(group) for group in r.groups)
        case e.ListGroupsResult() as r:
            return " ".join(f"{g.group_id}:{g.protocol_type}:{g.state}" for g in r.groups) or "none"
        case e.DescribeGroupsResult() as r:
            return " ".join(_described(group) for group in r.groups)
        case e.TransactionCompleted():
            return "completed"
        case DescribeConsumerGroupsResult():
            raise AssertionError("transcripts are of classic groups")
        case r:
            return str(r.error.name)


def _fetched(group: e.FetchedGroup) -> str:
    shown = [f"{t}-{p}={c.offset if c else None}" for (t, p), c in group.offsets]
    return f"{group.group_id}:{group.error.name}[{','.join(shown)}]"


def _described(group: e.DescribedGroup) -> str:
    members = [
        f"{m.member_id}:{m.metadata.decode()}:{m.assignment.decode()}" for m in group.members
    ]
    what = f"{group.protocol_type}:{group.protocol_name}"
    return f"{group.group_id} {group.error.name} {group.state} {what} [{','.join(members)}]"


def _short(text: str) -> str:
    return _UUID.sub(lambda found: str(int(found[1], 16)), text)


def _long(text: str) -> str:
    return re.sub(
        r"\b([a-z]+)-(\d+)\b", lambda m: f"{m[1]}-00000000-0000-4000-8000-{int(m[2]):012x}", text
    )
