"""A group coordinator with topics, its disk, and clients of KIP-848."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gateway.base.slices import run
from gateway.groups import (
    Answer,
    Effect,
    EventTime,
    Failure,
    GroupCoordinator,
    LimitExceeded,
    Persist,
    Settings,
)
from gateway.groups.consumer.assignors.group_spec import Assignment
from gateway.groups.consumer.events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    RegexesResolved,
)
from gateway.groups.consumer.group import ConsumerGroup, ResolvedRegex
from gateway.groups.consumer.regex import matching
from gateway.groups.consumer.topics import TopicMetadata
from gateway.groups.effects import GroupConverted, ResolveRegexes
from gateway.groups.events import Event, Result
from kwire.uuid import Uuid

START_MS = 1_700_000_000_000


def owned_partitions(group: ConsumerGroup) -> list[tuple[Uuid, int]]:
    """The partitions that members have, or are giving up."""
    return [
        (topic_id, partition)
        for member in group.members.values()
        for owned in (member.assigned, member.pending_revocation)
        for topic_id, partitions in owned.items()
        for partition in partitions
    ]


class FakeTopics:
    """Topics that a test creates; the id of one is made of its name."""

    def __init__(self, **partitions: int) -> None:
        self.version = self.names_version = 1
        self._topics: dict[str, TopicMetadata] = {}
        self._created: Counter[str] = Counter()
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int, known_id: Uuid | None = None) -> None:
        """Create a topic, or give it more partitions."""
        self.version += 1
        known = self._topics.get(name)
        if known is None:
            self.names_version = self.version
            known = TopicMetadata(name, known_id or topic_id(name, self._created[name]), 0)
            self._created[name] += 1
        self._topics[name] = known._replace(partitions=max(partitions, known.partitions))

    def delete(self, name: str) -> None:
        self.version += 1
        del self._topics[name]

    def named(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def with_id(self, wanted: Uuid) -> TopicMetadata | None:
        return next((one for one in self._topics.values() if one.topic_id == wanted), None)

    def names(self) -> Iterable[str]:
        return list(self._topics)


def topic_id(name: str, created_before: int = 0) -> Uuid:
    return Uuid(bytes([created_before]) + name.encode().rjust(15, b"\0"))


class World:
    """One coordinator. Time stands until ``wait``."""

    def __init__(self, topics: FakeTopics | None = None, **settings: Any) -> None:
        self.topics = FakeTopics() if topics is None else topics
        self.settings = Settings(**{"consumer_assignment_interval_ms": 0, **settings})
        self.disk: dict[bytes, bytes] = {}
        self.owners: dict[bytes, str] = {}
        self.exceeded: list[str] = []
        self.answers: list[Answer] = []
        self.converted: list[str] = []  # the types of "g" after each conversion
        self.ms = 0
        self._made = 0
        self._to_resolve: list[ResolveRegexes] = []
        self.core = self._loaded()

    def _loaded(self) -> GroupCoordinator:
        core = GroupCoordinator(self.settings, topics=self.topics)
        core.load(list(self.disk.items()), self.moment(), self.owners)
        return core

    def moment(self) -> EventTime:
        """The time, and other random bytes than before."""
        self._made += 1
        return EventTime(self.ms / 1000, START_MS + self.ms, self._made.to_bytes(16, "big"))

    def restart(self) -> None:
        """Load a new coordinator from what is on disk."""
        self.core = self._loaded()

    def wait(self, ms: int) -> None:
        """Let the time pass, and timers fire."""
        self.ms += ms
        self.answers += self.apply(self.core.on_timer(self.moment()))

    def send(self, event: Event) -> Result:
        """Return the result of the event, which comes at once."""
        self.post(event)
        (mine,) = (one for one in self.answers if one.asked.event is event)
        self.answers.remove(mine)
        return mine.result

    def post(self, event: Event) -> None:
        """Send an event whose result may come later; ``answers`` has those that came."""
        self.answers += self.apply(self.core.handle(event, "me", self.moment()))

    def slices_of(self, event: Event) -> int:
        """Send an event; return how often its work may be interrupted."""
        work, count = self.core.handle_in_slices(event, "me", self.moment()), 0
        while True:
            try:
                next(work)
            except StopIteration as end:
                self.answers += self.apply(end.value)
                return count
            count += 1

    def taken(self) -> list[tuple[Event, Result]]:
        """Take the answers that came so far, with their events."""
        taken = [(one.asked.event, one.result) for one in self.answers]
        self.answers.clear()
        return taken

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerHeartbeatResult:
        """The result of a heartbeat of a member of group "g"."""
        known: dict[str, Any] = {"group_id": "g", "client_id": "c", "client_host": "/h"}
        event = ConsumerHeartbeat(member_id=member_id, member_epoch=epoch, **{**known, **fields})
        result = self.send(event)
        assert isinstance(result, ConsumerHeartbeatResult)
        return result

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerHeartbeatResult:
        """The result of a first heartbeat."""
        names = {"topic_names": topics} if topics or "topic_regex" not in fields else {}
        said = {"owned": (), "rebalance_timeout_ms": 60_000, **names, **fields}
        return self.beat(member_id, 0, **said)

    def next(self, member_id: str, **fields: Any) -> ConsumerHeartbeatResult:
        """The result of a heartbeat in the member's present epoch."""
        return self.beat(member_id, self.group().members[member_id].epoch, **fields)

    def resolve(self) -> None:
        """Carry out what was asked of the driver: compare expressions with topics."""
        for asked in self._to_resolve:
            names = [name for name in self.topics.names() if asked.may_describe(name)]
            found = {
                regex: ResolvedRegex(frozenset(topics), self.topics.version, START_MS + self.ms)
                for regex, topics in run(matching(asked.regexes, names)).items()
            }
            self.send(RegexesResolved(asked.group_id, found))
        self._to_resolve.clear()

    def group(self, group_id: str = "g") -> ConsumerGroup:
        """The state of a consumer group."""
        consumer = self.core.groups[group_id].consumer
        assert consumer is not None
        return consumer

    def apply(self, effects: list[Effect]) -> list[Answer]:
        """Carry effects out; return the answers."""
        answers = []
        for effect in effects:
            match effect:
                case Persist():
                    for key, value in effect.records:
                        self.owners.pop(key, None)
                        if value is None:
                            self.disk.pop(key, None)
                        else:
                            self.disk[key] = value
                    self.owners.update(effect.owners)
                case Answer():
                    answers.append(effect)
                case GroupConverted():
                    self.converted.append(effect.type)
                case ResolveRegexes():
                    self._to_resolve.append(effect)
                case LimitExceeded():
                    self.exceeded.append(effect.limit)
                case Failure():
                    raise AssertionError(effect.what) from effect.error
        return answers


def named(assignment: Assignment | None) -> dict[str, list[int]] | None:
    """An assignment by the names of its topics."""
    if assignment is None:
        return None
    return {
        one[1:].lstrip(b"\0").decode(): sorted(partitions)
        for one, partitions in sorted(assignment.items())
    }
