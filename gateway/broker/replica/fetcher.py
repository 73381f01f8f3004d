"""Decides what a broker fetches from one leader broker, and what its answers do to the logs.

It sends nothing, and reads no clock and no file: its caller sends ``request``, hands the response
to ``answered``, carries out the steps, and reports where each log then is. A partition whose step
is not done yet, or that had an error, is left out of the next request; the others go on. Records
are compared by leader epochs in every Fetch (KIP-320, 595), so nothing is truncated before one.
Source: ``AbstractFetcherThread``, ``ReplicaFetcherThread``, ``RemoteLeaderEndPoint``.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.replica.fetch_session import FetchSession
from gateway.broker.replica.followed import (
    Append,
    CutTo,
    Followed,
    Locate,
    Position,
    StartAt,
    Status,
    Step,
    Truncate,
)
from kwire.messages.fetch_request import FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kwire.messages.fetch_response import FetchResponse, PartitionData
    from kwire.uuid import Uuid

#: Errors after which the next request opens another session at once.
_SESSION_LOST: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
#: Partitions in one request, so that neither it nor its response takes long to make and to read.
NAMED_MAX: Final = 5000
_Key = tuple["Uuid", int]


class FetcherSettings(NamedTuple):
    """``replica.fetch.wait.max.ms``, ``replica.fetch.min.bytes``,
    ``replica.fetch.response.max.bytes``, ``replica.fetch.max.bytes`` (a partition), and
    ``replica.fetch.backoff.ms`` in seconds.
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff_s: float = 1.0


class Fetcher:
    """The partitions that ``replica_id`` follows and one other broker leads. ``now`` is a time in
    seconds that only grows.
    """

    def __init__(self, replica_id: int, settings: FetcherSettings) -> None:
        self._replica_id = replica_id
        self._settings = settings
        self._session = FetchSession()
        self._partitions: dict[_Key, Followed] = {}
        # Named in the next request: those that are ready, and not asked for at their position.
        self._changed: dict[_Key, Followed] = {}
        # Those in the leader's session that are not fetched now.
        self._idle: dict[_Key, None] = {}
        self._unready: set[_Key] = set()
        self._waiting: list[tuple[float, int, Followed]] = []
        self._count = itertools.count()
        self._not_before = -math.inf
        #: Those that the last response had an error for.
        self.refused: list[Followed] = []
        self._restarts = 0  # sessions that were lost, one after the other

    def __len__(self) -> int:
        return len(self._partitions)

    # --- the partitions
    # ---------------------------------------------------------------------------------------------

    def follow(self, topic_id: Uuid, index: int, leader_epoch: int, position: Position) -> Followed:
        """Follow a partition in this epoch of its leader, from ``position`` on. Steps for it in an
        earlier epoch count for nothing any more.
        """
        one = Followed(topic_id, index, leader_epoch, position, self._settings.partition_max_bytes)
        before = self._partitions.pop(one.key, None)
        # The leader's session knows no leader epochs.
        one.in_session = one.key in self._idle or (before is not None and before.in_session)
        self._partitions[one.key] = one
        self._make_ready(one)
        return one

    def unfollow(self, topic_id: Uuid, index: int) -> None:
        """Follow a partition no more."""
        one = self._partitions.pop((topic_id, index), None)
        if one is not None:
            self._changed.pop(one.key, None)
            self._unready.discard(one.key)
            if one.in_session:
                self._idle[one.key] = None

    def find(self, topic_id: Uuid, index: int) -> Followed | None:
        """Return a partition that is followed."""
        return self._partitions.get((topic_id, index))

    @property
    def partitions(self) -> list[Followed]:
        """All partitions that are followed."""
        return list(self._partitions.values())

    def is_current(self, one: Followed) -> bool:
        """Whether a partition is still followed, in the epoch of ``one``."""
        return self._partitions.get(one.key) is one

    # --- requests
    # ---------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """Return when :meth:`request` has a request, as things are now; infinity: never."""
        if self._has_ready:
            return self._not_before
        return max(self._not_before, self._waiting[0][0]) if self._waiting else math.inf

    @property
    def _has_ready(self) -> bool:
        return len(self._unready) < len(self._partitions)

    def request(self, now: float, broker_epoch: int) -> FetchRequest | None:
        """Return the next request, None while there is nothing to fetch. ``broker_epoch`` is that
        of this broker (KIP-903).
        """
        while self._waiting and self._waiting[0][0] <= now:
            _, _, one = heapq.heappop(self._waiting)
            if one.status is Status.WAITING and self.is_current(one):
                self._make_ready(one)
        if now < self._not_before or not self._has_ready:
            return None
        session, settings = self._session, self._settings
        named, forgotten = self._all() if session.is_full else self._news()
        self._idle = {}
        for one in named:
            one.in_session = one.asked = True
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._replica_id, replica_epoch=broker_epoch),
            # Those that had no place in this request are not to wait.
            max_wait_ms=0 if self._changed else settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=_topics(named),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def _all(self) -> tuple[list[Followed], list[_Key]]:
        """Return the partitions of a request that opens a session."""
        for one in self._partitions.values():
            one.in_session = one.asked = False
        ready = [one for one in self._partitions.values() if one.status is Status.READY]
        named, later = ready[:NAMED_MAX], ready[NAMED_MAX:]
        if later:
            # Without a session each request is one of these: the others come first next time.
            for one in named:
                self._partitions[one.key] = self._partitions.pop(one.key)
        self._changed = {one.key: one for one in later}
        return named, []

    def _news(self) -> tuple[list[Followed], list[_Key]]:
        """Return the partitions to name in a session, and those to forget."""
        for key in self._idle:
            if (left := self._partitions.get(key)) is not None:
                left.in_session = left.asked = False
        named = list(itertools.islice(self._changed.values(), NAMED_MAX))
        for one in named:
            del self._changed[one.key]
        return named, list(self._idle)

    def failed(self, now: float) -> None:
        """The last request was not answered."""
        self._session.restart()
        self._not_before = now + self._settings.backoff_s

    # --- answers
    # ---------------------------------------------------------------------------------------------

    def answered(self, response: FetchResponse, now: float) -> list[Step]:
        """Return what the logs have to do. Each partition of a step is busy until
        :meth:`positioned` or :meth:`back_off`.
        """
        self.refused = []
        if response.error_code:
            self._session_refused(response.error_code, now)
            return []
        self._restarts = 0
        self._session.answered(response.session_id)
        steps: list[Step] = []
        find = self._partitions.get
        for topic in response.responses:
            topic_id = topic.topic_id
            for data in topic.partitions:
                one = find((topic_id, data.partition_index))
                # Else it changed after the request.
                if one is not None and one.asked and one.status is Status.READY:
                    step = self._step(one, data, now)
                    if step is not None:
                        self._leave(one, Status.BUSY)
                        steps.append(step)
        if self._session.is_full:
            self._move_behind(steps)
        return steps

    def _session_refused(self, code: int, now: float) -> None:
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session.lost()
        else:
            self._session.restart()
        self._restarts += 1
        if code not in _SESSION_LOST or self._restarts > 1:
            self._not_before = now + self._settings.backoff_s

    def _step(self, one: Followed, data: PartitionData, now: float) -> Step | None:
        one.error = code = data.error_code
        if not code:
            diverging = data.diverging_epoch
            if diverging.epoch < 0:
                one.leaders_end = data.high_watermark
                return Append(
                    one,
                    data.records,
                    data.high_watermark,
                    data.log_start_offset,
                    data.current_leader.leader_epoch == one.leader_epoch,
                )
            if 0 <= diverging.end_offset <= data.log_start_offset:
                # All that the logs share was deleted, or nothing is known of it.
                return StartAt(one, data.log_start_offset)
            if diverging.end_offset >= 0:
                return Truncate(one, diverging.epoch, diverging.end_offset)
            one.error = ErrorCode.UNKNOWN_SERVER_ERROR
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return Locate(one)
        self.refused.append(one)
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            # There is a newer leader: the metadata log names it.
            self._leave(one, Status.STOPPED)
        else:
            self.back_off(one, now)
        return None

    def _move_behind(self, steps: Iterable[Step]) -> None:
        """Without a session the leader fills its response in the order of the request: those that
        had records come last in the next one.
        """
        for step in steps:
            key = step.followed.key
            self._partitions[key] = self._partitions.pop(key)

    # --- steps
    # ---------------------------------------------------------------------------------------------

    def located(
        self, one: Followed, leaders_start: int, leaders_end: int
    ) -> CutTo | StartAt | None:
        """The leader's log begins and ends here: return what the follower's log has to do, None if
        its end is in the leader's log after all (``fetchOffsetAndTruncate``).
        """
        end = one.wire.fetch_offset
        if leaders_start < leaders_end < end:
            # Its leader was elected without the newest records.
            return CutTo(one, leaders_end)
        is_within = leaders_start <= end <= leaders_end
        return None if is_within else StartAt(one, leaders_start)

    def positioned(self, one: Followed, position: Position) -> None:
        """The step of a partition is done, and its log is at ``position``."""
        if not self.is_current(one):
            return
        one.move(position)
        self._make_ready(one)

    def back_off(self, one: Followed, now: float, position: Position | None = None) -> None:
        """Leave a partition out for a while; its log is at ``position``, None: as before."""
        if not self.is_current(one):
            return
        if position is not None:
            one.move(position)
        self._leave(one, Status.WAITING)
        due = now + self._settings.backoff_s
        heapq.heappush(self._waiting, (due, next(self._count), one))

    def hold_back(self, now: float, is_throttled: Callable[[Followed], bool]) -> None:
        """Leave the partitions out for a while that are throttled, and not in sync."""
        for one in self.partitions:
            is_in_sync = one.leaders_end >= 0 and not one.lag
            if one.status is Status.READY and not is_in_sync and is_throttled(one):
                self.back_off(one, now)

    def _leave(self, one: Followed, status: Status) -> None:
        one.status = status
        self._unready.add(one.key)
        self._changed.pop(one.key, None)
        if one.in_session:
            self._idle[one.key] = None

    def _make_ready(self, one: Followed) -> None:
        one.status = Status.READY
        self._unready.discard(one.key)
        self._idle.pop(one.key, None)
        if not one.asked:
            self._changed[one.key] = one


def _topics(partitions: Iterable[Followed]) -> list[FetchTopic]:
    topics: dict[Uuid, FetchTopic] = {}
    for one in partitions:
        topic = topics.get(one.topic_id)
        if topic is None:
            topic = topics[one.topic_id] = FetchTopic(topic_id=one.topic_id)
        topic.partitions.append(one.wire)
    return list(topics.values())


def _forgotten(keys: Iterable[_Key]) -> list[ForgottenTopic]:
    topics: dict[Uuid, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())
