"""A raft core and a log that a test scripts, and the driver between the two."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import trio
import trio.testing

from gateway.base.address import Address
from gateway.ports.services import Read
from gateway.quorum.effects import Append, DiskEffect, Effect, Reply, Send
from gateway.quorum.events import Event, Requested
from gateway.security.client_properties import ClientSecurity
from gateway.server.logging.logs import Reports
from gateway.server.node_client.settings import ConnectionSettings
from gateway.server.quorum.raft_driver import RaftDriver
from kwire.message import Message
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.vote_request import VoteRequest
from kwire.messages.vote_response import VoteResponse
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.server.upstream_peer import HEARTBEAT

HOW = ConnectionSettings(ClientSecurity(), "raft-client-1", 2.0)


class ScriptedRaft:
    """A core whose effects for an event are those that ``react`` returns; it notes the events."""

    def __init__(self) -> None:
        self.node_id, self.leader_id = 1, -1
        self.deadline = math.inf
        self.first: list[Effect] = []
        self.events: list[Event] = []
        self.react: Callable[[Event], Sequence[Effect]] = lambda event: ()

    def start(self, now: float, wall_ms: int) -> list[Effect]:
        return self.first

    def step(self, event: Event, now: float, wall_ms: int) -> list[Effect]:
        self.events.append(event)
        return list(self.react(event))

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class ScriptedLog:
    """A log whose disk waits while ``gate`` is shut, and then raises ``fails`` if that is set.

    ``stepwise``: the gate shuts after every batch of effects.
    """

    def __init__(self) -> None:
        self.store = SimpleNamespace(observes=False)
        self.epoch, self.leader_id, self.committed = 0, -1, 0
        self.high_watermark_dirty = False
        self.gate = threading.Event()
        self.gate.set()
        self.busy = threading.Event()
        self.performed: list[list[DiskEffect]] = []
        self.remembered = 0
        self.fails: Exception | None = None
        self.stepwise = False
        self.decision: list[Any] = []
        self.range: Callable[[Any], Read] = lambda wanted: Read((b"records",), 7, lambda: None)
        self.snapshot: Callable[[Any], tuple[int, bytes]] = lambda wanted: (100, b"bytes")

    def perform(self, effects: Sequence[DiskEffect]) -> list[Any]:
        self.busy.set()
        assert self.gate.wait(10), "the test did not open the gate"
        self.busy.clear()
        if self.stepwise:
            self.gate.clear()
        if self.fails is not None:
            raise self.fails
        self.performed.append(list(effects))
        decision, self.decision = self.decision, []
        return decision

    def write_high_watermark(self) -> None:
        if self.fails is not None:
            raise self.fails
        self.remembered, self.high_watermark_dirty = self.committed, False

    def commit(self, high_watermark: int) -> None:
        self.committed, self.high_watermark_dirty = high_watermark, True

    def lead(self, epoch: int, leader_id: int) -> None:
        self.epoch, self.leader_id = epoch, leader_id

    def read_range(self, wanted: Any) -> Read:
        return self.range(wanted)

    def read_snapshot(self, wanted: Any) -> tuple[int, bytes]:
        return self.snapshot(wanted)


class Driven:
    """The driver with its fakes, and the responses that were sent."""

    def __init__(self) -> None:
        self.raft, self.log, self.reports = ScriptedRaft(), ScriptedLog(), Reports()
        self.driver = RaftDriver(cast(Any, self.raft), cast(Any, self.log), HOW, self.reports)
        self.answers: list[Message] = []

    def ask(self, *, message: Message | None = None) -> int:
        """Submit a request; its response is added to ``answers``."""
        number = self.driver.number()
        self.driver.handle_request(
            message or VoteRequest(), 2, "CONTROLLER", self.answers.append, number
        )
        return number

    def reply(
        self, after: int = 0, *effects: Effect, answer: Message | None = None, **more: Any
    ) -> None:
        """From now on reply to every request, after ``effects``."""

        def react(event: Event) -> list[Effect]:
            if not isinstance(event, Requested):
                return []
            return [*effects, Reply(event.number, answer or VoteResponse(), after=after, **more)]

        self.raft.react = react


@contextlib.asynccontextmanager
async def driving(prepare: Callable[[Driven], None] = lambda driven: None) -> AsyncIterator[Driven]:
    """Run the driver. An exception that ends it is raised without its groups."""
    driven = Driven()
    prepare(driven)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(driven.driver.run)
            await trio.testing.wait_all_tasks_blocked()
            try:
                yield driven
            finally:
                driven.log.gate.set()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


SNAPSHOT = SnapshotId(10, 1)


def append(token: int) -> Append:
    return Append(token, token, b"batch")


def heartbeat(
    port: int, number: int = 1, *, after: int = 0, api_key: int = HEARTBEAT, timeout_s: float = 5
) -> Send:
    def request(version: int) -> HeartbeatRequest:
        return HeartbeatRequest(group_id="g", generation_id=7, member_id="m")

    return Send(number, 2, Address("127.0.0.1", port), api_key, range(5), timeout_s, request, after)


async def settled() -> None:
    """Wait until every task is blocked."""
    await trio.testing.wait_all_tasks_blocked()
