"""Simulates the network: requests and responses are lost, late, duplicated or cut off in one
direction, or reach a node that has restarted since.

It checks a message that leaves its node: the votes and acknowledgements in it must be on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.quorum.effects import Failure, FailureKind, LogRange, Reply, Send
from gateway.quorum.events import Answered, Cancelled, Event, Failed, Requested
from kwire.message import Message
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from kwire.messages.vote_request import VoteRequest
from kwire.messages.vote_response import VoteResponse
from kwire.uuid import ZERO_UUID
from tests.sim import chance, wire
from tests.sim.history import require
from tests.sim.node import Asked, Node

if TYPE_CHECKING:
    from gateway.base.address import Address
    from tests.sim.world import World

#: The time until a refused connection fails, s.
_REFUSED_S: Final = 0.0005


class Network:
    """Links between all nodes. ``cut``: pairs (from, to) of places between which no message
    passes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.cut: set[tuple[int, int]] = set()
        self.by_address: dict[Address, Node] = {}
        self.codec = False  #: every message goes through the codec
        self.versions: dict[int, range] = dict(wire.NEWEST)  #: that the nodes support
        self.sent = 0
        self._numbers = 0
        self._on_link: dict[tuple[int, int], int] = {}

    # --- requests

    def send(self, node: Node, send: Send) -> None:
        """A request leaves ``node``. It ends in one ``Answered`` or ``Failed``; a late response may
        follow.
        """
        world = self._world
        self.sent += 1
        incarnation = node.incarnation
        timeout = send.timeout_s / node.clock_rate
        world.at(
            world.now + timeout,
            lambda: self._fail(node, incarnation, send.number, FailureKind.TIMEOUT),
        )
        version = min(send.versions[-1], self.versions[send.api_key][-1])
        if version not in send.versions:
            self._pending(node, incarnation, send.number, FailureKind.UNSUPPORTED_VERSION)
            return
        request: Any = send.request(version)
        self._check_request(node, request)
        if self.codec or version != wire.NEWEST[send.api_key][-1]:
            request = wire.through_codec(request, version)
        target = self.by_address.get(send.address)
        if target is None or not target.up:
            self._pending(node, incarnation, send.number, self._no_process(node.place))
            return
        chances, faults, a, b = world.chance, world.faults, node.place, target.place
        if (a, b) in self.cut or chances.happens(chance.LOSE, a, b, faults.lose):
            return
        asked = Asked(node, incarnation, send.number, version, request)
        world.at(world.now + self._latency(a, b), lambda: self._arrive(target, asked))
        if chances.happens(chance.TWICE, a, b, faults.twice):
            again = (
                world.now
                + self._latency(a, b)
                + 2.0 * chances.number(chance.TWICE, a, b, world.events, 1)
            )
            world.at(again, lambda: self._arrive(target, asked))

    def _no_process(self, origin: int) -> FailureKind:
        """How a request to a node that is down fails: its machine is up, or is down as well."""
        up = self._world.chance.number(chance.REFUSED, origin, -1, self._world.events) < 0.5
        return FailureKind.REFUSED if up else FailureKind.UNREACHABLE

    def ask(self, target: Node, request: Message, version: int) -> None:
        """A request of a client, or a forged one."""
        self._arrive(target, Asked(None, 0, 0, version, wire.through_codec(request, version)))

    def _arrive(self, target: Node, asked: Asked) -> None:
        if not target.up:
            if asked.origin is not None:
                kind = self._no_process(asked.origin.place)
                self._pending(asked.origin, asked.incarnation, asked.number, kind)
            return
        if isinstance(asked.message, ApiVersionsRequest):
            if asked.origin is not None and (target.place, asked.origin.place) not in self.cut:
                self._answer(
                    asked.origin,
                    asked,
                    wire.api_versions(),
                    self._latency(target.place, asked.origin.place),
                )
            return
        self._numbers += 1
        target.asked[self._numbers] = asked
        self.deliver(
            target, Requested(self._numbers, asked.message, asked.version, target.listener)
        )

    # --- responses

    def reply(self, node: Node, reply: Reply) -> None:
        """A response leaves ``node``, with the bytes that it is to carry."""
        asked = node.asked.pop(reply.number, None)
        if asked is None:
            return  # the connection is gone
        self.sent += 1
        answer: Any = reply.message
        if reply.read is not None and not self._fill(node, reply, answer):
            return
        self._check_answer(node, asked, answer)
        if self.codec or asked.version != wire.NEWEST[asked.message.API_KEY][-1]:
            answer = wire.through_codec(answer, asked.version)
        world, origin = self._world, asked.origin
        if origin is None:
            world.answered(node, asked.message, answer)
            return
        chances, faults, a, b = world.chance, world.faults, node.place, origin.place
        if (a, b) in self.cut or chances.happens(chance.LOSE_ANSWER, a, b, faults.lose):
            return
        if chances.happens(chance.RESET, a, b, faults.reset):
            self._pending(origin, asked.incarnation, asked.number, FailureKind.CLOSED)
            return
        late = (
            4.0 * chances.number(chance.LATE, a, b, world.events, 1)
            if chances.happens(chance.LATE, a, b, faults.late)
            else 0.0
        )
        self._answer(origin, asked, answer, late + self._latency(a, b))
        if chances.happens(chance.ANSWER_TWICE, a, b, faults.answer_twice):
            self._answer(
                origin,
                asked,
                answer,
                3.0 * chances.number(chance.ANSWER_TWICE, a, b, world.events, 1),
            )

    def _answer(self, origin: Node, asked: Asked, answer: Message, delay: float) -> None:
        def arrive() -> None:
            if origin.up and origin.incarnation == asked.incarnation:
                origin.sends.pop(asked.number, None)
                self.deliver(origin, Answered(asked.number, answer, asked.version))

        self._world.at(self._world.now + delay, arrive)

    def _fill(self, node: Node, reply: Reply, answer: Any) -> bool:
        """Put bytes of the log or of a snapshot into a response. False when the disk no longer has
        them: the connection is closed then.
        """
        read = reply.read
        if isinstance(read, LogRange):
            end = node.disk.log.end_offset
            require(
                read.end <= end,
                "10: node {} gives out records up to {}, on disk is {}",
                node.id,
                read.end,
                end,
            )
            records = node.disk.log.read(read.offset, read.end, read.max_bytes)
            if records is None:
                return False
            if records and self._world.chance.happens(
                chance.CORRUPT, node.place, -1, self._world.faults.corrupt
            ):
                records = records[:-1] + bytes([records[-1] ^ 1])
            answer.responses[0].partitions[0].records = records
            return True
        assert read is not None
        snapshot = node.disk.snapshots.get(read.id)
        if snapshot is None:
            return False
        part = answer.topics[0].partitions[0]
        part.size, part.unaligned_records = (
            len(snapshot.data),
            snapshot.data[read.position : read.position + read.max_bytes],
        )
        return True

    # --- failures

    def halted(self, node: Node) -> None:
        """Nodes that wait for a response of ``node`` may notice at once that it is down."""
        world = self._world
        for other in world.nodes:
            if other.up and other is not node:
                for number, send in list(other.sends.items()):
                    hangs_up = not world.chance.happens(
                        chance.HANG_UP, other.place, node.place, 0.3
                    )
                    if (
                        self.by_address.get(send.address) is node
                        and (node.place, other.place) not in self.cut
                        and hangs_up
                    ):
                        self._pending(other, other.incarnation, number, FailureKind.CLOSED)
                for number, asked in list(other.asked.items()):
                    if asked.origin is node:
                        self._hang_up(other, number)

    def _pending(self, node: Node, incarnation: int, number: int, kind: FailureKind) -> None:
        self._world.at(
            self._world.now + _REFUSED_S, lambda: self._fail(node, incarnation, number, kind)
        )

    def _fail(self, node: Node, incarnation: int, number: int, kind: FailureKind) -> None:
        if not node.up or node.incarnation != incarnation or node.sends.pop(number, None) is None:
            return
        for other in self._world.nodes:
            for key, asked in list(other.asked.items()):
                if asked.origin is node and (asked.incarnation, asked.number) == (
                    incarnation,
                    number,
                ):
                    self._hang_up(other, key)
        self.deliver(node, Failed(number, Failure(kind, f"node {node.id}: {kind.value}")))

    def _hang_up(self, node: Node, number: int) -> None:
        """The requester of ``number`` is gone: the process notices a little later."""

        def gone() -> None:
            if node.up and node.asked.pop(number, None) is not None:
                self.deliver(node, Cancelled(number))

        self._world.at(self._world.now + 0.01, gone)

    # --- delivery

    def deliver(self, node: Node, event: Event) -> None:
        """``event`` happens to ``node``, once it is no longer paused."""
        world = self._world
        if world.now < node.paused_until:
            incarnation = node.incarnation
            world.at(
                node.paused_until,
                lambda: self.deliver(node, event) if node.incarnation == incarnation else None,
            )
        else:
            node.step(event)

    def _latency(self, a: int, b: int) -> float:
        link = (a, b)
        n = self._on_link[link] = self._on_link.get(link, 0) + 1
        world = self._world
        if world.chance.happens(chance.LATE, a, b, world.faults.late):
            return 3.0 * world.chance.number(-2, a, b, n, 1)
        return 0.0005 + world.faults.latency * world.chance.number(-2, a, b, n)

    # --- checks of messages

    def _check_request(self, node: Node, request: Any) -> None:
        checker = self._world.checker
        checker.message_leaves(node, wire.epoch_of_request(request))
        if isinstance(request, VoteRequest):
            part = request.topics[0].partitions[0]
            if not part.pre_vote:
                checker.votes(node, part.replica_epoch, part.replica_id, part.replica_directory_id)
        elif isinstance(request, FetchRequest):
            asked = request.topics[0].partitions[0]
            checker.fetches(node, asked.fetch_offset, asked.last_fetched_epoch)

    def _check_answer(self, node: Node, asked: Asked, answer: Any) -> None:
        checker, request = self._world.checker, asked.message
        checker.message_leaves(node, wire.epoch_of_answer(answer))
        if (
            isinstance(answer, VoteResponse)
            and answer.topics
            and answer.topics[0].partitions[0].vote_granted
        ):
            part = request.topics[0].partitions[0]
            if not part.pre_vote:
                directory_id = part.replica_directory_id if asked.version >= 1 else ZERO_UUID
                checker.votes(node, part.replica_epoch, part.replica_id, directory_id)
        elif isinstance(answer, FetchResponse) and answer.responses:
            data = answer.responses[0].partitions[0]
            end = checker.committed.end_offset
            require(
                data.high_watermark <= end,
                "8: node {} reports {} as committed, not {}",
                node.id,
                data.high_watermark,
                end,
            )
            self._check_cluster(node, asked, bool(data.records))
        elif isinstance(answer, FetchSnapshotResponse) and answer.topics:
            self._check_cluster(node, asked, bool(answer.topics[0].partitions[0].unaligned_records))

    def _check_cluster(self, node: Node, asked: Asked, records: bool) -> None:
        same = asked.origin is None or asked.origin.settings.cluster_id == node.settings.cluster_id
        require(
            same or not records, "13: node {} gives records to a node of another cluster", node.id
        )
