"""Keeps the Fetch sessions of consumers and followers (KIP-227): the partitions that a client
fetches, of which later requests and responses name only those with a change (``FetchSession``,
``FetchSessionCache``).

Kafka looks at every partition of a session in every Fetch. Here a partition that advances marks
itself in its sessions, so that one without news costs nothing. Pure: the handler of Fetch finds the
partitions and reads them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from gateway.broker.replica.follower_state import Contact
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from gateway.ports.services import Partition

#: Session epochs of full requests (``FetchMetadata.INITIAL_EPOCH`` and ``FINAL_EPOCH``).
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
#: The id in the response to a request outside of a session.
INVALID_SESSION_ID: Final = 0
_INT_MAX: Final = (1 << 31) - 1
#: ``ServerConfigs.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS``, in s.
EVICTION_S: Final = 120.0
#: Partitions in all sessions together, at most: 50 MB. A session beyond that is not kept, and its
#: client sends full requests.
PARTITIONS_MAX: Final = 100_000

#: The topic by id, or by name in versions without ids, and the number of the partition.
Key: TypeAlias = tuple[Uuid | str, int]


class FetchedPartition:
    """One partition that a client fetches, with its log, or with an error in its place; None: it
    was not looked for yet.

    It has the fields that the response depends on. ``high_watermark`` and ``log_start_offset`` are
    those of the last response, in a session. ``fault`` is the error for a client that is no
    follower of the partition. ``is_compared``: all records of the follower are known to be this
    log's.
    """

    __slots__ = (
        "fault",
        "fetch_offset",
        "follower_start_offset",
        "high_watermark",
        "is_compared",
        "last_fetched_epoch",
        "leader_epoch",
        "log",
        "log_start_offset",
        "max_bytes",
        "partition",
        "session",
        "topic",
        "topic_id",
        "watched",
    )

    def __init__(self, topic: str, topic_id: Uuid, partition: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = 0
        self.follower_start_offset = -1
        self.fault = ErrorCode.NONE
        self.is_compared = False
        self.max_bytes = 0
        self.leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log: Partition | ErrorCode | None = None
        self.high_watermark = -1
        self.log_start_offset = -1
        self.session: FetchSession | None = None
        self.watched: Partition | None = None


class FetchSession:
    """The partitions of one client. ``marked`` are those that may have news, in the order in which
    they are to be served.
    """

    __slots__ = (
        "_callbacks",
        "by_id",
        "contact",
        "created_at",
        "epoch",
        "id",
        "marked",
        "partitions",
        "used_at",
        "version",
    )

    def __init__(self, session_id: int, *, by_id: bool, now: float) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = INITIAL_EPOCH + 1
        self.created_at = self.used_at = now
        #: The time of its newest request, if it is that of a follower.
        self.contact = Contact(now)
        self.partitions: dict[Key, FetchedPartition] = {}
        self.marked: dict[FetchedPartition, None] = {}
        #: Of the topics that ``partitions`` were looked for in.
        self.version: Hashable = None
        self._callbacks: list[Callable[[], None]] = []

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` whenever a partition may have news; return the unsubscriber."""
        self._callbacks.append(callback)
        return partial(self._callbacks.remove, callback)

    def mark(self, one: FetchedPartition) -> None:
        """``one`` may have news."""
        self.marked.setdefault(one)
        for callback in tuple(self._callbacks):
            callback()

    def mark_all(self) -> None:
        """Any partition may have news: the topics have changed."""
        for one in self.partitions.values():
            one.log = None
            self.marked.setdefault(one)

    def again(self, one: FetchedPartition) -> None:
        """``one`` was left out of a response: the next one has it, unless it was forgotten."""
        key = (one.topic_id if self.by_id else one.topic), one.partition
        if self.partitions.get(key) is one:
            one.high_watermark = -1
            self.marked.setdefault(one)

    def served(self, one: FetchedPartition) -> None:
        """``one`` got records: the others come first next time."""
        if one in self.marked:
            del self.marked[one]
            self.marked[one] = None


class _Watch(NamedTuple):
    """The partitions of sessions that one log marks."""

    sessions: dict[FetchedPartition, None]
    unsubscribe: Callable[[], None]


class FetchSessionCache:
    """All sessions, at most ``slots`` (``max.incremental.fetch.session.cache.slots``)."""

    def __init__(
        self,
        slots: int,
        randbelow: Callable[[int], int],
        *,
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        """``randbelow(n)`` returns a number from 0 to n - 1 that no client can guess."""
        self._slots = slots
        self._partitions_max = partitions_max
        self._randbelow = randbelow
        self._sessions: dict[int, FetchSession] = {}  # the one used longest ago first
        self._watches: dict[Partition, _Watch] = {}
        #: Partitions in all sessions (``NumIncrementalFetchPartitionsCached``).
        self.partition_count = 0
        #: Sessions that had to go for others (``IncrementalFetchSessionEvictionsPerSec``).
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(
        self, session_id: int, epoch: int, *, by_id: bool, now: float
    ) -> FetchSession | ErrorCode:
        """Return the session of an incremental request, which begins its next epoch; or the error
        of the response (``FetchManager.newContext``).
        """
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = next_epoch(epoch)
        session.used_at = session.contact.at = now
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def create(self, size: int, *, by_id: bool, now: float) -> FetchSession | None:
        """Return a new session, to which ``size`` partitions are to be added; None if there is no
        space for it (``FetchSessionCacheShard.maybeCreateSession``).
        """
        if size == 0 or self.partition_count + size > self._partitions_max:
            return None
        if len(self._sessions) >= self._slots and not self._evict(size, now):
            return None
        session_id = 1 + self._randbelow(_INT_MAX)
        while session_id in self._sessions:
            session_id = 1 + self._randbelow(_INT_MAX)
        session = self._sessions[session_id] = FetchSession(session_id, by_id=by_id, now=now)
        return session

    def _evict(self, size: int, now: float) -> bool:
        """Remove a session for a new one of ``size`` partitions: one that was not used for long,
        or the smallest of those that exist for long, if it is no larger. Whether there was one.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now - oldest.used_at <= EVICTION_S:
            old = (one for one in self._sessions.values() if now - one.created_at > EVICTION_S)
            oldest = min(old, key=lambda one: (len(one.partitions), one.id), default=None)
            if oldest is None or len(oldest.partitions) >= size:
                return False
        self.remove(oldest.id)
        self.evictions += 1
        return True

    def remove(self, session_id: int) -> None:
        """End a session, if there is one of this id."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self.partition_count -= len(session.partitions)
        for one in session.partitions.values():
            self._unwatch(one)

    def holds(self, session: FetchSession) -> bool:
        """Whether the session was not removed."""
        return self._sessions.get(session.id) is session

    def add(self, session: FetchSession, one: FetchedPartition) -> None:
        """Have ``session`` fetch a further partition."""
        session.partitions[_key(session, one.topic, one.topic_id), one.partition] = one
        self.partition_count += 1
        one.session = session
        session.marked[one] = None
        self.watch(one)

    def asked(
        self, session: FetchSession, topic: str, topic_id: Uuid, index: int
    ) -> FetchedPartition | None:
        """Return the partition that a request in ``session`` names, which may have news, or a new
        one; None if there is no space for it.
        """
        one = session.partitions.get((_key(session, topic, topic_id), index))
        if one is None:
            if self.partition_count >= self._partitions_max:
                return None
            one = FetchedPartition(topic, topic_id, index)
            self.add(session, one)
        session.marked.setdefault(one)
        return one

    def forget(self, session: FetchSession, topic: str, topic_id: Uuid, index: int) -> None:
        """``session`` does not fetch a partition any more."""
        one = session.partitions.pop((_key(session, topic, topic_id), index), None)
        if one is not None:
            self.partition_count -= 1
            session.marked.pop(one, None)
            self._unwatch(one)

    def watch(self, one: FetchedPartition) -> None:
        """Have the log of ``one`` mark it from now on."""
        log = one.log
        if one.watched is log or one.session is None:
            return
        self._unwatch(one)
        if log is None or isinstance(log, ErrorCode):
            return
        one.watched = log
        watch = self._watches.get(log)
        if watch is None:
            waiting: dict[FetchedPartition, None] = {}
            watch = _Watch(waiting, log.on_advance(partial(_mark, waiting)))
            self._watches[log] = watch
        watch.sessions[one] = None

    def _unwatch(self, one: FetchedPartition) -> None:
        if one.watched is None:
            return
        watch = self._watches[one.watched]
        del watch.sessions[one]
        if not watch.sessions:
            watch.unsubscribe()
            del self._watches[one.watched]
        one.watched = None


def next_epoch(epoch: int) -> int:
    """Return the epoch that follows (``FetchMetadata.nextEpoch``)."""
    return 1 if epoch == _INT_MAX else epoch + 1


def _key(session: FetchSession, topic: str, topic_id: Uuid) -> Uuid | str:
    return topic_id if session.by_id else topic


def _mark(partitions: Iterable[FetchedPartition]) -> None:
    for one in partitions:
        assert one.session is not None, "only partitions of sessions are watched"
        one.session.mark(one)
