"""Simulates the controllers of a cluster: one is active and decides with the server's
``Controller``; the log that they share commits what it proposes, or loses it with the leadership.

The quorum itself is not simulated here (``tests.sim`` does that): the log has one order, and
commits in milliseconds. A controller that was replaced goes on until it hears of it, and nothing
that it proposes is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.controller.controller import Controller, Decision
from gateway.controller.features import default_features
from gateway.controller.records import Operation
from gateway.controller.settings import ControllerSettings
from gateway.ports.streamed import Streamed
from kwire.cluster import Loader
from kwire.message import Message
from kwire.protocol.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from kwire.protocol.metadata_version import LATEST_PRODUCTION_METADATA_VERSION
from tests.sim.brokers.processes import SimulatedProcess

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
#: Records of an answer to FetchMetadata, and how long one waits for news, s.
RECORDS_MAX = 200
WAIT_S = 0.4


class FetchMetadata(NamedTuple):
    """Asks for the committed records from ``offset`` on."""

    offset: int


class Records(NamedTuple):
    """The records from an offset on: (offset, epoch, record); None for a control record."""

    records: list[tuple[int, int, Message | None]]


class NotController(NamedTuple):
    """The process that was asked is not the active controller."""


class ToController(NamedTuple):
    """A request for the active controller, in a version."""

    request: Message
    version: int


class MetadataLog:
    """The committed records, and the image that they give."""

    def __init__(self) -> None:
        self.records: list[tuple[int, Message | None]] = []
        self.loader = Loader()
        self.epoch = 0

    @property
    def image(self) -> Any:
        return self.loader.image

    def commit(self, epoch: int, message: Message | None) -> None:
        """Append a committed record."""
        offset = len(self.records)
        self.records.append((epoch, message))
        if message is None:
            self.loader.skip_to(offset + 1, epoch)
        else:
            self.loader.load(message, offset, epoch)


class _Pending(NamedTuple):
    """Records that a leader has proposed, and the call to make when they are committed."""

    records: tuple[Message, ...]
    committed: Callable[[], None]


class ControllerProcess(SimulatedProcess):
    """One controller."""

    def __init__(self, world: BrokerWorld, id: int) -> None:
        super().__init__(world, id)
        self.controller: Controller | None = None
        self.epoch = -1
        self._pending: list[_Pending] = []
        self._parked: list[tuple[int, int]] = []

    def __str__(self) -> str:
        return f"controller {self.id}"

    # --- leadership

    def on_start(self) -> None:
        self.world.controllers.wants_leader()

    def on_halt(self) -> None:
        self.controller = None
        self._pending, self._parked = [], []
        if self.world.controllers.active is self:
            self.world.controllers.wants_leader()

    def lead(self, epoch: int) -> None:
        """Become the active controller."""
        world = self.world
        self.epoch, self._pending = epoch, []
        self.controller = Controller(
            world.controllers.settings(self.id), random=Random(f"{world.seed}/{epoch}").randbytes
        )
        image = world.metadata.image
        operations = self.controller.activate(image, self.wall_ms, steady_ms=self.now_ms)
        self.controller.log_ends(len(world.metadata.records))
        for operation in operations:
            self._propose(operation, lambda: None)
        self._tick(epoch)

    def resign(self, epoch: int) -> None:
        """Hear that the leadership of this epoch is over."""
        if self.controller is not None and self.epoch == epoch:
            self.controller.deactivate()
            self.controller = None
            self._pending = []
            for number, asked in list(self.asked.items()):
                if isinstance(asked.message, ToController):
                    self.reply(number, NotController())

    def _tick(self, epoch: int) -> None:
        if self.controller is None or self.epoch != epoch:
            return
        for operation in self.controller.poll(self.wall_ms, steady_ms=self.now_ms):
            self._propose(operation, lambda: None)
        self.after(0.1, lambda: self._tick(epoch))

    # --- proposals

    def _propose(self, operation: Operation | None, committed: Callable[[], None]) -> None:
        records = () if operation is None else tuple(one.message for one in operation.records)
        self._pending.append(_Pending(records, committed))
        if len(self._pending) == 1:
            self._commit_later()

    def _commit_later(self) -> None:
        epoch = self.epoch
        self.after(0.001 + 0.01 * self.chance(1), lambda: self._commit(epoch))

    def _commit(self, epoch: int) -> None:
        if epoch != self.epoch or self.controller is None or not self._pending:
            return
        if self.world.controllers.active is not self:
            return  # what it proposes stays without a majority
        self._commit_first()
        if self._pending:
            self._commit_later()

    def _commit_first(self) -> None:
        one = self._pending.pop(0)
        for message in one.records:
            self.world.controllers.commit(self.epoch, message)
        one.committed()

    def leave(self, share: float) -> None:
        """Another one is elected: ``share`` of the proposals are in its log, and are committed."""
        for _ in range(int(len(self._pending) * share)):
            pending = self._pending.pop(0)
            for message in pending.records:
                self.world.controllers.commit(self.epoch, message)

    # --- requests

    def on_request(self, number: int, message: Any) -> None:
        if isinstance(message, FetchMetadata):
            self._fetch(number, message.offset)
        elif self.controller is None:
            self.reply(number, NotController())
        else:
            decision = self.controller.handle(
                message.request,
                message.version,
                _allow,
                self.wall_ms,
                steady_ms=self.now_ms,
            )
            self._answer_later(number, decision)

    def _answer_later(self, number: int, decision: Decision) -> None:
        answer = decision.answer
        whole = answer.whole() if isinstance(answer, Streamed) else answer
        is_free = decision.operation is None and not decision.needs_confirmation
        if is_free and not self._pending:
            self.reply(number, whole)
        else:
            self._propose(decision.operation, lambda: self.reply(number, whole))

    # --- observers

    def _fetch(self, number: int, offset: int) -> None:
        if offset < len(self.world.metadata.records):
            self._give(number, offset)
            return
        self._parked.append((number, offset))
        self.after(WAIT_S, lambda: self._give_parked(number))

    def _give_parked(self, number: int) -> None:
        for one in list(self._parked):
            if one[0] == number:
                self._parked.remove(one)
                self._give(*one)

    def _give(self, number: int, offset: int) -> None:
        known = self.world.metadata.records
        found = [(at, *known[at]) for at in range(offset, min(len(known), offset + RECORDS_MAX))]
        self.reply(number, Records(found))

    def wake(self) -> None:
        """Records were committed."""
        parked, self._parked = self._parked, []
        for number, offset in parked:
            self._give(number, offset)


def _allow(operation: str, resource_type: str, name: str) -> bool:
    return True


class Controllers:
    """All controllers: which one leads, and what is committed."""

    def __init__(self, world: BrokerWorld, count: int) -> None:
        self._world = world
        self.processes: list[ControllerProcess] = []
        self.active: ControllerProcess | None = None
        self._is_electing = False
        for id in range(1001, 1001 + count):
            self.processes.append(ControllerProcess(world, id))

    def settings(self, node_id: int) -> ControllerSettings:
        """The configuration of a controller."""
        shape = self._world.shape
        features = default_features(LATEST_PRODUCTION_METADATA_VERSION)
        features[ELIGIBLE_LEADER_REPLICAS_VERSION] = int(shape.elr)
        return ControllerSettings(
            node_id=node_id,
            serving_nodes=tuple(one.id for one in self.processes),
            features=features,
            cluster_id=CLUSTER_ID,
            broker_session_timeout_ms=int(shape.session_s * 1000),
            max_idle_interval_ms=0,
            leader_imbalance_check_interval_ms=3_000,
            unclean_leader_election_interval_ms=1_000,
        )

    def commit(self, epoch: int, message: Message | None) -> None:
        """A record is committed: every controller has it, observers hear of it."""
        world = self._world
        world.metadata.commit(epoch, message)
        if message is not None:
            world.note("metadata %d: %s", len(world.metadata.records) - 1, _short(message))
            world.checker.decided(message)
        for one in self.processes:
            if one.up and world.now >= one.paused_until:
                one.wake()

    def wants_leader(self) -> None:
        """The active controller is gone, or there was none: elect one in a while."""
        if self._is_electing:
            return
        self._is_electing = True
        world = self._world
        world.at(world.now + 0.05 + 0.5 * world.chance.number(-8, 0, 0, world.events), self._elect)

    def _elect(self) -> None:
        self._is_electing = False
        world, before = self._world, self.active
        able = [one for one in self.processes if one.up and world.now >= one.paused_until]
        if not able:
            self._is_electing = True
            world.at(world.now + 0.1, self._elect)
            return
        at = world.chance.number(-9, 0, 0, world.events)
        chosen = able[int(at * len(able))]
        if before is not None and before.up:
            before.leave(world.chance.number(-10, 0, 0, world.events))
            # It hears of its successor now or later, and answers until then.
            wait = 2.0 * world.chance.number(-11, 0, 0, world.events)
            before.after(0.0 if before is chosen else wait, partial(before.resign, before.epoch))
        world.metadata.epoch += 1
        self.active = chosen
        world.note("%s leads in epoch %d", chosen, world.metadata.epoch)
        self.commit(world.metadata.epoch, None)
        chosen.lead(world.metadata.epoch)


def _short(message: Message) -> str:
    names: tuple[str, ...] = tuple(message.__slots__)
    shown = {
        name: getattr(message, name)
        for name in names
        if name not in ("features", "end_points", "unknown_tags")
        and getattr(message, name) not in (None, [], ())
    }
    return f"{message.NAME} {shown}"
