"""What becomes of a partition when its replicas, its ISR or the brokers under it change
(``PartitionChangeBuilder``).

One change in, one PartitionChangeRecord out, or none where nothing is different: reassignments that
are complete end (KIP-455), leaders are elected, eligible leader replicas are kept (KIP-966). It
knows neither the cluster nor a request.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kwire.cluster.fold import NO_LEADER_CHANGE, no_change
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol.metadata_version import (
    is_directory_assignment_supported,
    is_leader_epoch_bump_required_on_isr_shrink,
)
from kwire.uuid import Uuid

NO_LEADER: Final = -1
#: States of a leader (``LeaderRecoveryState``): one that was elected uncleanly recovers before
#: anybody else joins its ISR.
RECOVERED: Final = 0
RECOVERING: Final = 1

_T = TypeVar("_T")


class Election(enum.Enum):
    """How a leader is chosen: who is in sync and first in line; anybody in sync; or anybody at all
    rather than nobody.
    """

    PREFERRED = enum.auto()
    ONLINE = enum.auto()
    UNCLEAN = enum.auto()


class Rules(NamedTuple):
    """What holds for a partition besides its own record.

    ``accepts`` tells whether a node may lead it, ``min_isr`` is its effective
    ``min.insync.replicas``, ``elr`` whether the cluster keeps eligible leader replicas, ``level``
    the metadata.version, ``default_directory`` where a new replica is.
    """

    accepts: Callable[[int], bool]
    min_isr: int
    elr: bool
    level: int
    default_directory: Callable[[int], Uuid]


@dataclass(slots=True)
class Target:
    """What a partition is to be. None: what it is now.

    ``directories`` are of replicas that moved, ``unclean_shutdown`` nodes that may have lost what
    they had.
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
    """The record that makes ``partition`` what ``target`` says, as far as ``rules`` allow; None
    where it is that already.
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
    """What :func:`partition_change` makes of an ISR without ``node_id``, where that is simple:
    others are in it, and nothing else is under way. None where it is not. From level 3.6-IV0 on;
    the other arguments are as in :class:`Rules`.

    When a broker goes this is asked of all its partitions at once, thousands perhaps, which wait
    for their leaders.
    """
    before, replicas = partition.isr, partition.replicas
    isr = [other for other in before if other != node_id]
    simple = isr and len(isr) < len(before) and node_id in replicas
    if not simple or partition.last_known_elr or is_reassigning(partition):
        return None
    record = no_change(partition)
    record.isr = isr
    leader = partition.leader
    if leader not in isr or not accepts(partition, leader):
        leader = next(
            (other for other in replicas if other in isr and accepts(partition, other)), NO_LEADER
        )
        if leader == NO_LEADER:
            return None
        record.leader = leader
    known = partition.eligible_leader_replicas or []
    eligible = (
        sorted({*known, node_id}.intersection(replicas).difference(isr))
        if elr and len(isr) < min_isr
        else []
    )
    if eligible != known:
        record.eligible_leader_replicas = eligible
    return record


def changes_anything(record: PartitionChangeRecord) -> bool:
    """Does the record say anything but which partition it is about?"""
    return record.leader != NO_LEADER_CHANGE or record.leader_recovery_state != -1 or any(
        value is not None
        for value in (
            record.isr, record.replicas, record.removing_replicas, record.adding_replicas, record.eligible_leader_replicas,
            record.last_known_elr, record.directories,
        )
    )  # fmt: skip


def is_reassigning(partition: PartitionRecord) -> bool:
    """Is a reassignment of the partition under way?"""
    return bool(partition.adding_replicas or partition.removing_replicas)


class _Elected(NamedTuple):
    node_id: int
    is_unclean: bool = False


class _Change:
    """One change while it is worked out: what the partition is to be, and the record as far as it
    is known.
    """

    def __init__(self, partition: PartitionRecord, target: Target, rules: Rules) -> None:
        self._before, self._target, self._rules = partition, target, rules
        self._isr = _chosen(target.isr, partition.isr)
        self._replicas = _chosen(target.replicas, partition.replicas)
        self._removing = _chosen(target.removing, partition.removing_replicas)
        self._adding = _chosen(target.adding, partition.adding_replicas)
        self._elr = list(partition.eligible_leader_replicas or ())
        self._record = no_change(partition)

    def record(self) -> PartitionChangeRecord | None:
        self._complete_reassignment()
        self._count_eligible()
        self._elect()
        self._write_isr()
        self._force_new_epoch()
        self._write_last_known_leader()
        self._write_assignment()
        state = self._target.recovery_state
        if state is not None and state != self._before.leader_recovery_state:
            self._record.leader_recovery_state = state
        return self._record if changes_anything(self._record) else None

    # --- reassignment and eligibility
    # ---------------------------------------------------------------------------------

    def _complete_reassignment(self) -> None:
        """Replicas that are removed go once all that are added are in sync.

        Where the partition becomes smaller, all that stay must be: else its ISR would shrink for
        nothing.
        """
        if not self._adding and not self._removing:
            return
        isr = [node_id for node_id in self._isr if node_id not in self._removing]
        replicas = [node_id for node_id in self._replicas if node_id not in self._removing]
        needed = replicas if len(self._adding) < len(self._removing) else self._adding
        if isr and replicas and set(needed) <= set(isr):
            self._isr, self._replicas, self._removing, self._adding = isr, replicas, [], []

    def _count_eligible(self) -> None:
        """Who leaves an ISR that is too small to acknowledge anything without it has everything,
        and may lead later.
        """
        if not self._rules.elr or len(self._isr) >= self._rules.min_isr:
            self._elr = []
            return
        candidates = {*self._elr, *self._before.isr}
        # A replica that was removed has not kept its log, so it must not be eligible when it is
        # added again.
        gone = {*self._isr, *self._target.unclean_shutdown}
        self._elr = sorted(candidates & set(self._replicas) - gone)

    # --- election
    # -----------------------------------------------------------------------------------------------------

    def _elect(self) -> None:
        elected = self._elected()
        if elected.node_id != self._before.leader:
            if elected.node_id in self._elr:
                self._isr = [elected.node_id]
                self._elr.remove(elected.node_id)
            self._record.leader = elected.node_id
            if elected.is_unclean:  # others may have records that this one lacks
                self._isr, self._elr = [elected.node_id], []
                self._record.leader_recovery_state = RECOVERING
                if self._before.leader_recovery_state == RECOVERING:
                    self._record.leader_recovery_state = -1
        if self._elr != (self._before.eligible_leader_replicas or []):
            self._record.eligible_leader_replicas = self._elr

    def _elected(self) -> _Elected:
        # Who leads stays, unless somebody is preferred.
        first = [self._before.leader]
        if self._target.election is Election.PREFERRED:
            first.insert(0, self._replicas[0])
        for node_id in (*first, *self._replicas):
            if self._may_lead(node_id):
                return _Elected(node_id)
        last = self._last_known_leader()
        if last is not None:
            return _Elected(last, is_unclean=True)
        if self._target.election is Election.UNCLEAN:
            anybody = next(filter(self._rules.accepts, self._replicas), None)
            if anybody is not None:
                return _Elected(anybody, is_unclean=True)
        return _Elected(NO_LEADER)

    def _may_lead(self, node_id: int) -> bool:
        has_everything = node_id in (self._isr or self._elr)
        return has_everything and self._rules.accepts(node_id)

    def _last_known_leader(self) -> int | None:
        """Who led last, when nobody is left who surely has everything: it has the most of all
        (KIP-966).
        """
        known = self._before.last_known_elr or []
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
    # ---------------------------------------------------------------------------------------------------

    def _write_isr(self) -> None:
        """Without ELR somebody has to stay in the ISR, to say who may lead when it comes back."""
        if (self._isr or self._rules.elr) and self._isr != self._before.isr:
            self._record.isr = self._isr

    def _force_new_epoch(self) -> None:
        """Naming the leader, even the same one, begins an epoch: who was removed must be fenced
        off.
        """
        isr = self._record.isr
        shrinks = isr is not None and not set(self._before.isr) <= set(isr)
        if self._record.leader == NO_LEADER_CHANGE and (
            not set(self._before.replicas) <= set(self._replicas)
            or (shrinks and is_leader_epoch_bump_required_on_isr_shrink(self._rules.level))
        ):
            self._record.leader = self._before.leader

    def _write_last_known_leader(self) -> None:
        if not self._rules.elr:
            return
        known = self._before.last_known_elr
        if self._record.leader == NO_LEADER and not known and self._before.leader != NO_LEADER:
            self._record.last_known_elr = [self._before.leader]
        elif self._record.leader >= 0 and known:
            self._record.last_known_elr = []

    def _write_assignment(self) -> None:
        before = self._before
        if is_directory_assignment_supported(self._rules.level):
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
