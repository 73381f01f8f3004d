"""What the management port may look at, in one place, and what it makes of it: is this server
ready, how far behind is it.

Nothing is kept here and nothing is asked of anybody: every value is where it is already known.
Knows no HTTP and no Prometheus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from gateway.groups import Usage
from gateway.ports import State

if TYPE_CHECKING:
    from gateway.ports import Partition
    from gateway.quorum.measures import Measures
    from gateway.server.controller.controller_metrics import ControllerFacts
    from gateway.server.controller.envelopes import ForwardingMeasures
    from gateway.server.server_context import ServerContext


#: ``KafkaRaftMetrics``: current-state.
ROLES: Final = (
    "leader",
    "candidate",
    "prospective",
    "resigned",
    "voted",
    "follower",
    "observer",
    "unattached",
)


class SnapshotProgress(NamedTuple):
    """A snapshot on its way here: the name of its file, bytes that are here, bytes it has (0 until
    the leader said).
    """

    name: str
    position: int
    size: int


class OwnSnapshot(NamedTuple):
    """The newest snapshot that this node made itself: bytes, and when it was made on the loop's
    clock, s.
    """

    size: int
    made_at: float


class UpstreamFacts(Protocol):
    """What the driver of an observer knows of the quorum that it follows. Reading costs nothing;
    times are the loop's clock.
    """

    @property
    def role(self) -> str:
        """Kafka's word for what this node is in the quorum: one of ``ROLES``."""
        ...

    @property
    def voted_id(self) -> int:
        """Whom it voted for in this epoch; -1: nobody."""
        ...

    @property
    def measures(self) -> Measures | None:
        """Elections and commits, where this node is part of the quorum."""
        ...

    @property
    def leader_id(self) -> int:
        """-1 while none is known."""
        ...

    @property
    def leader_address(self) -> str | None:
        """host:port of the leader, where it is known."""
        ...

    @property
    def epoch(self) -> int: ...

    @property
    def voters(self) -> Sequence[int]:
        """Ids of the voters, as far as they are known."""
        ...

    @property
    def leader_high_watermark(self) -> int:
        """As a leader last told; -1 before."""
        ...

    @property
    def high_watermark(self) -> int:
        """Our own: what clients may see, and what is durable."""
        ...

    @property
    def log_end_offset(self) -> int: ...
    @property
    def log_end_epoch(self) -> int: ...

    @property
    def last_answer_at(self) -> float | None:
        """When the leader last answered a Fetch or a FetchSnapshot without an error, s; None: never
        yet.
        """
        ...

    @property
    def last_caught_up_at(self) -> float | None:
        """When our high watermark last was the leader's, as its answer told, s; None: never yet."""
        ...

    @property
    def fetches(self) -> int:
        """Answers to Fetch that were taken, since the start."""
        ...

    @property
    def fetched_records(self) -> int:
        """Offsets appended to our log, since the start."""
        ...

    @property
    def fetched_bytes(self) -> int:
        """Bytes of batches and of snapshots that came, since the start."""
        ...

    @property
    def fetch_errors(self) -> Mapping[str, int]:
        """Requests that failed since the start, by kind: one of a fixed number of short names,
        never a peer's text.
        """
        ...

    @property
    def snapshot_downloads(self) -> int:
        """Snapshots that we began to fetch, since the start."""
        ...

    @property
    def snapshot_loads(self) -> int:
        """Snapshots from which the log or the image was begun anew, since the start."""
        ...

    @property
    def snapshot(self) -> SnapshotProgress | None:
        """The snapshot that is being fetched."""
        ...

    @property
    def problem(self) -> str | None:
        """Why the quorum does not answer, as a sentence, while that is so."""
        ...


class Readiness(NamedTuple):
    """``state`` is that of the partition, or "stopping"; ``reason`` is a sentence, empty if ready;
    ``since`` as in ISO 8601.
    """

    ready: bool
    state: str
    reason: str = ""
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything there is to look at; the callables cost little and are called for every answer.

    ``groups`` gives the number of consumer groups by state, ``group_usage`` what they hold,
    ``group_refusals`` how often each of their limits refused a request, ``problems`` what is wrong
    now, ``metadata_version`` the feature level of the cluster. ``stale_after_s`` is how long the
    quorum may be silent before this server says that it is not ready; ``forwarding`` is of requests
    for the active controller, ``controlling`` of the controller that this node may be.
    """

    version: str
    node_id: int
    source: str
    listeners: Mapping[str, str]
    partition: Partition
    server_context: ServerContext
    groups: Callable[[], Mapping[str, int]] = dict
    group_usage: Callable[[], Usage] = Usage
    group_refusals: Callable[[], Mapping[str, int]] = dict
    problems: Callable[[], Sequence[object]] = tuple
    upstream: UpstreamFacts | None = None
    own_snapshot: Callable[[], OwnSnapshot | None] = lambda: None
    metadata_version: Callable[[], int | None] = lambda: None
    forwarding: ForwardingMeasures | None = None
    controlling: ControllerFacts | None = None
    stopping: Callable[[], bool] = lambda: False
    stale_after_s: float = 10.0
    clock: Callable[[], float] = trio.current_time
    wall: Callable[[], float] = time.time
    began: float = field(default_factory=time.time)  #: s since the Unix epoch

    def readiness(self) -> Readiness:
        """May clients be sent here? No before the log is read, without the quorum, at a broken log,
        and when stopping.
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
        return Readiness(True, state.value)

    def silent_s(self) -> float | None:
        """How long ago the quorum last answered, s; since the start if it never did. None if there
        is no quorum to ask.
        """
        if self.upstream is None:
            return None
        return self._ago(self.upstream.last_answer_at)

    def lag_offsets(self) -> int | None:
        """Committed records, as the leader last told, that clients cannot see here yet; None if no
        leader ever told.
        """
        upstream = self.upstream
        if upstream is None or upstream.leader_high_watermark < 0:
            return None
        return max(0, upstream.leader_high_watermark - upstream.high_watermark)

    def lag_ms(self) -> float | None:
        """How long ago clients could see here all that the leader had committed, ms; since the
        start if never.

        Like the time in DescribeQuorum's LastCaughtUpTimestamp: up to the wait of a Fetch (500 ms)
        while all is well.
        """
        return None if self.upstream is None else 1000 * self._ago(self.upstream.last_caught_up_at)

    def utc(self, seconds_ago: float) -> str:
        """That moment, as people and programs read it."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.wall() - seconds_ago))

    def _ago(self, moment: float | None) -> float:
        return max(0.0, self.wall() - self.began if moment is None else self.clock() - moment)

    def _loading(self) -> str:
        upstream = self.upstream
        if upstream is None:
            return "The log is being read for the first time."
        if upstream.snapshot is not None:
            return f"The snapshot {upstream.snapshot.name} is being fetched: {progress(upstream.snapshot)}."
        if upstream.problem is not None:
            return f"No high watermark of the quorum is known yet. {upstream.problem}"
        return "No high watermark of the quorum is known yet."

    def _stale(self, silent_s: float | None) -> Readiness:
        if silent_s is None:
            return Readiness(
                False,
                State.STALE.value,
                f"The source is out of reach: {self._problem()} What is known is served.",
            )
        assert self.upstream is not None
        why = f" {self.upstream.problem}" if self.upstream.problem is not None else ""
        text = f"The quorum has not answered for {silent_s:.1f} s.{why} What was committed until then is served."
        return Readiness(False, State.STALE.value, text, self.utc(silent_s))

    def _problem(self) -> str:
        return next((f"{problem}." for problem in self.problems()), "see the log of this server.")


def progress(snapshot: SnapshotProgress) -> str:
    """How far it is, for people."""
    if not snapshot.size:
        return f"{snapshot.position} bytes"
    return f"{snapshot.position} of {snapshot.size} bytes, {100 * snapshot.position // snapshot.size} %"
