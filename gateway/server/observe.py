"""Drives the observer of a real quorum: asks whom it says, does what it makes of the answers, shows what is committed.

One request is in flight at a time, as with Kafka's own observers. What to ask, when to rest and whom to believe is decided
in ``gateway.quorum``; what the answers come to on disk, in ``gateway.sources.observed_log``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from gateway.log.errors import DiskFailed, LogError, LogFailed, SyncFailed
from gateway.ports import SourceStopped, State
from gateway.quorum.effects import (
    Append,
    Ask,
    BeginSnapshot,
    Effect,
    InstallSnapshot,
    LearnClusterId,
    Pause,
    Remember,
    SnapshotChunk,
    Stop,
    Tell,
)
from gateway.quorum.observer import FETCH, FETCH_SNAPSHOT
from gateway.server.facts import SnapshotProgress
from gateway.server.logs import ERROR_MAX, escape
from gateway.server.quorum_peer import Connecting, Peer, error_of, failure
from gateway.server.upstream_errors import UpstreamError

if TYPE_CHECKING:
    from gateway.quorum.observer import Observer
    from gateway.server.logs import Reports
    from gateway.sources.observed_log import ObservedLog

#: The server says that it is ready when the log is where the leader's is, or after so long, s: it then answers
#: LEADER_NOT_AVAILABLE.
LOADING_MAX_S: Final = 2.0
#: The same where the last run left behind what is committed, s.
_KNOWN_MAX_S: Final = 0.5
#: A quorum that has not answered for so long is out of reach, s. An election takes two to four.
LOST_AFTER_S: Final = 10.0
#: After a failure of the disk, or one that nobody foresaw, s.
_FAILED_DELAY_S: Final = 1.0
#: What is told as a warning.
_TROUBLE: Final = frozenset({"answer-not-used", "answer-rejected", "denied", "request-failed", "turned-away"})


class Observation:
    """One quorum, observed: :meth:`run` is the task. Everything else only tells how it stands (``UpstreamFacts``)."""

    def __init__(self, observer: Observer, source: ObservedLog, how: Connecting, reports: Reports) -> None:
        self._observer = observer
        self._source = source
        self._how = how
        self._reports = reports
        self.disk = trio.Lock()  #: held by who changes the log
        self._caught_up = trio.Event()
        self._owing = False  # the log may lack what the observer counts on
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
        """Return when we are where the leader is, or after LOADING_MAX_S; sooner if what is committed is known from before."""
        with trio.move_on_after(LOADING_MAX_S if self._source.state is State.LOADING else _KNOWN_MAX_S):
            await self._caught_up.wait()

    async def run(self) -> None:
        """Follow until it cannot go on. Raises SourceStopped."""
        peer = Peer(self._how)
        try:
            while True:
                try:
                    await self._step(peer)
                except SourceStopped:
                    raise
                except Exception as error:  # a bug of ours: what is committed is served on, and the leader asked again
                    self._reports.bug("quorum not followed", error)
                    self._problem = f"a bug of this server: {error!r}"
                    self._owing = True
                    await peer.close()
                    await trio.sleep(_FAILED_DELAY_S)
                    self._observer.rejected(self._problem, trio.current_time())
        finally:
            with trio.CancelScope(shield=True):
                await peer.close()

    async def _step(self, peer: Peer) -> None:
        step = self._observer.next(trio.current_time())
        if isinstance(step, Pause):
            stopped = self._observer.facts.stopped
            if stopped is not None:
                raise SourceStopped(stopped)
            self._look_at_the_time()
            await trio.sleep_until(step.until)
        else:
            await self._carry_out(await self._ask(peer, step))

    async def _ask(self, peer: Peer, ask: Ask) -> Sequence[Effect]:
        """One request and what the observer makes of its outcome."""
        try:
            upstream = await peer.at(ask.address)
            version = upstream.common_version(ask.api_key, ask.versions)
            answer = await upstream.call(ask.request(version), version, timeout_s=ask.timeout_s)
        except UpstreamError as error:
            self.fetch_errors[error.kind] += 1
            self._problem = str(error)
            return self._observer.failed(ask, failure(error), trio.current_time())
        before = self._observer.facts.last_answer_at
        async with self.disk:  # it looks at the log, which must not be cleaned meanwhile
            effects = self._observer.answered(ask, answer, version, trio.current_time())
        code = error_of(answer)
        if code is not None:
            self.fetch_errors[code] += 1
        elif self._observer.facts.last_answer_at != before:
            self.fetches += ask.api_key == FETCH
            self._problem = None
        elif ask.api_key in (FETCH, FETCH_SNAPSHOT):
            self.fetch_errors["unusable"] += 1
        return effects

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Do everything that the observer wants done, in order; what it says about that, too. Raises SourceStopped.

        A Stop among it is obeyed at the next step: the observer remembers.
        """
        refused: str | None = None
        while effects:
            on_disk = [effect for effect in effects if not isinstance(effect, Stop | Tell)]
            refused = await self._write(on_disk) if on_disk else None
            if refused is None:
                break
            self._look_at_the_time()  # a disk may be full for long
            effects = self._observer.rejected(refused, trio.current_time())
        self._look_at_the_time()
        for effect in effects:
            if isinstance(effect, Tell):
                self._say(effect)
        if self._source.log.flushed_offset < self._source.log.end_offset:
            await self._settle()

    def _say(self, told: Tell) -> None:
        # Hosts and reasons may be a peer's words.
        fields = {name: escape(one, limit=ERROR_MAX) if isinstance(one, str) else one for name, one in told.fields.items()}
        self._reports.report(told.event, "warning" if told.event in _TROUBLE else "info", **fields)
        self._blame(told.event, fields)

    def _blame(self, event: str, fields: Mapping[str, object]) -> None:
        """What is told may be why the quorum does not serve us."""
        # That others do not lead is no news where the leader is known not to answer.
        if event == "answer-not-used" or (event == "turned-away" and self._problem is None):
            self._problem = f"{fields['address']}: {fields['reason']}"
        elif event in ("denied", "answer-rejected"):
            self._problem = str(fields["reason"])

    async def _write(self, effects: Sequence[Effect]) -> str | None:
        """In a thread, because a disk may take its time. Returns why nothing, or not all of it, could be done."""
        if self._owing:
            effects = [*self._owed(), *effects]
        end = self._source.log.end_offset
        try:
            async with self.disk:
                try:
                    refused = await trio.to_thread.run_sync(self._source.perform, effects)
                finally:
                    self._source.publish()
        except LogError as error:
            return await self._failed(error)
        self._owing, self._disk_problem = False, refused
        if refused is None:
            self.fetched_records += max(0, self._source.log.end_offset - end)
            for effect in effects:
                self._count(effect)
        else:
            self.fetch_errors["refused"] += 1
            self._reports.report("log refused what came", "error", error=escape(refused, limit=ERROR_MAX))
        return refused

    async def _settle(self) -> None:
        """What came is not committed yet: the disk takes it in the meantime. When it is, clients need not wait for that."""
        try:
            async with self.disk:
                await trio.to_thread.run_sync(self._source.settle)
        except LogError as error:
            await self._failed(error)

    async def _failed(self, error: LogError) -> str:
        """A full disk may have room again; what else may be wrong with the log is looked at by who opens it."""
        if not may_pass(error):
            raise stopped_by(error) from None
        self._owing, self._disk_problem = True, str(error)
        self.fetch_errors["disk"] += 1
        self._reports.report("log not written", "error", error=str(error))
        await trio.sleep(_FAILED_DELAY_S)
        return str(error)

    def _owed(self) -> list[Effect]:
        """What the observer counts on and an earlier failure, of the disk or of ours, left undone."""
        facts, source = self._observer.facts, self._source
        owed: list[Effect] = []
        if facts.epoch > source.epoch:
            owed.append(Remember(facts.epoch, facts.leader_id))
        if facts.cluster_id is not None and facts.cluster_id != source.cluster_id:
            owed.append(LearnClusterId(facts.cluster_id))
        return owed

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
    def role(self) -> str:
        """As ``KafkaRaftMetrics`` calls who is no voter: an observer if it follows a leader, else unattached."""
        return "observer" if self.leader_id >= 0 else "unattached"

    @property
    def voted_id(self) -> int:
        """An observer votes for nobody."""
        return -1

    @property
    def measures(self) -> None:
        """It elects nobody, and commits nothing."""
        return None

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
        return None if coming is None else SnapshotProgress(coming[0].file_name, *coming[1:])

    @property
    def problem(self) -> str | None:
        """Why the quorum does not answer, or what came from it cannot be kept, as a sentence, while that is so."""
        return self._disk_problem or self._problem


def may_pass(error: LogError) -> bool:
    """Is it worth trying again what the disk refused? Not after a failed sync: nobody knows what is on disk then."""
    return isinstance(error, DiskFailed) and not isinstance(error, SyncFailed)


def stopped_by(error: LogError) -> SourceStopped:
    """Why the log cannot be written any further."""
    again = "; start again: what is on disk is then looked at anew" if isinstance(error, SyncFailed | LogFailed) else ""
    return SourceStopped(f"{error}{again}")
