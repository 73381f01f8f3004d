"""Lets voters whose directories were rescued elect a leader among themselves, in virtual time.

Each voter is kwire's own, over files of its own; a message goes from one core to the other without
a socket, through the codec. It compares no state: ``rescue_check`` does. Source: an election of
KIP-595, which ends when the leader has committed a record of its own epoch.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gateway.base.address import Address
from gateway.quorum.effects import (
    Advance,
    Append,
    Effect,
    Failure,
    FailureKind,
    LogRange,
    Persist,
    Reply,
    Send,
)
from gateway.quorum.events import Answered, Durable, Event, Failed, Requested, Tick
from gateway.quorum.raft import Raft
from gateway.sources.log_reader import content
from gateway.sources.quorum_log import QuorumLog
from kwire.message import Message

#: Events of an election at most, for each voter: one takes some twenty.
_EVENTS_MAX: Final = 400


class Elected(NamedTuple):
    """The leader's node id and epoch."""

    leader_id: int
    epoch: int


@dataclass
class Voter:
    """A voter of the election. ``addresses``: where the others look for it; ``end``: the offset
    behind its last record.
    """

    raft: Raft
    log: QuorumLog
    addresses: Sequence[Address]
    listener: str
    end: int
    events: deque[Event] = field(default_factory=deque)


class _Asked(NamedTuple):
    requester: Voter
    number: int
    version: int


class Election:
    """One election of ``voters``. ``wall_ms`` is the time of day all the while."""

    def __init__(self, voters: Sequence[Voter], wall_ms: int) -> None:
        self._voters, self._wall_ms = voters, wall_ms
        self._by_address: Mapping[Address, Voter] = {
            address: voter for voter in voters for address in voter.addresses
        }
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._now = 0.0

    def run(self) -> Elected | None:
        """Return the leader once it has committed a record of its own; None if none comes that
        far. Raises LogError, OSError.
        """
        for voter in self._voters:
            self._perform(voter, voter.raft.start(self._now, self._wall_ms))
        for _ in range(_EVENTS_MAX * len(self._voters)):
            voter, event = self._next()
            if self._perform(voter, voter.raft.step(event, self._now, self._wall_ms)):
                return Elected(voter.raft.node_id, voter.raft.epoch)
        return None

    def _next(self) -> tuple[Voter, Event]:
        """The next event: of a voter that has one, else the passing of time."""
        for voter in self._voters:
            if voter.events:
                return voter, voter.events.popleft()
        voter = min(self._voters, key=lambda one: one.raft.deadline)
        self._now = max(self._now, min(voter.raft.deadline, self._now + 1))
        return voter, Tick()

    def _perform(self, voter: Voter, effects: Sequence[Effect]) -> bool:
        """Perform the effects; True once the voter leads and has committed its own record."""
        # Voters with equal logs truncate nothing and fetch no snapshot.
        disk = [one for one in effects if isinstance(one, Persist | Append)]
        if disk:
            voter.log.perform(disk)
            voter.events.append(Durable(disk[-1].token))
        for effect in effects:
            if isinstance(effect, Send):
                self._send(voter, effect)
            elif isinstance(effect, Reply):
                self._reply(voter, effect)
            elif isinstance(effect, Advance) and effect.high_watermark > voter.end:
                return True
        return False

    def _send(self, voter: Voter, send: Send) -> None:
        target = self._by_address.get(send.address)
        if target is None:
            failure = Failure(FailureKind.REFUSED, f"{send.address} belongs to no directory here")
            voter.events.append(Failed(send.number, failure))
            return
        number, version = next(self._numbers), send.versions[-1]
        self._asked[number] = _Asked(voter, send.number, version)
        request = _through_codec(send.request(version), version)
        target.events.append(Requested(number, request, version, target.listener))

    def _reply(self, voter: Voter, reply: Reply) -> None:
        asked = self._asked.pop(reply.number)
        message: Any = reply.message
        if isinstance(reply.read, LogRange):
            read = voter.log.read_range(reply.read)
            try:
                message.responses[0].partitions[0].records = content(read.chunks)
            finally:
                read.release()
        answer = _through_codec(message, asked.version)
        asked.requester.events.append(Answered(asked.number, answer, asked.version))


def _through_codec(message: Message, version: int) -> Message:
    return type(message).decode(message.encode(version), version)
