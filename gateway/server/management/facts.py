"""Gathers the state of the server for the management port, and tells whether the server is ready.

It keeps nothing and asks no other node: every value is read where it is already known. It knows
neither HTTP nor Prometheus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import trio

from gateway.groups import Usage
from gateway.ports.services import State
from gateway.server.management.cluster_facts import ClusterFacts
from gateway.server.quorum.observer_watch import LOST_AFTER_S
from gateway.server.workers.worker_counts import WorkerCounts, of_clients

if TYPE_CHECKING:
    from gateway.broker.quotas.client_quotas import ClientQuotas
    from gateway.handlers.fetch_sessions import FetchSessionCache
    from gateway.ports.services import Partition
    from gateway.server.broker.broker_node import BrokerNode
    from gateway.server.broker.replica_manager import ReplicaManager
    from gateway.server.clients.server_context import ServerContext
    from gateway.server.controller.controller_metrics import ControllerFacts
    from gateway.server.controller.envelopes import ForwardingMetrics
    from gateway.server.quorum.log_cleaner import OwnSnapshot
    from gateway.server.quorum.quorum_status import QuorumStatus
    from gateway.server.workers.worker_processes import WorkerProcess, WorkerProcesses


class Readiness(NamedTuple):
    """Whether clients may be sent to this server.

    ``state`` is that of the partition, or "stopping". ``reason`` is a sentence, empty if all is
    well.
    ``since`` is in the form of ISO 8601.
    """

    ready: bool
    state: str
    reason: str = ""
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The sources of every page. The callables cost little and are called for every response."""

    version: str
    node_id: int
    source: str
    listeners: Mapping[str, str]
    partition: Partition
    server_context: ServerContext
    cluster_name: str | None = None  #: what people call the cluster
    groups: Callable[[], Mapping[str, int]] = dict  #: consumer groups by state
    group_usage: Callable[[], Usage] = Usage
    group_refusals: Callable[[], Mapping[str, int]] = dict  #: refused requests by the limit's key
    problems: Callable[[], Sequence[object]] = tuple  #: of the source, now
    quorum: Callable[[], QuorumStatus] | None = None  #: None: this server follows no quorum
    own_snapshot: Callable[[], OwnSnapshot | None] = lambda: None
    metadata_version: Callable[[], int | None] = lambda: None  #: feature level; None: unknown
    cluster: ClusterFacts = field(default_factory=lambda: ClusterFacts(None))
    forwarding: ForwardingMetrics | None = None  #: of requests for the active controller
    controlling: ControllerFacts | None = None  #: of the controller that this node may be
    kept_answer_bytes: Callable[[], int] = lambda: 0  #: of topics, encoded for Metadata
    broker: BrokerNode | None = None  #: None: this node is no broker
    replicas: ReplicaManager | None = None  #: the partitions of a broker
    quotas: ClientQuotas | None = None  #: of clients; None: this node throttles none
    fetch_sessions: FetchSessionCache | None = None  #: None: further processes have some, too
    stopping: Callable[[], bool] = lambda: False
    stale_after_s: float = (
        LOST_AFTER_S  #: a quorum that is silent for longer makes the server not ready
    )
    clock: Callable[[], float] = trio.current_time
    wall: Callable[[], float] = time.time
    #: The further processes that serve clients; None without any.
    worker_processes: WorkerProcesses | None = None
    #: The counts of all workers together, once they are known.
    together: WorkerCounts | None = None
    #: When the server began, on the clock of the event loop (s), which is never set.
    began: float = field(default_factory=trio.current_time)

    def at_one_moment(self) -> Facts:
        """The same facts, with one status of the quorum for all values of a page."""
        status = self.quorum_status()
        return self if status is None else replace(self, quorum=lambda: status)

    async def of_all_workers(self) -> Facts:
        """The same facts, with the counts of all workers together."""
        if self.worker_processes is None:
            return self
        return replace(self, together=await self.worker_processes.count())

    @property
    def counted(self) -> WorkerCounts:
        """The counts of all workers, of this process where it is the only one."""
        return of_clients(self.server_context) if self.together is None else self.together

    @property
    def workers(self) -> Sequence[WorkerProcess]:
        """All processes, the node first; empty where there is only one."""
        return () if self.worker_processes is None else self.worker_processes.all

    def quorum_status(self) -> QuorumStatus | None:
        """The status of this node in its quorum now; None if there is no quorum."""
        return None if self.quorum is None else self.quorum()

    def readiness(self) -> Readiness:
        """Whether clients may be sent here.

        The server is not ready before it has read the log, with a damaged log, without the quorum,
        and while it stops.
        """
        state = self.partition.state
        if self.stopping():
            return Readiness(
                False,
                "stopping",
                "The server is stopping: it finishes what it began, and accepts nothing new.",
            )
        if state is State.LOADING:
            return Readiness(False, state.value, self._loading())
        if state is State.BROKEN:
            return Readiness(
                False,
                state.value,
                f"The log is damaged: {self._problem()} What lies before that is served.",
            )
        silent_s = self.silent_s()
        if state is State.STALE or (silent_s is not None and silent_s > self.stale_after_s):
            return self._stale(silent_s)
        lacks = self.cluster.image_lacks
        # Ready all the same: readers get the log as it is, and nodes of this release all lack it.
        reason = "" if lacks is None else f"The metadata image lacks a part of the log: {lacks}."
        return Readiness(True, state.value, reason)

    def silent_s(self) -> float | None:
        """Seconds since the quorum last answered, or since the start; None without a quorum."""
        status = self.quorum_status()
        return None if status is None else self._seconds_since(status.last_answer_at)

    def lag_offsets(self) -> int | None:
        """Committed records that clients cannot read here yet.

        None without a quorum, or before a leader has sent its high watermark.
        """
        status = self.quorum_status()
        if status is None or status.leader_high_watermark < 0:
            return None
        return max(0, status.leader_high_watermark - status.high_watermark)

    def lag_ms(self) -> float | None:
        """Milliseconds since clients could read every committed record here, or since the start.

        Like LastCaughtUpTimestamp of DescribeQuorum, it is up to the wait of a Fetch (500 ms) while
        all is well. None without a quorum.
        """
        status = self.quorum_status()
        return None if status is None else 1000 * self._seconds_since(status.last_caught_up_at)

    def complete_s(self) -> float | None:
        """Seconds for which an observer's copy of the log has been complete: it had every committed
        record ``stale_after_s`` ago at the latest.

        0: it is not complete now. None for a server that observes no quorum.
        """
        status = self.quorum_status()
        if status is None or not status.observes:
            return None
        is_behind = self._seconds_since(status.last_caught_up_at) > self.stale_after_s
        if status.complete_since is None or is_behind or self.partition.state is State.BROKEN:
            return 0.0
        return self._seconds_since(status.complete_since)

    def utc(self, seconds_ago: float) -> str:
        """The time of day that was ``seconds_ago``, in the form of ISO 8601."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.wall() - seconds_ago))

    def _seconds_since(self, moment: float | None) -> float:
        """Seconds since ``moment`` on the event loop's clock; None: since the start."""
        return max(0.0, self.clock() - (self.began if moment is None else moment))

    def _loading(self) -> str:
        status = self.quorum_status()
        if status is None:
            return "The log is being read for the first time."
        if status.snapshot is not None:
            return f"The snapshot {status.snapshot.name} is being fetched: {status.snapshot}."
        if status.problem is not None:
            return f"No high watermark of the quorum is known yet. {status.problem}"
        return "No high watermark of the quorum is known yet."

    def _stale(self, silent_s: float | None) -> Readiness:
        status = self.quorum_status()
        if silent_s is None or status is None:
            return Readiness(
                False,
                State.STALE.value,
                f"The source is out of reach: {self._problem()} What is known is served.",
            )
        why = f" {status.problem}" if status.problem is not None else ""
        return Readiness(
            False,
            State.STALE.value,
            f"The quorum has not answered for {silent_s:.1f} s.{why}"
            " What was committed until then is served.",
            self.utc(silent_s),
        )

    def _problem(self) -> str:
        return next((f"{problem}." for problem in self.problems()), "see the log of this server.")
