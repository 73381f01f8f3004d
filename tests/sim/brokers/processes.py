"""Simulates what every process of a schedule has: requests and their answers, timers, a clock, and
an end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.quorum.effects import Reply
from gateway.quorum.events import Answered, Cancelled, Event, Failed, Requested
from tests.sim.links import Asked

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

#: Hears of the answer, None if there is none.
OnAnswer = Callable[[Any], None]
_VERSIONS: Final = range(1)


class Call(NamedTuple):
    """A request on its way, in the form that ``tests.sim.links`` carries. Requests of the same
    ``connection`` keep their order; 0: a connection of its own.
    """

    number: int
    address: int
    message: Any
    timeout_s: float
    connection: int = 0
    api_key: int = 0
    versions: range = _VERSIONS

    def request(self, version: int) -> Any:
        """The message."""
        return self.message


class SimulatedProcess:
    """A process at a ``place``; ``id`` is its name, ``address`` its place."""

    listener = ""

    def __init__(self, world: BrokerWorld, id: int) -> None:
        self.world, self.id = world, id
        self.place = self.address = len(world.nodes)
        self.up = False
        self.incarnation = 0
        self.clock_rate = 1.0
        self.clock_base = 100.0 * (self.place + 1)
        self.wall_skew_ms = 0
        self.paused_until = 0.0
        self.removed = False
        self.stopped = ""
        self._numbers = itertools.count(1)
        self._forget()
        world.nodes.append(self)
        world.network.by_address[self.place] = self

    def _forget(self) -> None:
        """Reset the state that a process loses when it ends."""
        self.asked: dict[int, Asked] = {}
        self.sends: dict[int, Call] = {}
        self._waiting: dict[int, OnAnswer] = {}

    # --- its life

    def start(self) -> None:
        """Start a process on what the disk holds."""
        self._forget()
        self.incarnation += 1
        self.paused_until = 0.0
        self.up = True
        self.world.note("%s starts", self)
        self.on_start()

    def halt(self, why: str) -> None:
        """End the process at once."""
        if not self.up:
            return
        self.world.note("%s ends: %s", self, why)
        self.up = False
        self.world.network.halted(self)
        self._forget()
        self.on_halt()

    def on_start(self) -> None:
        """The process begins."""

    def on_halt(self) -> None:
        """The process has ended."""

    # --- time

    @property
    def now(self) -> float:
        """Its clock that never goes back, s."""
        return self.clock_base + self.world.now * self.clock_rate

    @property
    def now_ms(self) -> int:
        """The same in ms."""
        return int(self.now * 1000)

    @property
    def wall_ms(self) -> int:
        """Its wall clock, which may jump."""
        return 1_700_000_000_000 + int(self.world.now * 1000) + self.wall_skew_ms

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        """Call ``happen`` in ``seconds`` of its clock, unless the process has ended by then; later
        while it is suspended.
        """
        world, incarnation = self.world, self.incarnation

        def due() -> None:
            if not self.up or self.incarnation != incarnation:
                return
            if world.now < self.paused_until:
                world.at(self.paused_until, due)
                return
            world.events += 1
            happen()

        world.at(world.now + seconds / self.clock_rate, due)

    # --- messages

    def call(
        self,
        address: int,
        message: Any,
        timeout_s: float,
        on_answer: OnAnswer,
        connection: int = 0,
    ) -> None:
        """Send a request; ``on_answer`` is called once."""
        call = Call(next(self._numbers), address, message, timeout_s, connection)
        self.sends[call.number] = call
        self._waiting[call.number] = on_answer
        self.world.network.send(self, call)

    def reply(self, number: int, message: Any) -> None:
        """Answer a request."""
        if self.up:
            self.world.network.reply(self, Reply(number, message))

    def step(self, event: Event) -> None:
        """An event of the network happens to the process."""
        if not self.up:
            return  # it ended while it was suspended
        self.world.events += 1
        self.world.trace.append((self.world.now, self.place))
        if isinstance(event, Requested):
            self.on_request(event.number, event.message)
        elif isinstance(event, Answered):
            self._answered(event.number, event.message)
        elif isinstance(event, Failed):
            self._answered(event.number, None)
        elif isinstance(event, Cancelled):
            self.on_cancelled(event.number)

    def _answered(self, number: int, message: Any) -> None:
        self.sends.pop(number, None)
        on_answer = self._waiting.pop(number, None)
        if on_answer is not None:
            on_answer(message)

    def on_request(self, number: int, message: Any) -> None:
        """A request has come."""

    def on_cancelled(self, number: int) -> None:
        """The requester has gone."""

    def chance(self, salt: int = 0) -> float:
        """A number of [0, 1) that belongs to this moment of the process."""
        return self.world.chance.number(-7, self.place, self.incarnation, self.world.events, salt)
