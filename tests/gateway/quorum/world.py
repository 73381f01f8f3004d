"""Runs a few nodes of a quorum in one process, step by step, for transcripts and unit tests.

Messages and disks are fast and reliable unless a test cuts a link or stops a disk, and time passes
only when a test lets it. Every message goes through its bytes, so that one that cannot be encoded
is found. ``tests/sim/world.py`` is another world, because it draws every delay and fault from a
seed and checks invariants after each event: a test of one situation could not say what happens
next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gateway.quorum import effects as fx
from gateway.quorum.effects import BeginSnapshot, Failure, FailureKind, Report, SnapshotChunk, Stop
from gateway.quorum.events import Answered, Durable, Event, Failed, Installed, Requested, Tick
from gateway.quorum.raft import Raft
from gateway.quorum.settings import RaftSettings
from gateway.quorum.voter_set import VoterSet
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.quorum.model_disk import (
    CLUSTER,
    LISTENER,
    WALL_MS,
    Disk,
    _heads,
    address,
    directory,
    voter_node,
)


class Member:
    """One node with its disk. ``raft`` is None while it is down."""

    def __init__(self, world: World, id: int, settings: RaftSettings, disk: Disk) -> None:
        self.world, self.id, self.settings, self.disk = world, id, settings, disk
        self.raft: Raft | None = None
        self.sends: dict[int, fx.Send] = {}
        self.held: list[tuple[int, Callable[[], None]]] = []  # what waits for a token
        self.durable = 0
        self.stuck = False  #: the disk does nothing until told
        self.advanced = 0
        self.outcome: dict[int, fx.Accepted | fx.Refused] = {}
        self.told: list[str] = []
        self.stopped: str | None = None
        self.done = False
        self.leads: int | None = None

    def boot(self) -> None:
        self.disk.pending.clear()
        self.held.clear()
        self.sends.clear()
        self.durable, self.leads, self.stopped, self.done = 0, None, None, False
        self.advanced = self.disk.high_watermark
        self.raft = Raft(
            self.settings,
            self.disk.stored(),
            random=self.world.random(self.id),
            now=self.world.now,
            wall_ms=WALL_MS,
        )
        self.perform(self.raft.start(self.world.now, self.world.wall_ms))

    def kill(self) -> None:
        self.raft = None
        self.disk.pending.clear()

    def step(self, event: Event) -> None:
        if self.raft is not None and not self.done and self.stopped is None:
            self.perform(self.raft.step(event, self.world.now, self.world.wall_ms))

    def perform(self, effects: Iterable[fx.Effect]) -> None:
        for effect in effects:
            self.world.seen.append((self.id, effect))
            self._perform(effect)
        if not self.stuck:
            self.sync()

    def sync(self) -> None:
        """The disk does what it has to do, and says so."""
        token = self.disk.sync()
        if token and self.raft is not None:
            self.durable = max(self.durable, token)
            ready = [do for after, do in self.held if after <= self.durable]
            self.held = [(after, do) for after, do in self.held if after > self.durable]
            for do in ready:
                do()
            self.step(Durable(token))

    def _perform(self, effect: fx.Effect) -> None:
        disk = self.disk
        match effect:
            case fx.Persist(token, state):
                disk.pending.append((token, lambda: setattr(disk, "state", state)))
            case fx.Append(token, base_offset, data):
                disk.pending.append((token, lambda: disk.append(base_offset, bytes(data))))
            case fx.Truncate(token, offset):
                disk.pending.append((token, lambda: disk.truncate(offset)))
            case BeginSnapshot() | fx.AbandonSnapshot():
                disk.part = b""
            case SnapshotChunk(position, data, _, token):
                assert position == len(disk.part)
                disk.part += data
                disk.pending.append((token, lambda: None))
            case fx.InstallSnapshot(token, id):
                disk.pending.append((token, lambda: self._install(id)))
            case fx.Send():
                self._after(effect.after, lambda: self.world.send(self, effect))
            case fx.Reply():
                self._after(effect.after, lambda: self.world.reply(self, effect))
            case fx.Advance(high_watermark):
                assert self.advanced < high_watermark <= disk.end, "committed, and not on this disk"
                self.advanced = high_watermark
            case fx.Accepted(number) | fx.Refused(number):
                self.outcome[number] = effect
            case fx.Leading(epoch):
                self.leads = epoch
            case fx.NotLeading():
                self.leads = None
            case Stop(reason):
                self.stopped = reason
            case fx.ShutDownComplete():
                self.done = True
            case Report(event, fields):
                self.told.append(
                    f"{event}: {', '.join(f'{name}={value}' for name, value in fields.items())}"
                )
            case _:
                pass

    def _install(self, id: SnapshotId) -> None:
        data = self.disk.part
        self.disk.install(id, data)
        voters: list[tuple[int, VoterSet]] = []
        versions: list[tuple[int, int]] = []
        _heads(data, 0, voters, versions)
        event = Installed(id, voters[-1][1] if voters else None, versions[-1][1] if versions else 0)
        self.world.pending.append((self.id, event))

    def _after(self, token: int, do: Callable[[], None]) -> None:
        if token <= self.durable:
            do()
        else:
            self.held.append((token, do))


class World:
    """The nodes, and what is between them. ``cut``: pairs (from, to) that nothing passes; ``lost``:
    what is dropped.
    """

    def __init__(self, random: Callable[[int], Callable[[], float]] | None = None) -> None:
        self.now = 100.0
        self.members: dict[int, Member] = {}
        self.cut: set[tuple[int, int]] = set()
        self.queue: list[Callable[[], None]] = []  #: what is on its way
        self.pending: list[tuple[int, Event]] = []
        self.seen: list[tuple[int, fx.Effect]] = []
        self.requests: dict[
            int, tuple[int, int, int]
        ] = {}  #: number -> (asker, its number, version)
        self._number = 0
        self._random = random or (lambda id: lambda: (id % 4) / 4)
        self.leaders: dict[int, int] = {}
        self.edit: Callable[[int, Message], Message] = lambda requester, answer: answer
        self.spy: Callable[[str, int, int, Any], None] = lambda kind, sender, receiver, message: (
            None
        )
        self._written: dict[int, Callable[[Any], None]] = {}

    @property
    def wall_ms(self) -> int:
        return WALL_MS + int((self.now - 100.0) * 1000)

    def random(self, id: int) -> Callable[[], float]:
        return self._random(id)

    def add(
        self,
        id: int,
        *,
        static: Iterable[int] = (),
        formatted: Iterable[int] = (),
        bootstrap: Iterable[int] = (),
        **more: Any,
    ) -> Member:
        settings = RaftSettings(
            node_id=id,
            directory_id=directory(id),
            cluster_id=CLUSTER,
            listener=LISTENER,
            endpoints={LISTENER: address(id)},
            static_voters={voter: address(voter) for voter in static},
            bootstrap=tuple(map(address, bootstrap)),
            **more,
        )
        formatted = tuple(formatted)
        disk = Disk(formatted=VoterSet.of(map(voter_node, formatted)) if formatted else None)
        member = self.members[id] = Member(self, id, settings, disk)
        return member

    def up(self) -> list[Member]:
        return [
            member
            for member in self.members.values()
            if member.raft is not None and not member.done
        ]

    # --- the network ---

    def send(self, member: Member, send: fx.Send) -> None:
        member.sends[send.number] = send
        self.queue.append(lambda: self._arrive(member, member.raft, send))

    def _arrive(self, member: Member, raft: Raft | None, send: fx.Send) -> None:
        to = next(
            (other for other in self.members.values() if address(other.id) == send.address), None
        )
        if to is None or to.raft is None or to.done or (member.id, to.id) in self.cut:
            kind = (
                FailureKind.REFUSED
                if to is None or to.raft is None or to.done
                else FailureKind.TIMEOUT
            )
            return self._fail(member, raft, send.number, Failure(kind, f"{send.address}: {kind}"))
        version = send.versions[-1]
        message = send.request(version)
        arrived = type(message).decode(message.encode(version), version)
        self._number += 1
        number = self._number
        self.requests[number] = member.id, send.number, version
        if isinstance(
            arrived, ApiVersionsRequest
        ):  # any server answers that, not the core of its quorum
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            return self.reply(
                to, fx.Reply(number, ApiVersionsResponse(supported_features=[feature]))
            )
        self.spy(">", member.id, to.id, arrived)
        return to.step(Requested(number, arrived, version, LISTENER))

    def hang_up(self, id: int) -> None:
        """The machine of node ``id`` closes the connections on which others wait for answers."""
        for member in self.up():
            for send in [one for one in member.sends.values() if one.address == address(id)]:
                self._fail(member, member.raft, send.number, Failure(FailureKind.CLOSED, "closed"))

    def _fail(self, member: Member, raft: Raft | None, number: int, why: Failure) -> None:
        if member.raft is raft and number in member.sends:
            del member.sends[number]
            member.step(Failed(number, why))

    def reply(self, member: Member, reply: fx.Reply) -> None:
        asker_id, number, version = self.requests.pop(reply.number)
        message = self._filled(member, reply)
        if asker_id < 0:
            self._written.pop(reply.number)(type(message).decode(message.encode(version), version))
            return
        requester = self.members[asker_id]
        if number not in requester.sends:
            return
        if (member.id, asker_id) in self.cut:
            why = Failure(FailureKind.TIMEOUT, "the answer was lost")
            self.queue.append(lambda: self._fail(requester, requester.raft, number, why))
            return
        message = self.edit(asker_id, message)
        arrived = type(message).decode(message.encode(version), version)
        raft = requester.raft

        def arrive() -> None:
            if requester.raft is raft and requester.sends.pop(number, None) is not None:
                self.spy("<", member.id, asker_id, arrived)
                requester.step(Answered(number, arrived, version))

        self.queue.append(arrive)

    def _filled(self, member: Member, reply: fx.Reply) -> Any:
        message: Any = reply.message
        read = reply.read
        if isinstance(read, fx.LogRange):
            message.responses[0].partitions[0].records = member.disk.read(
                read.offset, read.end, read.max_bytes
            )
        elif isinstance(read, fx.SnapshotRange):
            data = member.disk.snapshots[read.id]
            partition = message.topics[0].partitions[0]
            partition.size = len(data)
            partition.unaligned_records = data[read.position : read.position + read.max_bytes]
        return message

    def request(
        self, to: int, message: Message, version: int, written: Callable[[Any], None] | None = None
    ) -> Any:
        """Ask a node from outside: its answer, None while it waits. ``written`` gets the answer
        whenever it leaves.
        """
        self._number += 1
        answers: list[Any] = []
        self.requests[self._number] = -1, 0, version
        self._written[self._number] = written or answers.append
        arrived = type(message).decode(message.encode(version), version)
        self.members[to].step(Requested(self._number, arrived, version, LISTENER))
        return answers[0] if answers else None

    # --- time ---

    def deliver(self, count: int) -> None:
        """So many messages on their way arrive."""
        while self.queue and count:
            self.queue.pop(0)()
            self.check()
            count -= 1

    def settle(self, most: int = 10_000) -> None:
        """Let everything arrive that is on its way, at this moment."""
        for _ in range(most):
            if self.pending:
                id, event = self.pending.pop(0)
                self.members[id].step(event)
            elif self.queue:
                self.queue.pop(0)()
            else:
                break
            self.check()
        else:
            raise AssertionError("it never ends")

    def tick(self) -> bool:
        """On to the next moment at which some node has to do something. False when there is
        none.
        """
        deadlines = [member.raft.deadline for member in self.up() if member.raft is not None]
        next_at = min(deadlines, default=float("inf"))
        if next_at == float("inf"):
            return False
        self.now = max(self.now, next_at)
        for member in self.up():
            if member.raft is not None and member.raft.deadline <= self.now:
                member.step(Tick())
        self.settle()
        return True

    def run(self, seconds: float) -> None:
        """Let so much time go by."""
        end = self.now + seconds
        self.settle()
        for _ in range(100_000):
            next_at = min(
                (member.raft.deadline for member in self.up() if member.raft is not None),
                default=float("inf"),
            )
            if next_at > end:
                self.now = end
                return
            self.tick()
        raise AssertionError("timers that never end")

    def check(self) -> None:
        """One leader an epoch, over all time."""
        for member in self.up():
            if member.leads is not None:
                assert self.leaders.setdefault(member.leads, member.id) == member.id, (
                    "two leaders of one epoch"
                )
