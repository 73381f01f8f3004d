"""Fetch (key 1) of a consumer: returns whole batches below the high watermark, or waits for some;
and of a follower, to which it returns the whole log, and which tells by it how far it is.

``gateway.handlers.fetch_sessions`` keeps the sessions of clients (KIP-227), and
``gateway.ports.services.ReadPolicy`` decides about replica ids and isolation levels.
Fetch of the quorum's replicas is in ``gateway.handlers.apis.raft``, on controller listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.base.slices import pieces
from gateway.broker.replica.follower_state import Contact
from gateway.handlers import fetch_quota
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.fetch_leader import name_leader, tell_compared
from gateway.handlers.fetch_progress import diverging, held_back, is_settled, note_progress
from gateway.handlers.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchedPartition
from gateway.handlers.fetch_topic import BY_ID, readable_topic
from gateway.handlers.preferred_replica import NONE, preferred_replica, rack_of
from gateway.handlers.topic import partition_fault
from gateway.ports.pending_response import PendingResponse, WorkType
from gateway.ports.services import (
    FileRecords,
    Isolation,
    OffsetOutOfRange,
    Partition,
    State,
)
from gateway.ports.streamed import WHOLE_MAX
from kwire.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gateway.handlers.catalog import Topic
    from gateway.handlers.context import Context
    from gateway.handlers.fetch_sessions import FetchSession
    from gateway.handlers.topic_changes import TopicChanges
    from gateway.ports.pending_response import Advancing, Work
    from kwire.messages.fetch_request import (
        FetchPartition,
        FetchRequest,
        FetchTopic,
        ForgottenTopic,
    )
    from kwire.uuid import Uuid

API_KEY: Final = ApiKey.FETCH
VERSIONS: Final = range(4, 19)

#: The longest wait, ms. The 32 bits of a request hold 24 days, in which the request would occupy
#: its place among those that wait. An empty response before the time is always allowed.
WAIT_MAX_MS: Final = 300_000
#: The first version with the replica's id in ``replica_state`` (KIP-903).
_REPLICA_STATE: Final = 15
#: Session epochs of full requests.
_FULL: Final = (INITIAL_EPOCH, FINAL_EPOCH)
#: Partitions of a long request that are looked up in one step.
_COLLECTED_AT_ONCE: Final = 100


def handle(request: FetchRequest, context: Context) -> FetchResponse | PendingResponse | Work:
    """Return the response at once if there is data or an error, else when ``min_bytes`` are
    available or ``max_wait_ms`` is over.

    If there is a batch, at least one whole batch is returned, even above every limit (KIP-74). A
    request within a session names only the partitions that changed for the client (KIP-227).
    """
    sessions = context.gateway.fetch_sessions
    session: FetchSession | None = None
    if request.session_epoch in _FULL:
        # A full request ends the session that it names.
        sessions.remove(request.session_id)
    else:
        found = sessions.find(
            request.session_id,
            request.session_epoch,
            by_id=context.version >= BY_ID,
            now=context.now,
        )
        if isinstance(found, ErrorCode):
            return FetchResponse(error_code=found)
        session = found
    fetch = _Fetch(request, context, session)
    size = sum(len(topic.partitions) for topic in request.topics)
    size += sum(len(topic.partitions) for topic in request.forgotten_topics_data)
    if size > WHOLE_MAX:
        return _work_on(fetch, request, context)
    for topic in request.topics:
        fetch.collect(topic, topic.partitions)
    for forgotten in request.forgotten_topics_data:
        fetch.forget(forgotten, forgotten.partitions)
    return _answer(fetch, request, context)


def _work_on(fetch: _Fetch, request: FetchRequest, context: Context) -> Work:
    """Answer a request of many partitions in slices."""
    for topic in request.topics:
        for some in pieces(topic.partitions, _COLLECTED_AT_ONCE):
            fetch.collect(topic, some)
            yield None
    for forgotten in request.forgotten_topics_data:
        for indexes in pieces(forgotten.partitions, _COLLECTED_AT_ONCE):
            fetch.forget(forgotten, indexes)
            yield None
    answer = _answer(fetch, request, context)
    return (yield from answer) if isinstance(answer, WorkType) else answer


def _answer(
    fetch: _Fetch, request: FetchRequest, context: Context
) -> FetchResponse | PendingResponse | Work:
    fetch.look_again()
    if fetch.is_of_follower:
        if fetch.size > WHOLE_MAX:
            return _note_in_slices(fetch, request, context)
        for one in fetch.wanted:
            fetch.note(one)
        fetch.has_looked_up = True
    return _wait(fetch, request, context)


def _note_in_slices(fetch: _Fetch, request: FetchRequest, context: Context) -> Work:
    """Note how far a follower of many partitions is."""
    for one in fetch.wanted:
        fetch.note(one)
        yield None
    answer = _wait(fetch, request, context)
    return (yield from answer) if isinstance(answer, WorkType) else answer


def _wait(
    fetch: _Fetch, request: FetchRequest, context: Context
) -> FetchResponse | PendingResponse | Work:
    if request.max_wait_ms <= 0 or fetch.is_ready():
        return fetch.answer()
    fetch.has_looked_up = False
    wait_ms = min(request.max_wait_ms, WAIT_MAX_MS)
    return PendingResponse(
        deadline=context.now + wait_ms / 1000,
        expire=fetch.answer,
        ready=fetch.answer_if_ready,
        partitions=fetch.watched,
        keeps_request=False,
    )


class _Fetch:
    """One request, which is checked at once and again whenever a log grows.

    The request itself may be large, and is dropped while the Fetch waits.
    """

    __slots__ = (
        "_begins_session",
        "_by_id",
        "_bytes_left",
        "_bytes_max",
        "_bytes_min",
        "_context",
        "_epoch",
        "_has_records",
        "_held_back",
        "_isolation",
        "_may_replicate",
        "_overflows",
        "_rack",
        "_read",
        "_replica",
        "_session",
        "_version",
        "_wanted",
        "has_looked_up",
    )

    def __init__(
        self, request: FetchRequest, context: Context, session: FetchSession | None
    ) -> None:
        self._context = context
        #: The logs of the session were found in this step of the event loop, and need not be again.
        self.has_looked_up = False
        state = request.replica_state
        #: Id and broker epoch of a follower.
        self._replica = (
            (state.replica_id, state.replica_epoch)
            if context.version >= _REPLICA_STATE
            else (request.replica_id, -1)
        )
        self._isolation = context.gateway.partitions.policy.isolation(
            self._replica[0], request.isolation_level
        )
        #: Of a client that may fetch from followers, None of another (``FetchParams``).
        self._rack = None if self.is_of_follower else rack_of(request.rack_id, context)
        self._may_replicate = self.is_of_follower and may_on_cluster(
            context, Operation.CLUSTER_ACTION
        )
        self._held_back = held_back(self._replica[0], context) if self.is_of_follower else None
        if context.quota is not None:
            # Brokers are throttled by other quotas (KIP-73).
            context.quota.is_exempt = self._may_replicate
        # As in ReplicaManager: the server's limit lowers the client's, and both lower the number of
        # bytes that the client waits for, which it would never get.
        most = max(0, min(request.max_bytes, context.gateway.config.fetch_max_bytes))
        self._bytes_max = fetch_quota.bytes_max(most, context)
        self._bytes_min = min(request.min_bytes, self._bytes_max)
        self._bytes_left = self._bytes_max
        self._has_records = False
        self._read: list[tuple[Partition, int]] = []  # what the response has, with its bytes
        self._by_id = context.version >= BY_ID
        self._session = session
        self._epoch = 0 if session is None else session.epoch
        self._begins_session = request.session_epoch == INITIAL_EPOCH
        self._overflows = False
        self._version = self._topics_version()
        # Of a full request. As in Kafka's map by topic and partition, the last of several entries
        # for one partition counts.
        self._wanted: dict[tuple[Uuid | str, int], FetchedPartition] = {}

    def _topics_version(self) -> tuple[TopicChanges, int]:
        changes = self._context.gateway.topic_index.changes
        return changes, changes.number

    # --- followers
    # ---------------------------------------------------------------------------------------------

    @property
    def is_of_follower(self) -> bool:
        """Whether a broker asks that follows the partitions."""
        return self._isolation is Isolation.LOG_END

    @property
    def wanted(self) -> Collection[FetchedPartition]:
        """The partitions that are asked for; of a session those that may have news."""
        session = self._session
        return list(self._wanted.values() if session is None else session.marked)

    @property
    def size(self) -> int:
        """How many these are."""
        return len(self._wanted if self._session is None else self._session.marked)

    def note(self, one: FetchedPartition) -> None:
        """Tell the log of a partition how far its follower is, once a request."""
        session = self._session
        if session is not None:
            self._look_up(one)
        contact = Contact(self._context.now) if session is None else session.contact
        note_progress(one, *self._replica, contact)

    # --- the partitions of the request
    # ---------------------------------------------------------------------------------------------

    def collect(self, topic: FetchTopic, asked: Iterable[FetchPartition]) -> None:
        """Note partitions of the request, of a full one with their logs."""
        name, topic_id, session = topic.topic, topic.topic_id, self._session
        sessions = self._context.gateway.fetch_sessions
        found = (
            self._topic(name, topic_id) if session is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        for partition in asked:
            index = partition.partition
            if session is not None:
                one = sessions.asked(session, name, topic_id, index)
                if one is None:
                    self._overflows = True
                    return
            else:
                one = FetchedPartition(name, topic_id, index)
                one.log = self._find(found, index)
                self._wanted[topic_id if self._by_id else name, index] = one
            one.fetch_offset = partition.fetch_offset
            one.follower_start_offset = partition.log_start_offset
            one.max_bytes = partition.partition_max_bytes
            one.leader_epoch = partition.current_leader_epoch
            one.last_fetched_epoch = partition.last_fetched_epoch

    def forget(self, topic: ForgottenTopic, partitions: Iterable[int]) -> None:
        """Drop partitions from the session."""
        session = self._session
        if session is not None:
            for index in partitions:
                self._context.gateway.fetch_sessions.forget(
                    session, topic.topic, topic.topic_id, index
                )

    def _topic(self, name: str, topic_id: Uuid) -> Topic | ErrorCode:
        may_replicate = self._may_replicate if self.is_of_follower else None
        return readable_topic(name, topic_id, self._context, may_replicate)

    def _find(self, topic: Topic | ErrorCode, index: int) -> Partition | ErrorCode:
        if isinstance(topic, ErrorCode):
            return topic
        partitions = self._context.gateway.partitions
        find = partitions.find if self._rack is None else partitions.find_replica
        return find(topic.topic_id, index)

    def _look_up(self, one: FetchedPartition) -> None:
        """Find the log of a partition of the session, as this client may read it now."""
        log = one.log
        if (
            self._may_replicate
            and log is not None
            and not isinstance(log, ErrorCode)
            and log.state is State.READY
            and self._version == self._topics_version()
        ):
            return  # no topic has changed since the log was found
        one.log = self._find(self._topic(one.topic, one.topic_id), one.partition)
        self._context.gateway.fetch_sessions.watch(one)

    def look_again(self) -> None:
        """Have all partitions of the session looked at, if topics have changed since the last
        request: other nodes may lead them. Logs tell of everything else.
        """
        session = self._session
        if session is not None and session.version != self._version:
            session.version = self._version
            session.mark_all()

    # --- whether to wait
    # ---------------------------------------------------------------------------------------------

    @property
    def watched(self) -> tuple[Advancing, ...]:
        """The session that the request waits for, or its partitions, each once."""
        if self._session is not None:
            return (self._session,)
        logs = (one.log for one in self._wanted.values())
        return tuple(
            dict.fromkeys(log for log in logs if log is not None and not isinstance(log, ErrorCode))
        )

    def answer_if_ready(self) -> FetchResponse | Work | None:
        """Return the response, or None while the request waits."""
        return self.answer() if self.is_ready() else None

    def is_ready(self) -> bool:
        """Whether the response would have an error, a divergence or enough bytes now, or the
        request has no partition.
        """
        session, enough = self._session, self._bytes_min
        if enough <= 0 or self._is_over(session):
            return True
        if session is None:
            if not self._wanted:
                return True
            for one in self._wanted.values():
                enough -= self._news(one, enough)
                if enough <= 0:
                    return True
            return False
        if not session.partitions or len(session.marked) > WHOLE_MAX:
            return True  # an early response is allowed, and the loop is not held
        for one in list(session.marked):
            # A log that breaks tells its sessions, and is an error from then on.
            if one.log is None or isinstance(one.log, ErrorCode) or one.log.state is State.BROKEN:
                self._look_up(one)
            found = self._news(one, enough)
            if found:
                enough -= found
                if enough <= 0:
                    return True
            elif is_settled(one, self._isolation):
                del session.marked[one]
        return False

    def _is_over(self, session: FetchSession | None) -> bool:
        """Whether the session was ended, or another request goes on with it."""
        return session is not None and (
            self._overflows
            or session.epoch != self._epoch
            or not self._context.gateway.fetch_sessions.holds(session)
        )

    # --- the response
    # ---------------------------------------------------------------------------------------------

    def answer(self) -> FetchResponse | Work:
        """Return the response as of now, or the work that makes it."""
        session = self._session
        if session is None:
            wanted: Collection[FetchedPartition] = self._wanted.values()
        else:
            if self._is_over(session):
                return self._refused(session)
            if not session.partitions:
                self._context.gateway.fetch_sessions.remove(session.id)
                return FetchResponse()
            wanted = list(session.marked)
        if len(wanted) > WHOLE_MAX:
            return self._answer_in_slices(wanted)
        response = FetchResponse()
        topic = None
        for one in wanted:
            topic = self._add(one, topic, response)
        size = fetch_quota.counted_size(response, self._context)
        if not fetch_quota.is_within_quota(size, self._context):
            if session is not None:
                for one in wanted:
                    session.again(one)
            return fetch_quota.throttled(response, session)
        for _ in fetch_quota.counted(self._read, self._context, self.is_of_follower):
            pass
        kept = self._session_of(response, len(wanted))
        if kept is not None:
            for one in wanted:
                self._context.gateway.fetch_sessions.add(kept, one)
        return response

    def _refused(self, session: FetchSession) -> FetchResponse:
        sessions = self._context.gateway.fetch_sessions
        if self._overflows:
            sessions.remove(session.id)
        if not sessions.holds(session):
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return FetchResponse(
            error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id
        )

    def _answer_in_slices(self, wanted: Collection[FetchedPartition]) -> Work:
        """Build a long response. Releases what it read if it is given up."""
        response, topic, session = FetchResponse(), None, self._session
        try:
            for one in wanted:
                topic = self._add(one, topic, response)
                yield None
            size = yield from fetch_quota.counted_size_in_thread(response, self._context)
            if not fetch_quota.is_within_quota(size, self._context):
                if session is not None:
                    for one in wanted:
                        session.again(one)
                        yield None
                return fetch_quota.throttled(response, session)
            yield from fetch_quota.counted(self._read, self._context, self.is_of_follower)
            kept = self._session_of(response, len(wanted))
            if kept is not None:
                for one in wanted:
                    self._context.gateway.fetch_sessions.add(kept, one)
                    yield None
        except GeneratorExit:
            fetch_quota.release(response)
            raise
        return response

    def _session_of(self, response: FetchResponse, size: int) -> FetchSession | None:
        """Have the response name its session, and return a new one, which is to get the ``size``
        partitions of a full request.
        """
        if self._session is not None:
            response.session_id = self._session.id
            return None
        if not self._begins_session:
            return None
        sessions = self._context.gateway.fetch_sessions
        session = sessions.create(size, by_id=self._by_id, now=self._context.now)
        if session is not None:
            response.session_id = session.id
            session.version = self._version
        return session

    def _add(
        self,
        one: FetchedPartition,
        topic: FetchableTopicResponse | None,
        response: FetchResponse,
    ) -> FetchableTopicResponse | None:
        """Add a partition to the response, unless it is of a session and has no news. Returns the
        topic of the last partition: adjacent ones share it (FetchResponse.matchingTopic).
        """
        session = self._session
        if session is not None:
            if one not in session.marked:
                return topic  # forgotten meanwhile
            if not self.has_looked_up:
                self._look_up(one)
        data = self._partition(one, response)
        size = len(data.records or b"")
        has_news = (
            data.error_code != ErrorCode.NONE
            or size > 0
            or data.high_watermark != one.high_watermark
            or data.log_start_offset != one.log_start_offset
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica != NONE
        )
        one.high_watermark, one.log_start_offset = data.high_watermark, data.log_start_offset
        if session is not None:
            if size:
                session.served(one)
            elif data.preferred_read_replica == NONE and is_settled(one, self._isolation):
                del session.marked[one]
            if not has_news:
                return topic
        if topic is None or topic.topic != one.topic or topic.topic_id != one.topic_id:
            topic = FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id)
            response.responses.append(topic)
        topic.partitions.append(data)
        return topic

    def _news(self, wanted: FetchedPartition, enough: int) -> int:
        """Return how many bytes a partition has for the response, no more than ``enough``, or so
        many if it has an error or a divergence.
        """
        log = wanted.log
        if (
            log is None
            or isinstance(log, ErrorCode)
            or wanted.fault
            or partition_fault(log, wanted.leader_epoch)
        ):
            return enough
        # Above the high watermark a consumer waits: it may have read from an earlier leader.
        end = log.visible_end(Isolation.LOG_END)
        if preferred_replica(log, wanted.fetch_offset, self._rack, self._context) != NONE:
            return enough
        if not log.log_start_offset <= wanted.fetch_offset <= end:
            return enough
        # More than the limit of the partition is never sent, so a wait for more would never end.
        most = max(1, min(enough, wanted.max_bytes))
        try:
            if self._held_back is not None and self._held_back(log):
                return enough if diverging(log, wanted) is not None else 0
            found = log.bytes_available(wanted.fetch_offset, most, self._isolation)
            return enough if found >= most or diverging(log, wanted) is not None else found
        except OffsetOutOfRange:
            return enough

    def _partition(self, wanted: FetchedPartition, response: FetchResponse) -> PartitionData:
        log = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wanted.log is None else wanted.log
        fault = (
            log
            if isinstance(log, ErrorCode)
            else wanted.fault or partition_fault(log, wanted.leader_epoch)
        )
        if not isinstance(log, ErrorCode) and fault is ErrorCode.NONE:
            try:
                return self._data(log, wanted)
            except OffsetOutOfRange:
                fault = ErrorCode.OFFSET_OUT_OF_RANGE
        data = PartitionData(
            partition_index=wanted.partition, error_code=fault, high_watermark=-1, records=b""
        )
        if not isinstance(log, ErrorCode) and fault is ErrorCode.FENCED_LEADER_EPOCH:
            name_leader(wanted, log.leader_epoch, data, response, self._context)
        return data

    def _data(self, log: Partition, wanted: FetchedPartition) -> PartitionData:
        preferred = preferred_replica(log, wanted.fetch_offset, self._rack, self._context)
        apart = None if preferred != NONE else diverging(log, wanted)
        data = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.visible_end(Isolation.TXN_COMMITTED),
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self._isolation is Isolation.TXN_COMMITTED else None,
            # Empty, never null: several clients fail on null (KAFKA-18648).
            records=b"",
            preferred_read_replica=preferred,
        )
        tell_compared(wanted, log, data, self._context)
        if preferred != NONE:
            # As in Kafka, nothing is read: there are neither records nor aborted transactions.
            data.aborted_transactions = None
        elif apart is not None:
            data.diverging_epoch = EpochEndOffset(epoch=apart[0], end_offset=apart[1])
        elif self._held_back is None or not self._held_back(log):
            most = max(0, min(wanted.max_bytes, self._bytes_left))
            aborted: list[AbortedTransaction] = []
            if self._isolation is Isolation.TXN_COMMITTED:
                read, overlapping = log.read_committed(wanted.fetch_offset, most)
                aborted = [
                    AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                    for one in overlapping
                ]
            else:
                read = log.read(wanted.fetch_offset, most, self._isolation)
            # The first partition with records gets a whole batch, whatever the limits.
            if read.size and (not self._has_records or read.size <= self._bytes_left):
                if aborted:
                    data.aborted_transactions = aborted
                data.records = FileRecords(read)
                self._has_records = True
                self._bytes_left = max(0, self._bytes_left - read.size)
            else:
                read.release()
            self._read.append((log, len(data.records or b"")))
        return data
