"""The image of a voter that writes the log: its own batches are applied from memory, and the files
are read where memory has none after a restart or a failed write.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.files.errors import LogError
from gateway.log.partition.log_settings import LogSettings
from gateway.quorum.effects import Append, ElectionState, Persist, Truncate
from gateway.sources.metadata_loader import MetadataLoader
from gateway.sources.quorum_log import QuorumLog
from kwire.metadata_log.open_file import OpenFile
from tests.gateway.log.voting import NODE_ID, control_batch, new_store, open_store
from tests.gateway.sources.loading import follow, topics
from tests.gateway.sources.metadata_files import batch, topic

_TOKEN = 1  # the log does not look at tokens
_UNSYNCED = LogSettings(fsync=False)


class Node:
    """A voter's log with its loader, both as the process has them."""

    def __init__(self, data_dir: Path) -> None:
        fresh = not data_dir.exists()
        store = (new_store if fresh else open_store)(data_dir, _UNSYNCED)
        self.log = QuorumLog(store, snapshot_prefix=False)
        self.loader = MetadataLoader(store.directory, self.log.recent)
        if fresh:
            end = self.log.store.end_offset
            self.log.perform(
                [
                    Persist(_TOKEN, ElectionState(1, NODE_ID), 1),
                    Append(_TOKEN, end, control_batch(end, 1)),
                ]
            )

    def append(self, *numbers: int, epoch: int = 1) -> None:
        """Append a batch for each topic, in one group commit."""
        end = self.log.store.end_offset
        self.log.perform(
            [
                Append(_TOKEN, end + n, batch(end + n, topic(number), epoch=epoch))
                for n, number in enumerate(numbers)
            ]
        )

    def commit(self, below: int | None = None) -> None:
        """Everything, or what is below an offset, is committed and applied to the image."""
        self.log.commit(self.log.store.end_offset if below is None else below)
        follow(self.loader, self.log.committed)
        assert self.loader.problem is None
        assert self.loader.next_offset == self.log.committed


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path / "data")
    made.commit()
    yield made
    made.log.close()


@pytest.fixture
def disk(node: Node, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Reads and look-ups of files, by function, since the image was first loaded."""
    counted: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def counting(*given: object, **named: object) -> object:
            counted[name] += 1
            return original(*given, **named)

        monkeypatch.setattr(owner, name, counting)

    for owner, name in ((OpenFile, "read"), (os, "pread"), (os, "stat"), (os, "scandir")):
        count(owner, name)
    return counted


def test_steady_leader_applies_its_records_without_the_disk(node: Node, disk: Counter[str]) -> None:
    for number in range(0, 40, 2):
        node.append(number, number + 1)
        disk.clear()
        node.commit()
        assert disk.total() == 0
    assert len(topics(node.loader)) == 40


def test_records_of_a_restart_are_read_from_the_files(node: Node, disk: Counter[str]) -> None:
    node.append(1, 2)
    node.commit()
    node.log.close()
    again = Node(Path(node.log.log_dir))
    again.commit()
    disk.clear()
    again.append(3)
    again.commit()
    assert topics(again.loader) == ["t1", "t2", "t3"]
    again.log.close()


def test_truncated_records_do_not_reach_the_image(node: Node, disk: Counter[str]) -> None:
    node.append(1)
    node.append(2, 3)
    node.commit(node.log.store.end_offset - 2)
    assert topics(node.loader) == ["t1"]
    end = node.log.store.end_offset - 1
    node.log.perform([Truncate(_TOKEN, end), Append(_TOKEN, end, batch(end, topic(4), epoch=2))])
    disk.clear()
    node.commit()
    assert topics(node.loader) == ["t1", "t2", "t4"]
    assert disk.total() == 0, "what is left of the appends has no gap"


def test_nothing_stays_in_memory_after_a_failed_write(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise LogError("no space left")

    monkeypatch.setattr(node.log.store, "flush", fails)
    with pytest.raises(LogError):
        node.append(1)
    assert node.log.recent.at(node.log.committed) is None
