"""Computes the PartitionChangeRecord of one change to a partition (``PartitionChangeBuilder``).

A change ends a reassignment that is complete (KIP-455), elects a leader, and updates the eligible
leader replicas (KIP-966). There is no record if nothing differs. This module knows neither the
cluster nor a request.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kwire.cluster.entities.partitions import NO_LEADER_CHANGE, no_change
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import LeaderRecoveryState
from kwire.protocol.metadata_version import (
    is_directory_assignment_supported,
    is_leader_epoch_bump_required_on_isr_shrink,
)
from kwire.uuid import Uuid

NO_LEADER: Final = -1
#: A leader from an unclean election is RECOVERING until it reports that it
#: has recovered; until then no follower joins its ISR (KIP-704).
RECOVERED: Final = LeaderRecoveryState.RECOVERED
RECOVERING: Final = LeaderRecoveryState.RECOVERING

_T = TypeVar("_T")


class Election(enum.Enum):
    """How a leader is chosen (``PartitionChangeBuilder.Election``)."""

    PREFERRED = enum.auto()  #: the first replica if it may lead, else as ONLINE
    ONLINE = enum.auto()  #: the current leader if it may lead, else a replica in the ISR
    UNCLEAN = enum.auto()  #: as ONLINE, but any live replica rather than none


class Rules(NamedTuple):
    """The facts of the cluster that a change depends on.

    ``accepts(node_id)`` tells whether a node may lead the partition. ``min_isr`` is the effective
    ``min.insync.replicas`` of the topic, ``elr`` whether the cluster keeps eligible leader
    replicas, ``level`` the metadata.version. ``default_directory(node_id)`` is the log directory of
    a new replica.
    """

    accepts: Callable[[int], bool]
    min_isr: int
    elr: bool
    level: int
    default_directory: Callable[[int], Uuid]


@dataclass(slots=True)
class Target:
    """The wanted state of a partition; None keeps the value that it has. Every node of the ISR must
    be among the replicas.

    ``directories`` are the new log directories of replicas that moved. ``unclean_shutdown`` are
    nodes that may have lost records they acknowledged.
    """

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    recovery_state: int | None = None
    election: Election = Election.ONLINE
    directories: Mapping[int, Uuid] = field(default_factory=dict)
    unclean_shutdown: Collection[int] = ()


def partition_change(
    partition: PartitionRecord, target: Target, rules: Rules
) -> PartitionChangeRecord | None:
    """Return the record that brings ``partition`` to ``target`` as far as ``rules`` allow; None if
    it changes nothing.
    """
    return _Change(partition, target, rules).record()


def leave_isr(
    partition: PartitionRecord,
    node_id: int,
    accepts: Callable[[PartitionRecord, int], bool],
    min_isr: int,
    *,
    elr: bool,
) -> PartitionChangeRecord | None:
    """Return the record of :func:`partition_change` for an ISR without ``node_id`` in the simple
    case; None in any other.

    In the simple case other nodes are in the ISR, and no reassignment is in progress. The level
    must be 3.6-IV0 or later; the other arguments are as in :class:`Rules`. A shortcut: when a
    broker is fenced, thousands of its partitions change at once, and wait for their new leaders.
    """
    before, replicas = partition.isr, partition.replicas
    isr = [other for other in before if other != node_id]
    # An empty ISR has rules of its own: it stays without ELR, and may elect an eligible replica
    # with it.
    simple = isr and len(isr) < len(before) and node_id in replicas
    # Last known leaders are cleared by the long way (maybeUpdateLastKnownLeader).
    if not simple or partition.last_known_elr or is_reassigning(partition):
        return None
    # Both epochs are counted up by the readers of the record and are not in it
    # (``PartitionRegistration.merge``).
    record = no_change(partition)
    record.isr = isr
    leader = partition.leader
    # The leader stays if it can: writing the same one would begin a new leader epoch.
    if leader not in isr or not accepts(partition, leader):
        leader = next(
            (other for other in replicas if other in isr and accepts(partition, other)), NO_LEADER
        )
        if leader == NO_LEADER:
            # No replica in sync is live: the long way decides about ELR and unclean elections.
            return None
        record.leader = leader
    known = partition.eligible_leader_replicas or []
    # The node that leaves has every committed record if the ISR falls below min.insync.replicas:
    # nothing is acknowledged without it (KIP-966).
    eligible = (
        sorted({*known, node_id}.intersection(replicas).difference(isr))
        if elr and len(isr) < min_isr
        else []
    )
    if eligible != known:
        record.eligible_leader_replicas = eligible
    return record


def changes_anything(record: PartitionChangeRecord) -> bool:
    """Whether the record has more than the key of its partition
    (``PartitionChangeBuilder.changeRecordIsNoOp``).
    """
    return record.leader != NO_LEADER_CHANGE or record.leader_recovery_state != -1 or any(
        value is not None
        for value in (
            record.isr, record.replicas, record.removing_replicas, record.adding_replicas,
            record.eligible_leader_replicas, record.last_known_elr, record.directories,
        )
    )  # fmt: skip


def is_reassigning(partition: PartitionRecord) -> bool:
    """Whether a reassignment of the partition is in progress."""
    return bool(partition.adding_replicas or partition.removing_replicas)


class _Elected(NamedTuple):
    node_id: int
    is_unclean: bool = False


class _Change:
    """Computes one change: holds the target state, and the record as far as it is filled."""

    def __init__(self, partition: PartitionRecord, target: Target, rules: Rules) -> None:
        self._before, self._target, self._rules = partition, target, rules
        self._isr = _chosen(target.isr, partition.isr)
        self._replicas = _chosen(target.replicas, partition.replicas)
        self._removing = _chosen(target.removing, partition.removing_replicas)
        self._adding = _chosen(target.adding, partition.adding_replicas)
        self._elr = list(partition.eligible_leader_replicas or ())
        self._record = no_change(partition)

    def record(self) -> PartitionChangeRecord | None:
        # The order is that of PartitionChangeBuilder.build: the election sees the ISR after the
        # reassignment, and the epoch depends on both.
        self._complete_reassignment()
        self._count_eligible()
        self._elect()
        assert self._replicas, "a partition has a replica"
        assert set(self._isr) <= set(self._replicas), "every node in the ISR is a replica"
        self._write_isr()
        self._force_new_epoch()
        self._write_last_known_leader()
        self._write_assignment()
        # At last, as in ``PartitionChangeBuilder.build``: the state that the leader reports
        # replaces the one that an election has written.
        state = self._target.recovery_state
        if state is not None and state != self._before.leader_recovery_state:
            self._record.leader_recovery_state = state
        return self._record if changes_anything(self._record) else None

    # --- reassignment and eligibility

    def _complete_reassignment(self) -> None:
        """Drop the removed replicas once all added ones are in the ISR
        (``PartitionReassignmentReplicas.maybeCompleteReassignment``).

        If the reassignment lowers the replication factor, all replicas that stay must be in the
        ISR: else the partition could fall below ``min.insync.replicas`` when the others leave.
        """
        if not self._adding and not self._removing:
            return
        # A replica that goes may be the leader: the election that follows chooses another one.
        isr = [node_id for node_id in self._isr if node_id not in self._removing]
        replicas = [node_id for node_id in self._replicas if node_id not in self._removing]
        needed = replicas if len(self._adding) < len(self._removing) else self._adding
        # ``isr``: a partition must not be left to replicas of which none is in sync.
        if isr and replicas and set(needed) <= set(isr):
            self._isr, self._replicas, self._removing, self._adding = isr, replicas, [], []

    def _count_eligible(self) -> None:
        """Compute the eligible leader replicas (KIP-966, ``maybePopulateTargetElr``).

        While the ISR is smaller than ``min.insync.replicas`` the high watermark does not advance.
        A node that leaves such an ISR therefore has every committed record, and may lead again.
        """
        if not self._rules.elr or len(self._isr) >= self._rules.min_isr:
            # The high watermark may advance without the nodes outside the ISR.
            self._elr = []
            return
        # The ISR before the change: a node that leaves it now has acknowledged every record so far.
        candidates = {*self._elr, *self._before.isr}
        # A removed replica deletes its log, so it must not be eligible if it is added again.
        gone = {*self._isr, *self._target.unclean_shutdown}
        self._elr = sorted(candidates & set(self._replicas) - gone)

    # --- election

    def _elect(self) -> None:
        """Write the new leader, if there is one, and the ISR and ELR that it begins with
        (``tryElection``).
        """
        elected = self._elected()
        # A leader that stays is not written: the record's field raises the leader epoch, also if
        # the id is the same.
        if elected.node_id != self._before.leader:
            if elected.node_id in self._elr:
                # An eligible replica leads only if the ISR is empty: it is the first one in sync.
                self._isr = [elected.node_id]
                self._elr.remove(elected.node_id)
            self._record.leader = elected.node_id
            if elected.is_unclean:
                # Other replicas may have records that the new leader lacks, so none is in sync.
                self._isr, self._elr = [elected.node_id], []
                self._record.leader_recovery_state = RECOVERING
                if self._before.leader_recovery_state == RECOVERING:
                    self._record.leader_recovery_state = -1  # no change
            assert elected.node_id in (NO_LEADER, *self._isr), "a leader is in its own ISR"
        # Null and empty are the same list: records written before KIP-966 have null.
        if self._elr != (self._before.eligible_leader_replicas or []):
            self._record.eligible_leader_replicas = self._elr

    def _elected(self) -> _Elected:
        # The current leader stays if it may lead: every client and follower would have to find a
        # new one. Only a preferred election moves it.
        first = [self._before.leader]
        if self._target.election is Election.PREFERRED:
            # The first of the new assignment: a reassignment that ends here prefers its own first
            # replica.
            first.insert(0, self._replicas[0])
        # In the order of the assignment, so that leaders spread as the replicas were placed.
        for node_id in (*first, *self._replicas):
            if self._may_lead(node_id):
                return _Elected(node_id)
        last = self._last_known_leader()
        if last is not None:
            return _Elected(last, is_unclean=True)
        # At last, and only where the topic allows it: the elected node may lack committed records.
        if self._target.election is Election.UNCLEAN:
            live = next(filter(self._rules.accepts, self._replicas), None)
            if live is not None:
                return _Elected(live, is_unclean=True)
        return _Elected(NO_LEADER)

    def _may_lead(self, node_id: int) -> bool:
        """Whether the node is live and in the ISR, or in the ELR while the ISR is empty
        (``isValidNewLeader``): it has every committed record then.
        """
        has_committed = node_id in (self._isr or self._elr)
        return has_committed and self._rules.accepts(node_id)

    def _last_known_leader(self) -> int | None:
        """Return the last leader if it is live, and neither ISR nor ELR has a member
        (``canElectLastKnownLeader``): KIP-966 expects that this replica has lost the fewest
        records.
        """
        known = self._before.last_known_elr or []
        # Several nodes are the last ELR of another kind of recovery, which names no last leader.
        if (
            not self._rules.elr
            or self._isr
            or self._elr
            or len(known) != 1
            or not self._rules.accepts(known[0])
        ):
            return None
        return known[0]

    # --- the record

    def _write_isr(self) -> None:
        # Without ELR the last ISR stays as it is when its members are gone: it alone tells which
        # nodes may lead when they return.
        if (self._isr or self._rules.elr) and self._isr != self._before.isr:
            self._record.isr = self._isr

    def _force_new_epoch(self) -> None:
        """Begin a new leader epoch, by writing the leader even if it stays, where one is needed.

        The epoch fences replicas that a reassignment removes
        (``triggerLeaderEpochBumpForReplicaReassignmentIfNeeded``).
        """
        isr = self._record.isr
        # Brokers of releases before 3.6 need a new epoch if the ISR shrinks (KAFKA-15021).
        shrinks = isr is not None and not set(self._before.isr) <= set(isr)
        if self._record.leader == NO_LEADER_CHANGE and (
            not set(self._before.replicas) <= set(self._replicas)
            or (shrinks and is_leader_epoch_bump_required_on_isr_shrink(self._rules.level))
        ):
            self._record.leader = self._before.leader

    def _write_last_known_leader(self) -> None:
        """Keep the last leader while there is none, and clear it when there is one again
        (``maybeUpdateLastKnownLeader``).
        """
        if not self._rules.elr:
            return
        known = self._before.last_known_elr
        # Only when the leader is lost: later changes of a partition without one know no leader. One
        # node: ``last_known_elr`` holds the last leader alone (``maybeUpdateLastKnownLeader``).
        if self._record.leader == NO_LEADER and not known and self._before.leader != NO_LEADER:
            self._record.last_known_elr = [self._before.leader]
        # -2, no change, keeps it: the partition still has no leader.
        elif self._record.leader >= 0 and known:
            self._record.last_known_elr = []

    def _write_assignment(self) -> None:
        before = self._before
        # At a lower level the record's version has no field for them.
        if is_directory_assignment_supported(self._rules.level):
            # The lists of replicas and directories correspond by position (KIP-858), so directories
            # change if replicas are only reordered.
            known = {
                **dict(zip(before.replicas, before.directories, strict=True)),
                **self._target.directories,
            }
            directories = [
                known[node_id] if node_id in known else self._rules.default_directory(node_id)
                for node_id in self._replicas
            ]
            self._record.directories = _if_other(directories, before.directories)
        self._record.replicas = _if_other(self._replicas, before.replicas)
        self._record.removing_replicas = _if_other(self._removing, before.removing_replicas)
        self._record.adding_replicas = _if_other(self._adding, before.adding_replicas)


def _chosen(target: Iterable[int] | None, before: Iterable[int]) -> list[int]:
    return list(before if target is None else target)


def _if_other(after: list[_T], before: list[_T]) -> list[_T] | None:
    return None if after == before else after
