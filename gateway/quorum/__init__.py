"""Following a KRaft quorum as an observer, as a pure machine: answers in, ordered effects out. No clock, dice, files, sockets.

:class:`Observer` says whom to ask what, and what an answer means for the local log; ``tests/gateway/quorum`` runs it against
a model quorum with every fault there is. Rules are those of ``KafkaRaftClient`` (KIP-595, 630, 853, 1166).
"""

from gateway.address import Address
from gateway.quorum.divergence import ReplicatedLog
from gateway.quorum.effects import (
    AbandonSnapshot,
    Advance,
    Append,
    Ask,
    BeginSnapshot,
    Effect,
    Failure,
    FailureKind,
    InstallSnapshot,
    LearnClusterId,
    Pause,
    Remember,
    SnapshotChunk,
    Stop,
    Tell,
    Truncate,
)
from gateway.quorum.facts import Facts
from gateway.quorum.observer import Observer
from gateway.quorum.settings import ObserverSettings
from gateway.snapshot_id import SnapshotId

__all__ = [
    "AbandonSnapshot", "Address", "Advance", "Append", "Ask", "BeginSnapshot", "Effect", "Facts", "Failure", "FailureKind",
    "InstallSnapshot", "LearnClusterId", "Observer", "ObserverSettings", "Pause", "Remember", "ReplicatedLog", "SnapshotChunk",
    "SnapshotId", "Stop", "Tell", "Truncate",
]  # fmt: skip
