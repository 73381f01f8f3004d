"""An observer's core over a log in memory, with the least that a driver does: the disk is done at
once.

Requests stay open until a test answers them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.quorum.effects import (
    Advance,
    Append,
    Effect,
    ElectionState,
    Failure,
    FailureKind,
    InstallSnapshot,
    LearnClusterId,
    Persist,
    Send,
    Stop,
    Truncate,
)
from gateway.quorum.events import Answered, Durable, Event, Failed, Installed, NotInstalled, Tick
from gateway.quorum.raft import Raft
from gateway.quorum.settings import RaftSettings, Stored
from kwire.errors import DecodeError
from kwire.message import Message
from tests.gateway.quorum.observer.process import ModelLog


class Driven:
    """``open``: the requests that wait for a response, oldest first. ``install``: what the log says
    to a whole snapshot.
    """

    def __init__(
        self,
        settings: RaftSettings,
        log: ModelLog,
        *,
        epoch: int = 0,
        leader_id: int = -1,
        high_watermark: int = 0,
    ) -> None:
        self.log = log
        self.now = 0.0
        self.epoch = epoch
        self.shown = high_watermark
        self.stopped = ""
        self.cluster_id = settings.cluster_id
        self.open: list[Send] = []
        self.sent: list[float] = []
        self.install: Callable[[InstallSnapshot], None] = lambda effect: log.truncate_to_snapshot(
            effect.id
        )
        self.spy: Callable[[Effect], None] = lambda effect: None
        self._settings = settings
        self.raft = self._core(leader_id)
        self.do(self.raft.start(0.0, 0))

    def _core(self, leader_id: int = -1) -> Raft:
        log = self.log
        stored = Stored(
            election=ElectionState(self.epoch, leader_id) if self.epoch or leader_id >= 0 else None,
            start_offset=log.start_offset,
            start_epoch=log.start.epoch,
            end_offset=log.end_offset,
            epochs=log.epochs,
            snapshots=(log.snapshot,) if log.snapshot else (),
            high_watermark=self.shown,
        )
        settings = replace(self._settings, cluster_id=self.cluster_id)
        return Raft(settings, stored, random=lambda: 0.0, now=self.now, wall_ms=0)

    def restart(self) -> None:
        """As the driver does after a failure of the log: a new core from what the log holds, a
        second later.
        """
        self.open.clear()
        self.now += 1.0
        self.raft = self._core()
        self.do(self.raft.start(self.now, 0))

    def step(self, event: Event) -> list[Effect]:
        effects = self.raft.step(event, self.now, 0)
        self.do(effects)
        return effects

    def do(self, effects: list[Effect]) -> None:
        """Perform all of them, then say that the disk is done."""
        token, outcome = 0, list[Installed | NotInstalled]()
        for effect in effects:
            self.spy(effect)
            token = max(token, getattr(effect, "token", 0))
            match effect:
                case Send():
                    self.open.append(effect)
                    self.sent.append(self.now)
                case Append(_, base_offset, data):
                    assert base_offset == self.log.end_offset
                    self.log.append(data)
                    self.log.flush()
                case Truncate(_, offset):
                    assert self.shown <= offset < self.log.end_offset
                    self.log.truncate_to(offset)
                    if self.log.end_offset != offset:
                        self.restart()
                        return
                case InstallSnapshot(_, id):
                    assert id.end_offset >= self.shown
                    try:
                        self.install(effect)
                        outcome.append(Installed(id, None, 0))
                    except DecodeError as error:
                        outcome.append(NotInstalled(id, str(error)))
                case Advance(high_watermark):
                    assert self.shown < high_watermark <= self.log.end_offset
                    self.shown = high_watermark
                case Persist(_, state, _):
                    # Lower than the stored one after a restart, in which no leader answered.
                    assert state.epoch >= self.raft.log.last_epoch
                    self.epoch = state.epoch
                case LearnClusterId(_, cluster_id):
                    self.cluster_id = cluster_id
                case Stop(reason):
                    assert reason.endswith(".")
                    self.stopped = reason
                case _:
                    pass
        for event in outcome:
            self.step(event)
        if token:
            self.step(Durable(token))

    def tick(self) -> bool:
        """On to the next moment at which the core wants to do something; False if there is none."""
        at = self.raft.deadline
        if at == float("inf"):
            return False
        assert at > self.now, "a pause ends later than it begins"
        self.now = at
        self.step(Tick())
        return True

    def answer(
        self, send: Send, made: Message | FailureKind, version: int | None = None
    ) -> list[Effect]:
        """The end of an open request, now."""
        self.open.remove(send)
        if isinstance(made, FailureKind):
            return self.step(Failed(send.number, Failure(made, f"{send.address}: {made.value}")))
        return self.step(
            Answered(send.number, made, send.versions[-1] if version is None else version)
        )
