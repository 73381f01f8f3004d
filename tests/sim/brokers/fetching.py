"""Serves Fetch requests of followers at a simulated broker, in sessions (KIP-227), and holds them
until there is news or their time is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.base.leader_epochs import end_offset_for
from gateway.broker.replica.follower_state import Contact
from kwire.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kwire.protocol import ErrorCode
from tests.sim.brokers.messages import Key
from tests.sim.brokers.replica import ENTRIES_MAX, Replica

if TYPE_CHECKING:
    from kwire.messages.fetch_request import FetchPartition, FetchRequest
    from tests.sim.brokers.broker import Broker

_SESSIONS_MAX: Final = 6


class _Session:
    """The partitions of a follower, as its requests have named them."""

    def __init__(self, now: float) -> None:
        self.epoch = 1
        self.contact = Contact(now)
        self.partitions: dict[Key, FetchPartition] = {}
        self.told: dict[Key, tuple[int, int]] = {}  # high watermark and log start
        self.noted: dict[Key, int] = {}  # the offset that the leader has heard of


class _Parked:
    """A request that waits for news."""

    def __init__(self, number: int, request: FetchRequest, session_id: int) -> None:
        self.number, self.request, self.session_id = number, request, session_id


class FollowerFetches:
    """The Fetch requests of followers at ``broker``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[int, _Session] = {}
        self._count = 0
        self._parked: list[_Parked] = []

    def ask(self, number: int, request: FetchRequest) -> None:
        """A follower asks."""
        if request.session_epoch <= 0:
            self._sessions.pop(request.session_id, None)
            self._count += 1
            session_id = self._broker.incarnation * 10_000 + self._count
            session = self._sessions[session_id] = _Session(self._broker.now)
            while len(self._sessions) > _SESSIONS_MAX:
                del self._sessions[next(iter(self._sessions))]
        else:
            session_id = request.session_id
            found = self._sessions.get(session_id)
            if found is None or found.epoch != request.session_epoch:
                error = (
                    ErrorCode.FETCH_SESSION_ID_NOT_FOUND
                    if found is None
                    else ErrorCode.INVALID_FETCH_SESSION_EPOCH
                )
                self._broker.reply(number, FetchResponse(error_code=error))
                return
            session = found
            session.epoch += 1
            session.contact.at = self._broker.now
        self._take(session, request)
        parked = _Parked(number, request, session_id)
        if not self._answer(parked, now_or_never=False):
            self._parked.append(parked)
            self._broker.after(request.max_wait_ms / 1000, lambda: self._give_up(parked))

    def _take(self, session: _Session, request: FetchRequest) -> None:
        for topic in request.topics:
            for one in topic.partitions:
                session.partitions[topic.topic_id, one.partition] = one
        for gone in request.forgotten_topics_data:
            for index in gone.partitions:
                session.partitions.pop((gone.topic_id, index), None)
                session.told.pop((gone.topic_id, index), None)

    def _give_up(self, parked: _Parked) -> None:
        if parked in self._parked:
            self._parked.remove(parked)
            self._answer(parked, now_or_never=True)

    def wake(self) -> None:
        """A partition has news."""
        waiting, self._parked = self._parked, []
        self._parked = [one for one in waiting if not self._answer(one, now_or_never=False)]

    def forget(self, number: int) -> None:
        """The connection of a request is gone."""
        self._parked = [one for one in self._parked if one.number != number]

    def _answer(self, parked: _Parked, *, now_or_never: bool) -> bool:
        session = self._sessions.get(parked.session_id)
        if session is None:
            self._broker.reply(
                parked.number, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            )
            return True
        state = parked.request.replica_state
        named = {(t.topic_id, p.partition) for t in parked.request.topics for p in t.partitions}
        found: list[tuple[Key, PartitionData]] = []
        is_urgent = parked.request.session_epoch <= 0
        for key, wanted in session.partitions.items():
            is_noted = key not in named and session.noted.get(key) == wanted.fetch_offset
            data = self._read(key, wanted, state, None if is_noted else session.contact)
            if data.error_code or data.diverging_epoch.epoch >= 0:
                session.noted.pop(key, None)
            else:
                session.noted[key] = wanted.fetch_offset
            told = data.high_watermark, data.log_start_offset
            has_news = bool(data.error_code or data.records or data.diverging_epoch.epoch >= 0)
            is_urgent = is_urgent or has_news
            if has_news or told != session.told.get(key) or key in named:
                found.append((key, data))
            session.told[key] = told
        # A Fetch counts once: a request that waits is not one more at each wake-up.
        parked.request.topics = []
        if not is_urgent and not now_or_never:
            for key, _ in found:
                session.told.pop(key, None)
            return False
        response = FetchResponse(session_id=parked.session_id)
        for (topic_id, _), data in found:
            response.responses.append(FetchableTopicResponse(topic_id=topic_id, partitions=[data]))
        self._broker.reply(parked.number, response)
        return True

    def _read(
        self, key: Key, wanted: FetchPartition, state: Any, contact: Contact | None
    ) -> PartitionData:
        replica = self._broker.replicas.get(key)
        data = PartitionData(partition_index=key[1], high_watermark=-1, records=())
        fault = self.fault(replica, wanted.current_leader_epoch)
        if fault is ErrorCode.NONE and replica is not None and replica.leader is not None:
            fault = replica.leader.check_follower(state.replica_id, state.replica_epoch)
        if fault is not ErrorCode.NONE or replica is None or replica.leader is None:
            data.error_code = int(fault)
            return data
        log, offset = replica.log, wanted.fetch_offset
        diverging = None if offset < log.start_offset else _diverging(replica, wanted)
        if diverging is None and not log.start_offset <= offset <= log.end_offset:
            data.error_code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
            return data
        data.high_watermark, data.log_start_offset = replica.high_watermark, log.start_offset
        if diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
            return data
        data.records = log.read(offset, log.end_offset, ENTRIES_MAX)
        if contact is not None:
            proposal = replica.fetched(
                state.replica_id,
                state.replica_epoch,
                offset,
                wanted.log_start_offset,
                contact,
                is_compared=wanted.last_fetched_epoch < 0 or log.start_offset < offset,
            )
            if proposal is not None:
                self._broker.alter_partitions.propose(key, proposal)
        if offset == log.start_offset and replica.leader.has_compared(state.replica_id):
            data.current_leader = LeaderIdAndEpoch(
                leader_id=self._broker.id, leader_epoch=replica.leader_epoch
            )
        return data

    @staticmethod
    def fault(replica: Replica | None, leader_epoch: int) -> ErrorCode:
        """The error of a request in this leader epoch."""
        if replica is None or replica.leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if leader_epoch < replica.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_epoch > replica.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE


def _diverging(replica: Replica, wanted: FetchPartition) -> tuple[int, int] | None:
    """The leader's (epoch, end offset) to which the follower truncates, if their logs differ."""
    if wanted.last_fetched_epoch < 0:
        return None
    log = replica.log
    entries, end = log.epochs.entries, log.end_offset
    last = wanted.last_fetched_epoch
    epoch, ends = (
        (last, end) if last == replica.leader_epoch else end_offset_for(entries, last, end)
    )
    if epoch < 0:
        return None
    return (epoch, ends) if epoch < last or ends < wanted.fetch_offset else None
