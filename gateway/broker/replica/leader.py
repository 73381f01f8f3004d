"""Decides for the leader of one partition: which replicas are in sync, what the controller is asked
for, and up to where records are committed (``Partition``; KIP-497, 704, 841, 903, 966).

It reads no log and sends nothing: its owner tells of appends, of Fetch requests of followers, of
the image's records and of the controller's answers, sends the :class:`Proposal` that a call
returns, and reads :attr:`high_watermark` after each call. Times are in s of a clock that never
goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.replica.follower_state import Contact, FollowerState
from gateway.broker.replica.isr import Altered, CommittedIsr, InSyncReplica, Proposal
from gateway.broker.replica.replica_selector import ReadReplica
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from kwire.messages.partition_record import PartitionRecord
    from kwire.messages.register_broker_record import RegisterBrokerRecord

#: The request has no broker epoch: none is compared.
NO_EPOCH: Final = -1
#: The controller has changed nothing, and never will by this request: the committed state is known.
_NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
#: This leader does not know the partition's state: a record of the image will tell it.
_STATE_UNKNOWN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class LeaderSettings(NamedTuple):
    """The settings of a leader. ``lag_s``: ``replica.lag.time.max.ms``. ``min_isr`` returns
    ``min.insync.replicas`` of the topic as of now. ``broker`` returns the registration of a broker
    in the image, None without one. ``broker_epoch`` returns that of this broker.
    """

    lag_s: float
    min_isr: Callable[[], int]
    broker: Callable[[int], RegisterBrokerRecord | None]
    broker_epoch: Callable[[], int]


class Leader:
    """The leader ``broker_id`` of a partition, from one leader epoch to the next while it leads."""

    def __init__(self, broker_id: int, settings: LeaderSettings, high_watermark: int) -> None:
        """``high_watermark`` is the one that this replica knows."""
        self.broker_id = broker_id
        self.high_watermark = high_watermark
        self.end_offset = high_watermark
        self.leader_epoch = -1
        self.partition_epoch = -1
        #: Where the log ended when the leader epoch began.
        self.epoch_start_offset = high_watermark
        self.followers: dict[int, FollowerState] = {}
        self.state: CommittedIsr | Proposal = CommittedIsr(frozenset())
        self._settings = settings

    # --- records of the image
    # ---------------------------------------------------------------------------------------------

    def lead(self, record: PartitionRecord, end_offset: int, now: float) -> None:
        """Take the state of a record of the image, with which a leader epoch may begin;
        ``end_offset``: of the log. One that is older than an answer of the controller counts for
        nothing.
        """
        is_new_epoch = record.leader_epoch > self.leader_epoch
        if record.partition_epoch < self.partition_epoch or (
            # Nothing new, and no answer to what was asked for since.
            record.partition_epoch == self.partition_epoch
            and not is_new_epoch
            and isinstance(self.state, Proposal)
        ):
            return
        # Nothing is known of a follower before its first Fetch in the epoch. The records of several
        # epochs may come at once: another broker has led, and the follower has cut its log, or it
        # was no replica, and has deleted it.
        known = {} if is_new_epoch else self.followers
        self.followers = {
            broker_id: known.get(broker_id) or FollowerState(broker_id)
            for broker_id in record.replicas
            if broker_id != self.broker_id
        }
        # A leader is alone in the ISR while it recovers, and has recovered as soon as it leads: its
        # log is what is left of the partition (KIP-704).
        self.state = CommittedIsr(frozenset(record.isr))
        self.end_offset = max(self.end_offset, end_offset)
        if is_new_epoch:
            for one in self.followers.values():
                if one.broker_id in record.isr:
                    # It has the whole of ``replica.lag.time.max.ms`` for that Fetch.
                    one.caught_up_at = now
            self.leader_epoch, self.epoch_start_offset = record.leader_epoch, end_offset
        self.partition_epoch = record.partition_epoch
        self._advance(now)

    # --- the log
    # ---------------------------------------------------------------------------------------------

    def on_appended(self, end_offset: int, now: float) -> None:
        """The log of the leader ends at ``end_offset``."""
        for one in self.followers.values():
            one.heard_of(self.end_offset)
        self.end_offset = end_offset
        self._advance(now)

    @property
    def min_isr(self) -> int:
        """How many replicas have to be in sync: no more than there are."""
        return min(self._settings.min_isr(), len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for records to be committed."""
        return len(self.state.isr) < self.min_isr

    def fault_of_commit(self) -> ErrorCode:
        """Return NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few replicas have the records below the
        high watermark, else NONE.
        """
        if len(self.state.maximal) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def _advance(self, now: float) -> None:
        """Move the high watermark to where all replicas have the log that are in sync, or are about
        to join them.
        """
        # Committed records are on enough replicas: a leader elected from them has it (KIP-966).
        if self.is_under_min_isr:
            return
        high_watermark, maximal = self.end_offset, self.state.maximal
        for one in self.followers.values():
            if one.end_offset < high_watermark and (
                one.broker_id in maximal
                or (
                    # It would be too late to join behind a high watermark that runs away.
                    one.is_caught_up(self.end_offset, now, self._settings.lag_s)
                    and self._is_eligible(one)
                )
            ):
                high_watermark = one.end_offset
        self.high_watermark = max(self.high_watermark, high_watermark)

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the smallest log start of all replicas whose brokers are alive; -1 while one is
        not known. ``log_start_offset``: of the leader.
        """
        low_watermark = log_start_offset
        for one in self.followers.values():
            if one.log_start_offset < low_watermark and self._is_alive(one.broker_id):
                low_watermark = one.log_start_offset
        return low_watermark

    # --- the followers
    # ---------------------------------------------------------------------------------------------

    def check_follower(self, broker_id: int, broker_epoch: int) -> ErrorCode:
        """Return the error of a Fetch of a replica, NONE without. The leader epoch of the request
        was compared before.
        """
        if broker_id not in self.followers:
            # The image does not name it yet, or not any more: it tries again.
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        registered = self._settings.broker(broker_id)
        if registered is not None and NO_EPOCH != broker_epoch < registered.broker_epoch:
            # A process that was replaced: its successor's log may be shorter.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def on_fetch(
        self,
        broker_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        contact: Contact,
        *,
        is_compared: bool = False,
    ) -> Proposal | None:
        """A follower that :meth:`check_follower` lets pass fetches from ``offset``, which is in the
        leader's log, with the leader's records before it. Returns the change of the ISR that is due
        then. ``is_compared``: the leader has the record before ``offset``, whose epoch the request
        names, or the follower has no record.
        """
        one = self.followers[broker_id]
        before = one.end_offset
        one.fetched(
            offset,
            log_start_offset,
            self.end_offset,
            broker_epoch,
            contact,
            is_compared=is_compared,
        )
        proposal = self._expansion(one)
        if before != offset:
            self._advance(contact.at)
        return proposal

    def _expansion(self, one: FollowerState) -> Proposal | None:
        state = self.state
        if (
            isinstance(state, Proposal)
            or one.broker_id in state.isr
            # A follower with the high watermark may lack records that an earlier leader has
            # committed, until it is where this leader began.
            or one.end_offset < max(self.high_watermark, self.epoch_start_offset)
            or not self._is_eligible(one)
        ):
            return None
        return self._propose(state, state.isr | {one.broker_id})

    def has_compared(self, broker_id: int) -> bool:
        """Whether all records of a follower are known to be the leader's, also where the leader
        has deleted its own.
        """
        one = self.followers.get(broker_id)
        return one is not None and one.is_compared

    def look_again(self) -> Proposal | None:
        """Return the change of the ISR that adds a follower which might not join when it fetched:
        another change was not decided, or its broker was fenced. A follower that has everything
        need not fetch again, as its session leaves the partition out.
        """
        for one in self.followers.values():
            proposal = self._expansion(one)
            if proposal is not None:
                return proposal
        return None

    def read_replicas(self, offset: int) -> list[ReadReplica]:
        """Return the followers in the ISR whose logs have ``offset``, or end there."""
        found = []
        for one in self.followers.values():
            if one.broker_id in self.state.isr and one.log_start_offset <= offset <= one.end_offset:
                one.heard_of(self.end_offset)
                found.append(ReadReplica(one.broker_id, one.end_offset, one.caught_up_at))
        return found

    def check_lag(self, now: float) -> Proposal | None:
        """Return the change of the ISR that removes replicas which lag for too long, None without
        such ones or while another change is not decided. To be called twice in ``lag_s``.
        """
        state = self.state
        for one in self.followers.values():
            one.heard_of(self.end_offset)
        if isinstance(state, Proposal):
            return None
        lag_s = self._settings.lag_s
        lagging = {
            broker_id
            for broker_id in state.isr
            if broker_id != self.broker_id
            and not (
                broker_id in self.followers
                and self.followers[broker_id].is_caught_up(self.end_offset, now, lag_s)
            )
        }
        return self._propose(state, state.isr - lagging) if lagging else None

    def _propose(self, state: CommittedIsr, isr: Iterable[int]) -> Proposal:
        proposal = self.state = Proposal(
            self.leader_epoch,
            self.partition_epoch,
            tuple(InSyncReplica(one, self._epoch_of(one)) for one in sorted(isr)),
            state,
        )
        return proposal

    def _epoch_of(self, broker_id: int) -> int:
        if broker_id == self.broker_id:
            return self._settings.broker_epoch()
        # One that has not fetched yet is in the ISR already: if it fails, the controller removes
        # it, which makes this request one with an old partition epoch.
        follower = self.followers.get(broker_id)
        if follower is None or follower.broker_epoch is None:
            return NO_EPOCH
        return follower.broker_epoch

    def _is_eligible(self, one: FollowerState) -> bool:
        """Whether a follower may join the ISR: its broker is neither fenced nor shutting down, and
        is the process that fetched.
        """
        registered = self._settings.broker(one.broker_id)
        return (
            registered is not None
            and not registered.fenced
            and not registered.in_controlled_shutdown
            and one.broker_epoch in (NO_EPOCH, registered.broker_epoch)
        )

    def _is_alive(self, broker_id: int) -> bool:
        registered = self._settings.broker(broker_id)
        return registered is not None and not registered.fenced

    # --- the controller
    # ---------------------------------------------------------------------------------------------

    def on_altered(self, proposal: Proposal, answer: Altered | ErrorCode, now: float) -> bool:
        """Take the controller's answer to ``proposal``; whether the same is to be sent again."""
        if self.state is not proposal:
            return False  # a record of the image came first
        if isinstance(answer, Altered):
            if answer.leader_epoch == self.leader_epoch:
                self._committed(answer, now)
            return False
        if answer in _NOT_APPLIED:
            self.state = proposal.committed
        # Elsewhere the request may have been applied. It stays pending, and the maximal ISR counts.
        return answer not in _NOT_APPLIED and answer not in _STATE_UNKNOWN

    def _committed(self, answer: Altered, now: float) -> None:
        # The same epoch: the controller had that ISR already.
        if answer.partition_epoch >= self.partition_epoch:
            self.state = CommittedIsr(answer.isr, answer.recovery_state)
            self.partition_epoch = answer.partition_epoch
            self._advance(now)
