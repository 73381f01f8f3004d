"""Carries requests and responses between simulated processes: they are lost, late, duplicated or
cut off in one direction, or reach a process that has restarted since.

It knows no message. ``Network`` adds what the quorum's messages have to say.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gateway.quorum.effects import Failure, FailureKind, Reply
from gateway.quorum.events import Answered, Cancelled, Event, Failed, Requested
from tests.sim import chance

#: The time until a refused connection fails, s.
_REFUSED_S: Final = 0.0005


class Asked(NamedTuple):
    """A request that a process has not answered: the process that waits for it (None: a client), in
    which incarnation, and under which number.
    """

    origin: Any
    incarnation: int
    number: int
    version: int
    message: Any


class Links:
    """Links between all nodes. ``cut``: pairs (from, to) of places between which no message
    passes.
    """

    def __init__(self, world: Any) -> None:
        self._world = world
        self.cut: set[tuple[int, int]] = set()
        self.by_address: dict[Any, Any] = {}
        self.versions: dict[int, range] = {}  #: that the nodes support
        self.sent = 0
        self._numbers = 0
        self._on_link: dict[tuple[int, int], int] = {}

    # --- requests

    def send(self, node: Any, send: Any) -> None:
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
        request = self._carried(request, version)
        target = self.by_address.get(send.address)
        if target is None or not target.up:
            self._pending(node, incarnation, send.number, self._no_process(node.place))
            return
        chances, faults, a, b = world.chance, world.faults, node.place, target.place
        if self._is_lost(node, send, target):
            return
        asked = Asked(node, incarnation, send.number, version, request)
        world.at(self._arrival(node, send, target), lambda: self._arrive(target, asked))
        if chances.happens(chance.TWICE, a, b, faults.twice):
            again = (
                world.now
                + self._latency(a, b)
                + 2.0 * chances.number(chance.TWICE, a, b, world.events, 1)
            )
            world.at(again, lambda: self._arrive(target, asked))

    def _is_lost(self, node: Any, send: Any, target: Any) -> bool:
        """Whether the request does not arrive."""
        world, a, b = self._world, node.place, target.place
        return (a, b) in self.cut or world.chance.happens(chance.LOSE, a, b, world.faults.lose)

    def _arrival(self, node: Any, send: Any, target: Any) -> float:
        """When the request arrives."""
        return self._world.now + self._latency(node.place, target.place)

    def _no_process(self, origin: int) -> FailureKind:
        """How a request to a node that is down fails: its machine is up, or is down as well."""
        up = self._world.chance.number(chance.REFUSED, origin, -1, self._world.events) < 0.5
        return FailureKind.REFUSED if up else FailureKind.UNREACHABLE

    def _arrive(self, target: Any, asked: Asked) -> None:
        if not target.up:
            if asked.origin is not None:
                kind = self._no_process(asked.origin.place)
                self._pending(asked.origin, asked.incarnation, asked.number, kind)
            return
        if self._answers_itself(target, asked):
            return
        self._numbers += 1
        target.asked[self._numbers] = asked
        self.deliver(
            target, Requested(self._numbers, asked.message, asked.version, target.listener)
        )

    # --- responses

    def reply(self, node: Any, reply: Reply) -> None:
        """A response leaves ``node``, with the bytes that it is to carry."""
        asked = node.asked.pop(reply.number, None)
        if asked is None:
            return  # the connection is gone
        self.sent += 1
        answer: Any = reply.message
        if not self._fill(node, reply, answer):
            return
        self._check_answer(node, asked, answer)
        answer = self._carried(answer, asked.version)
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

    def _answer(self, origin: Any, asked: Asked, answer: Any, delay: float) -> None:
        def arrive() -> None:
            if origin.up and origin.incarnation == asked.incarnation:
                origin.sends.pop(asked.number, None)
                self.deliver(origin, Answered(asked.number, answer, asked.version))

        self._world.at(self._world.now + delay, arrive)

    # --- failures

    def halted(self, node: Any) -> None:
        """Peers that wait for a response of ``node`` may notice at once that it is down."""
        world = self._world
        for other in world.nodes:
            if other.up and other is not node:
                for number, send in list(other.sends.items()):
                    hangs_up = not world.chance.happens(
                        chance.HANG_UP, other.place, node.place, 0.3
                    )
                    is_asked = self.by_address.get(send.address) is node
                    if is_asked and (node.place, other.place) not in self.cut and hangs_up:
                        self._pending(other, other.incarnation, number, FailureKind.CLOSED)
                for number, asked in list(other.asked.items()):
                    if asked.origin is node:
                        self._hang_up(other, number)

    def _pending(self, node: Any, incarnation: int, number: int, kind: FailureKind) -> None:
        self._world.at(
            self._world.now + _REFUSED_S, lambda: self._fail(node, incarnation, number, kind)
        )

    def _fail(self, node: Any, incarnation: int, number: int, kind: FailureKind) -> None:
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

    def _hang_up(self, node: Any, number: int) -> None:
        """The requester of ``number`` is gone: the process notices a little later."""

        def gone() -> None:
            if node.up and node.asked.pop(number, None) is not None:
                self.deliver(node, Cancelled(number))

        self._world.at(self._world.now + 0.01, gone)

    # --- delivery

    def deliver(self, node: Any, event: Event) -> None:
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

    # --- what a kind of cluster adds

    def _carried(self, message: Any, version: int) -> Any:
        """The message as its receiver reads it."""
        return message

    def _answers_itself(self, target: Any, asked: Asked) -> bool:
        """Whether the network has answered for the process."""
        return False

    def _fill(self, node: Any, reply: Reply, answer: Any) -> bool:
        """Put what is on the disk into a response; False if the connection is closed instead."""
        return True

    def _check_request(self, node: Any, request: Any) -> None:
        """A request leaves ``node``."""

    def _check_answer(self, node: Any, asked: Asked, answer: Any) -> None:
        """A response leaves ``node``."""
