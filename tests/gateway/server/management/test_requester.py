"""Which client asked for a change, where its audit entry can be read, is not yet on disk, or does
not exist.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from gateway.log.audit.audit_log import AUDIT_SETTINGS, AuditRecord
from gateway.server.management import requester
from gateway.server.management.requester import requester_of
from gateway.sources.audit_partition import AuditPartition
from tests.waiting import PATIENCE_S

_TIME = 1000


def entry(first: int, last: int, principal: str) -> AuditRecord:
    """An entry for the records from ``first`` to ``last`` of the metadata log."""
    value = {"offset": first, "last_offset": last, "principal": principal, "api": "CreateTopics"}
    return AuditRecord(_TIME, json.dumps(value).encode())


def publish(partition: AuditPartition) -> None:
    pending_flush = partition.pending_flush()
    assert pending_flush is not None
    partition.publish(pending_flush.flush())


def principals(
    directory: Path, *offsets: int, publishes: bool, wait: float = math.inf
) -> list[str | None]:
    """The principals that asked for the records at ``offsets``. One entry is readable, one is
    written and becomes readable a moment later if ``publishes``. A search waits for ``wait`` s.
    """

    async def main() -> list[str | None]:
        partition = AuditPartition(directory, replace(AUDIT_SETTINGS, fsync=False), cluster_id="c")
        partition.append([entry(5, 6, "User:a")])
        publish(partition)
        partition.append([entry(7, 9, "User:b")])

        async def publish_later() -> None:
            if publishes:
                await trio.sleep(0.05)
                publish(partition)

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish_later)
                found = [await requester_of(partition, offset, _TIME) for offset in offsets]
        partition.close()
        return [None if one is None else one["principal"] for one in found]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requester, "_SYNC_WAIT_S", wait)
        return trio.run(main)


def test_readable_entry_is_found_at_once(tmp_path: Path) -> None:
    assert principals(tmp_path, 5, 6, publishes=False) == ["User:a", "User:a"]


def test_search_waits_for_an_entry_that_is_not_on_disk(tmp_path: Path) -> None:
    assert principals(tmp_path, 9, publishes=True) == ["User:b"]


def test_search_for_a_change_without_an_entry_ends(tmp_path: Path) -> None:
    assert principals(tmp_path / "a", 4, 10, publishes=True) == [None, None]
    assert principals(tmp_path / "b", 9, publishes=False, wait=0.01) == [None]
