"""Decides what a driver does when its disk or core fails, and what it does by time: two policies of
``gateway.server.quorum.raft_driver``.

A failure of a voter's disk or core ends the process: other nodes rely on what it has acknowledged,
and what it holds is unknown. No node relies on an observer, which makes a new core from the state
on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from gateway.base.wall_clock import wall_ms
from gateway.log.files.errors import LogError
from gateway.ports.services import SourceStopped
from gateway.server.logging.logs import ERROR_MAX, escape
from gateway.server.quorum.log_failures import RESTART, may_pass, stopped_by
from gateway.server.quorum.observer_watch import check_leader
from gateway.sources.quorum_log_policies import BatchesRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.quorum.raft import Raft
    from gateway.server.logging.logs import Reports
    from gateway.server.quorum.raft_driver_metrics import RaftDriverMetrics
    from gateway.sources.quorum_log import QuorumLog

#: Interval at which a voter stores its high watermark, s. A restarted node serves records up to the
#: stored one before it has found a leader.
_REMEMBER_S: Final = 1.0
#: Interval at which an observer checks whether its leader still answers, s.
_CHECK_S: Final = 0.25
#: Delay before an observer makes a new core after a failure of the disk, or a bug, s.
_RESTART_DELAY_S: Final = 1.0


class Driven(NamedTuple):
    """The parts of a driver that a policy uses. ``disk`` is held by a task whose thread changes the
    log; ``caught_up`` is set when the high watermark is known.
    """

    log: QuorumLog
    measures: RaftDriverMetrics
    reports: Reports
    disk: trio.Lock
    caught_up: trio.Event


class Progress(NamedTuple):
    """The fields of ``QuorumStatus`` that a voter and an observer know from different sources."""

    voters: list[int]
    leader_high_watermark: int
    last_answer_at: float | None
    last_caught_up_at: float | None
    problem: str | None


class DriverPolicy(Protocol):
    """The answers in which a voter's driver and an observer's differ. A method that is told of a
    failure raises SourceStopped, or returns if the driver is to make a new core.
    """

    @property
    def stores_commits(self) -> bool:
        """Whether the high watermark is stored before clients see records as committed."""

    @property
    def observes(self) -> bool:
        """Whether the node follows the quorum without a vote."""

    async def tend(self, raft: Raft) -> None:
        """Do what is to be done by time while ``raft`` runs, for ever."""

    async def new_core(self) -> Raft:
        """Make a core in the place of one that was given up. Raises LogError."""

    def stepped(self, raft: Raft) -> None:
        """The core has taken an event."""

    def core_failed(self, error: Exception, at: str) -> None:
        """The core raised an exception: a bug, after which its state may be half changed."""

    def log_failed(self, error: LogError) -> None:
        """The log could not be written, or not be read for a new core."""

    def log_bug(self, error: Exception) -> None:
        """The log raised an exception: a bug, after which the state on disk is unknown."""

    def read_failed(self, error: Exception) -> None:
        """A peer's records could not be read. If this returns, the peer is refused."""

    def tried(self) -> None:
        """The log was written, or not as a whole."""

    def written(self, raft: Raft) -> None:
        """The log was written."""

    def progress(self, raft: Raft, lacks: str | None) -> Progress:
        """The progress now. ``lacks``: what the image lacks."""


class VoterPolicy:
    """The policy of a node that others rely on."""

    stores_commits = False
    observes = False

    def __init__(self, driven: Driven) -> None:
        self._driven = driven

    async def tend(self, raft: Raft) -> None:
        """Store the high watermark from time to time.

        It is no part of the raft state and may be stale: it only lets a restarted node serve
        committed records before it has found a leader.
        """
        log = self._driven.log
        while True:
            await trio.sleep(_REMEMBER_S)
            if log.high_watermark_dirty:
                try:
                    async with self._driven.disk:
                        await trio.to_thread.run_sync(log.write_high_watermark)
                except LogError as error:
                    self.log_failed(error)

    async def new_core(self) -> Raft:
        raise AssertionError("a voter does not start again in the same process")

    def stepped(self, raft: Raft) -> None:
        """The core's effects say all."""

    def core_failed(self, error: Exception, at: str) -> None:
        """Others can lead."""
        raise SourceStopped(f"a bug of this server, at {at}: {error!r}; {RESTART}") from error

    def log_failed(self, error: LogError) -> None:
        """A retry proves nothing: after a failed fsync the kernel may have dropped the data and
        reported success for the next one.
        """
        raise SourceStopped(f"{error}; {RESTART}") from None

    def log_bug(self, error: Exception) -> None:
        raise SourceStopped(f"a bug of this server, at the log: {error!r}; {RESTART}") from error

    def read_failed(self, error: Exception) -> None:
        raise SourceStopped(f"the log cannot be read: {error}") from None

    def tried(self) -> None:
        """``Advance`` makes records visible."""

    def written(self, raft: Raft) -> None:
        """``Durable`` tells the core."""

    def progress(self, raft: Raft, lacks: str | None) -> Progress:
        measures = self._driven.measures
        # A voter without a leader commits nothing, and one with a leader is told of every commit.
        has_leader = raft.leader_id >= 0
        led_at = trio.current_time() if has_leader else measures.led_until
        problem = None if has_leader else measures.problem
        if lacks is not None and not has_leader:
            problem = f"This node must not lead: {lacks}."
        return Progress(sorted(raft.voters.nodes), raft.high_watermark, led_at, led_at, problem)


class ObserverPolicy:
    """The policy of a node that follows a quorum without a vote."""

    stores_commits = True
    observes = True

    def __init__(self, driven: Driven, restart: Callable[[float, int], Raft]) -> None:
        """``restart`` makes a new core from the state on disk, in a thread, given the times of the
        event loop, s, and the wall clock, ms. Raises LogError.
        """
        self._driven = driven
        self._restart = restart
        self._violations = 0  #: of the core's peers, that were counted

    async def tend(self, raft: Raft) -> None:
        """Check whether the leader still answers: without it no event would say so."""
        while True:
            await trio.sleep(_CHECK_S)
            self._check_leader(raft)

    def _check_leader(self, raft: Raft) -> None:
        """Update what clients and metrics learn of the leader."""
        if check_leader(raft, self._driven.log, self._driven.measures):
            self._driven.caught_up.set()

    async def new_core(self) -> Raft:
        await trio.sleep(_RESTART_DELAY_S)
        async with self._driven.disk:
            raft = await trio.to_thread.run_sync(self._restart, trio.current_time(), wall_ms())
            self._driven.log.publish()
        self._violations = 0
        return raft

    def stepped(self, raft: Raft) -> None:
        violations = raft.measures.protocol_violations
        if violations > self._violations:
            self._driven.measures.request_errors["unusable"] += violations - self._violations
            self._violations = violations
        self._check_leader(raft)

    def core_failed(self, error: Exception, at: str) -> None:
        self._driven.measures.problem = f"a bug of this server: {error!r}"

    def log_failed(self, error: LogError) -> None:
        """Report a failure that may pass, such as a full disk; raise SourceStopped for others."""
        if not may_pass(error):
            raise stopped_by(error) from None
        measures, refused = self._driven.measures, isinstance(error, BatchesRefused)
        measures.request_errors["refused" if refused else "disk"] += 1
        measures.disk_problem = str(error)
        self._driven.reports.report("log not written", error=escape(str(error), limit=ERROR_MAX))

    def log_bug(self, error: Exception) -> None:
        """The next core begins with what is on disk."""

    def read_failed(self, error: Exception) -> None:
        """Those that follow an observer ask another node."""

    def tried(self) -> None:
        self._driven.log.publish()

    def written(self, raft: Raft) -> None:
        self._driven.measures.disk_problem = None
        self._check_leader(raft)

    def progress(self, raft: Raft, lacks: str | None) -> Progress:
        measures = self._driven.measures
        return Progress(
            sorted(raft.reported_voters),
            raft.leader_high_watermark,
            measures.last_answer_at,
            measures.last_caught_up_at,
            measures.disk_problem or measures.problem,
        )
