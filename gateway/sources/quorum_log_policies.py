"""Decides what a quorum's log owes to others: two policies of ``gateway.sources.quorum_log``.

Other nodes rely on a voter's log: all of it must stay readable, and damage stops the node. No node
relies on an observer's copy: it goes on with the records that it served before, and clients learn
nothing from it that a crash could take back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.log.files.errors import LogError
from gateway.log.metadata.observer_store import ObserverStore
from gateway.ports.services import State

if TYPE_CHECKING:
    from gateway.log.files.problem import Problem
    from gateway.log.metadata.raft_store import RaftStore


class LogUnreadable(LogError):
    """Committed records cannot be read back from the files."""


class BatchesRefused(LogError):
    """The leader's bytes are no batches that the log can hold. The log is unchanged."""


class LogPolicy(Protocol):
    """The answers in which the log of a voter and that of an observer differ."""

    @property
    def advice(self) -> str:
        """For the operator of a log that cannot be opened for readers."""

    def needed_end(self, committed: int) -> int:
        """One past the last offset that has to be in the files."""

    def damage_of(self, unreachable: Problem) -> Problem | None:
        """The damage that files mean which cannot be read now."""

    def check_damage(self, damage: Problem | None) -> None:
        """Raises LogUnreadable for damage with which the node must not go on."""

    def check_cut(self, offset: int) -> None:
        """The log was cut at ``offset``. Raises BatchesRefused if it ends elsewhere and the core
        has to start again.
        """

    def committed_by_snapshot(self, end_offset: int) -> int:
        """The high watermark that the installation of a snapshot with that end proves; 0: none."""

    def learn_cluster_id(self, cluster_id: str) -> None:
        """Store the id of the cluster. Raises LogError."""

    def is_led_by(self, leader_id: int) -> bool | None:
        """Whether a leader is alive, as far as its id tells; None if only time does."""

    def knows_end(self, *, was_reached: bool, committed: int) -> bool:
        """Whether clients may take the high watermark for the end of the log. ``was_reached``: it
        was stored before this start, or reached at the leader once.
        """

    def state_of_damage(self, *, was_reached: bool) -> State:
        """The state of a log with damage."""

    def persisted(self, epoch: int) -> None:
        """``quorum-state`` has ``epoch``, durably."""

    def show_epoch(self) -> bool:
        """Show clients the newest epoch that they may see; whether it is another one."""

    def shown_epoch(self, epoch: int) -> int:
        """The epoch for clients while the quorum's is ``epoch``."""


class VoterLogPolicy:
    """The policy of a log that other nodes rely on."""

    def __init__(self, store: RaftStore) -> None:
        self._store = store

    @property
    def advice(self) -> str:
        return f"restore {self._store.directory} from a copy of this node"

    def needed_end(self, committed: int) -> int:
        """The whole log: peers fetch also what is not committed."""
        return self._store.end_offset

    def damage_of(self, unreachable: Problem) -> Problem | None:
        return unreachable

    def check_damage(self, damage: Problem | None) -> None:
        if damage is not None:
            raise LogUnreadable(str(damage))

    def check_cut(self, offset: int) -> None:
        """The store takes no batch for another offset than its end."""

    def committed_by_snapshot(self, end_offset: int) -> int:
        """None: a voter learns its high watermark from the quorum."""
        return 0

    def learn_cluster_id(self, cluster_id: str) -> None:
        raise AssertionError("a voter's directory is formatted for a cluster")

    def is_led_by(self, leader_id: int) -> bool | None:
        return leader_id >= 0

    def knows_end(self, *, was_reached: bool, committed: int) -> bool:
        return committed > 0

    def state_of_damage(self, *, was_reached: bool) -> State:
        return State.BROKEN

    def persisted(self, epoch: int) -> None:
        """Clients see the epoch that the core knows."""

    def show_epoch(self) -> bool:
        return False

    def shown_epoch(self, epoch: int) -> int:
        return epoch


class ObserverLogPolicy:
    """The policy of a copy that no node relies on."""

    def __init__(self, store: ObserverStore) -> None:
        self._store = store
        #: The newest epoch on disk: clients see it only then, so that the epoch that they see does
        #: not decrease after a crash.
        self._durable_epoch = self._visible_epoch = store.election.epoch

    @property
    def advice(self) -> str:
        return (
            "restore it from a copy, or remove the whole data directory: "
            "it is fetched anew from the quorum"
        )

    def needed_end(self, committed: int) -> int:
        """The committed records: an observer promises no others to any node."""
        return committed

    def damage_of(self, unreachable: Problem) -> Problem | None:
        """None: readers keep an older view."""
        return None

    def check_damage(self, damage: Problem | None) -> None:
        """The log reports it, and serves what it served before."""

    def check_cut(self, offset: int) -> None:
        if self._store.end_offset != offset:
            # In a correct quorum no epoch of the leader ends inside a batch of the same epoch on a
            # follower. The core must start again from the disk.
            raise BatchesRefused(f"offset {offset} lies inside a batch of {self._store.directory}")

    def committed_by_snapshot(self, end_offset: int) -> int:
        return end_offset

    def learn_cluster_id(self, cluster_id: str) -> None:
        self._store.learn_cluster_id(cluster_id)

    def is_led_by(self, leader_id: int) -> bool | None:
        return None

    def knows_end(self, *, was_reached: bool, committed: int) -> bool:
        return was_reached

    def state_of_damage(self, *, was_reached: bool) -> State:
        return State.BROKEN if was_reached else State.LOADING

    def persisted(self, epoch: int) -> None:
        self._durable_epoch = epoch

    def show_epoch(self) -> bool:
        moved = self._visible_epoch != self._durable_epoch
        self._visible_epoch = self._durable_epoch
        return moved

    def shown_epoch(self, epoch: int) -> int:
        return self._visible_epoch


def policy_of(store: RaftStore | ObserverStore) -> LogPolicy:
    """Return the policy of a store's log."""
    if isinstance(store, ObserverStore):
        return ObserverLogPolicy(store)
    return VoterLogPolicy(store)
