"""A voter's directory after a crash behind any file operation: what was promised is there, and
nothing else.

A small part of what ``python -m tests.gateway.log.voter_crashes`` goes through.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.log.files.quorum_state import format_quorum_state
from gateway.log.files.recovery_point import RecoveryPoint, RecoveryPointFile
from gateway.log.metadata.local_log import LocalLog
from gateway.log.metadata.raft_store import RaftStore
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.crash_disk import Op
from tests.gateway.log.voter_crashes import crash_life, summary
from tests.gateway.log.voter_outcomes import Counts, Crashed

#: (seed, states drawn behind one operation): every operation is crashed, in some of the ways.
_LIVES = ((0, 2), (1, 2))
#: For what must be found out.
_STEPS, _MOST = 40, 12


def test_crashes_behind_every_operation(record_property: Callable[[str, object], None]) -> None:
    total = Counts()
    for seed, most in _LIVES:
        total.add(crash_life(seed, most=most))
    record_property("crash states", summary(total, 0))
    print(summary(total, 0))
    assert total.operations > 1000
    assert total.states > 2500
    assert total.nested > 30


def _is_sync_of(*names: str) -> Callable[[Op], bool]:
    return lambda op: op.kind == "sync" and op.path.name.endswith(names)


@pytest.mark.parametrize(
    "forgotten",
    [
        _is_sync_of(".log"),
        _is_sync_of("quorum-state.tmp"),
        _is_sync_of(".part"),
        _is_sync_of("recovery-point"),
        _is_sync_of("meta.properties.tmp"),
        lambda op: op.kind == "sync directory" and op.path.name == "__cluster_metadata-0",
    ],
    ids=["log", "quorum-state", "snapshot", "recovery-point", "meta.properties", "directory"],
)
def test_a_forgotten_sync_would_be_found_out(forgotten: Callable[[Op], bool]) -> None:
    with pytest.raises(Crashed):
        for seed in range(6):
            crash_life(seed, steps=_STEPS, most=_MOST, share=0.5, forgotten=forgotten)


def _note_without_waiting(self: RecoveryPointFile, point: RecoveryPoint) -> None:
    self.note(point)


def _vote_in_place(
    self: RaftStore,
    epoch: int,
    leader_id: int = -1,
    voted_id: int = -1,
    *_: object,
    kraft_version: int,
) -> None:
    known = QuorumStateData(leader_epoch=epoch, leader_id=leader_id, voted_id=voted_id)
    file = self._log._log.disk.open(self.directory / "quorum-state")
    self._log._log.disk.truncate(file, 0)
    self._log._log.disk.write(file, 0, format_quorum_state(known, 1))
    self._log._log.disk.sync(file)
    file.close()
    self._log._files.quorum_state = 1, known


def _install_at_once(self: RaftStore, snapshot_id: SnapshotId) -> None:
    """As if nothing of the log that a snapshot supersedes had ever counted."""


def _append_without_order(self: RaftStore) -> int:
    self._point.note(RecoveryPoint(self._log.end_offset, self._high_watermark))
    self._log.flush()
    return self._log.end_offset


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (RecoveryPointFile, "settle", _note_without_waiting),
        (RaftStore, "persist", _vote_in_place),
        (RaftStore, "_make_way", _install_at_once),
        (RaftStore, "flush", _append_without_order),
        (RaftStore, "flush", lambda self: self._log.end_offset),
        (LocalLog, "flush", lambda self: None),
    ],
    ids=[
        "point not lowered",
        "vote in place",
        "log superseded",
        "noted before synced",
        "no sync",
        "flush of nothing",
    ],
)
def test_a_store_that_does_it_wrong_would_be_found_out(
    owner: type, name: str, mutant: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, mutant)
    with pytest.raises((Crashed, AssertionError, ValueError)):
        for seed in range(6):
            crash_life(seed, steps=_STEPS, most=_MOST, share=0.5)
