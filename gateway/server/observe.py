"""Drives the observer of a real quorum: asks whom it says, does what it makes of the answers, shows what is committed.

One request is in flight at a time, as with Kafka's own observers. What to ask, when to rest and whom to believe is decided
in ``gateway.quorum``; what the answers come to on disk, in ``gateway.sources.observed_log``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from gateway.log.errors import DiskFailed, LogError, SyncFailed
from gateway.ports import SourceStopped
from gateway.quorum.effects import (
    Append,
    Ask,
    BeginSnapshot,
    Effect,
    Failure,
    FailureKind,
    InstallSnapshot,
    LearnClusterId,
    Pause,
    SnapshotChunk,
    Stop,
    Tell,
)
from gateway.server.facts import SnapshotProgress
from gateway.server.upstream import Upstream
from gateway.server.upstream_errors import UpstreamError

if TYPE_CHECKING:
    from gateway.quorum.observer import Observer
    from gateway.security.client_properties import ClientSecurity
    from gateway.server.logs import Reports
    from gateway.sources.observed_log import ObservedLog

#: The server says that it is ready when the log is where the leader's is, or after so long, s: it then answers
#: LEADER_NOT_AVAILABLE.
LOADING_MAX_S: Final = 2.0
#: A quorum that has not answered for so long is out of reach, s. An election takes two to four.
LOST_AFTER_S: Final = 10.0
#: After a failure of the disk, or one that nobody foresaw, s.
_FAILED_DELAY_S: Final = 1.0
_KINDS: Final = {
    "unreachable": FailureKind.UNREACHABLE,
    "tls": FailureKind.UNREACHABLE,
    "authentication": FailureKind.UNAUTHORIZED,
    "closed": FailureKind.CLOSED,
    "timeout": FailureKind.TIMEOUT,
    "undecodable": FailureKind.UNDECODABLE,
    "unsupported_version": FailureKind.UNSUPPORTED_VERSION,
}


@dataclass(frozen=True, slots=True)
class Connecting:
    """How controllers are connected to."""

    security: ClientSecurity
    client_id: str
    timeout_s: float


class Peer:
    """At most one connection, to whoever is asked at the moment."""

    def __init__(self, how: Connecting) -> None:
        self._how = how
        self._upstream: Upstream | None = None

    async def at(self, address: tuple[str, int]) -> Upstream:
        """The connection to ``address``; one to anybody else is closed. Raises UpstreamError."""
        upstream = self._upstream
        if upstream is not None and upstream.is_open and upstream.address == address:
            return upstream
        await self.close()
        how = self._how
        self._upstream = await Upstream.connect(address, how.security, client_id=how.client_id, timeout_s=how.timeout_s)
        return self._upstream

    async def close(self) -> None:
        """Hang up."""
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            await upstream.aclose()


class Observation:
    """One quorum, observed: :meth:`run` is the task. Everything else only tells how it stands (``UpstreamFacts``)."""

    def __init__(self, observer: Observer, source: ObservedLog, how: Connecting, reports: Reports) -> None:
        self._observer = observer
        self._source = source
        self._how = how
        self._reports = reports
        self.disk = trio.Lock()  #: held by who changes the log
        self._caught_up = trio.Event()
        self._disk_problem: str | None = None
        self._problem: str | None = None
        self.fetches = 0
        self.fetched_records = 0
        self.fetched_bytes = 0
        self.snapshot_downloads = 0
        self.snapshot_loads = 0
        self.fetch_errors: Counter[str] = Counter()
        self.last_caught_up_at: float | None = None

    # --- following ----------------------------------------------------------------------------------------------------

    async def loaded(self) -> None:
        """Return when what is committed can be served as it stands, or after LOADING_MAX_S."""
        with trio.move_on_after(LOADING_MAX_S):
            await self._caught_up.wait()

    async def run(self) -> None:
        """Follow until it cannot go on. Raises SourceStopped."""
        peer = Peer(self._how)
        try:
            while True:
                step = self._observer.next(trio.current_time())
                if isinstance(step, Pause):
                    self._look_at_the_time()
                    await trio.sleep_until(step.until)
                else:
                    await self._carry_out(await self._ask(peer, step))
        finally:
            with trio.CancelScope(shield=True):
                await peer.close()

    async def _ask(self, peer: Peer, ask: Ask) -> Sequence[Effect]:
        """One request and what the observer makes of its outcome."""
        try:
            upstream = await peer.at(ask.address)
            version = upstream.common_version(ask.api_key, ask.versions)
            answer = await upstream.call(ask.request(version), version, timeout_s=ask.timeout_s)
        except UpstreamError as error:
            self.fetch_errors[error.kind] += 1
            self._problem = str(error)
            return self._observer.failed(ask, Failure(_KINDS[error.kind], str(error)), trio.current_time())
        before = self._observer.facts.last_answer_at
        effects = self._observer.answered(ask, answer, version, trio.current_time())
        if self._observer.facts.last_answer_at != before:
            self.fetches += 1
            self._problem = None
        return effects

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Do everything that the observer wants done, in order; what it says about that, too."""
        while effects:
            for effect in effects:
                await self._say(effect)
            on_disk = [effect for effect in effects if not isinstance(effect, Stop | Tell | LearnClusterId)]
            refused = await self._write(on_disk) if on_disk else None
            if refused is None:
                break
            self.fetch_errors["refused"] += 1
            effects = self._observer.rejected(refused, trio.current_time())
        self._look_at_the_time()
        self._source.publish()

    async def _say(self, effect: Effect) -> None:
        match effect:
            case Tell(event, fields):
                self._reports.report(event, "info", **fields)
            case Stop(reason):
                raise SourceStopped(reason)
            case LearnClusterId(cluster_id):
                await trio.to_thread.run_sync(self._source.learn_cluster_id, cluster_id)

    async def _write(self, effects: Sequence[Effect]) -> str | None:
        """In a thread, because a disk may take its time. Returns why nothing, or not all of it, could be done."""
        end = self._source.log.end_offset
        try:
            async with self.disk:
                refused = await trio.to_thread.run_sync(self._source.perform, effects)
        except SyncFailed as error:
            raise SourceStopped(f"{error}; start again: what is on disk is then looked at anew") from None
        except DiskFailed as error:  # a full disk may have room again
            self._disk_problem = str(error)
            self._reports.report("log not written", "error", error=str(error))
            await trio.sleep(_FAILED_DELAY_S)
            return self._disk_problem
        except LogError as error:
            raise SourceStopped(str(error)) from None
        self._disk_problem = refused
        if refused is not None:
            self._reports.report("log refused what came", "error", error=refused)
        else:
            self.fetched_records += max(0, self._source.log.end_offset - end)
        for effect in effects if refused is None else ():
            self._count(effect)
        return refused

    def _count(self, effect: Effect) -> None:
        match effect:
            case Append(records):
                self.fetched_bytes += len(records)
            case BeginSnapshot():
                self.snapshot_downloads += 1
            case SnapshotChunk(_, data, _):
                self.fetched_bytes += len(data)
            case InstallSnapshot():
                self.snapshot_loads += 1

    def _look_at_the_time(self) -> None:
        """Is the leader still there, and are we where it is?"""
        now, source = trio.current_time(), self._source
        last = self._observer.facts.last_answer_at
        source.in_touch = last is not None and now - last <= LOST_AFTER_S
        if source.in_touch and 0 <= self.leader_high_watermark <= source.committed:
            source.caught_up = True
            self._caught_up.set()
            self.last_caught_up_at = now

    # --- how it stands ------------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """-1 while none is known."""
        return self._observer.facts.leader_id

    @property
    def leader_address(self) -> str | None:
        """host:port of the leader, where it is known."""
        address = self._observer.facts.leader_address
        return None if address is None else str(address)

    @property
    def epoch(self) -> int:
        """Of the newest leader known."""
        return self._observer.facts.epoch

    @property
    def voters(self) -> Sequence[int]:
        """Ids of the voters, as far as they are known."""
        return sorted(self._observer.facts.voters)

    @property
    def leader_high_watermark(self) -> int:
        """As a leader last told; -1 before."""
        return self._observer.facts.leader_high_watermark

    @property
    def high_watermark(self) -> int:
        """What clients may see, and what is durable."""
        return self._source.committed

    @property
    def log_end_offset(self) -> int:
        """Of the local copy, what is not committed included."""
        return self._source.log.end_offset

    @property
    def log_end_epoch(self) -> int:
        """Of its last batch."""
        return self._source.log.last_epoch

    @property
    def last_answer_at(self) -> float | None:
        """When the leader last answered as one, on the loop's clock, s."""
        return self._observer.facts.last_answer_at

    @property
    def snapshot(self) -> SnapshotProgress | None:
        """The snapshot that is being fetched."""
        coming = self._observer.facts.snapshot
        return None if coming is None else SnapshotProgress(f"{coming[0]}.checkpoint", *coming[1:])

    @property
    def problem(self) -> str | None:
        """Why the quorum does not answer, or what came from it cannot be kept, as a sentence, while that is so."""
        return self._disk_problem or self._problem
