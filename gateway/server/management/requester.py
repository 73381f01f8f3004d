"""Finds the client that asked for a change: in this node's audit log, or in its replica of the
audit topic, which has the entries of the other nodes, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.sizes import KIB
from gateway.ports.services import AUDIT_TOPIC, PARTITION, OffsetOutOfRange
from gateway.sources.log_reader import content
from kwire.errors import DecodeError
from kwire.protocol import ErrorCode
from kwire.records import decode_batches

if TYPE_CHECKING:
    from gateway.ports.replicas import Replicas
    from gateway.ports.services import Chunk, Partition
    from gateway.sources.audit_partition import AuditPartition
    from kwire.cluster import Image

#: Bytes of the audit log that are searched behind the time of the change.
_SEARCHED: Final = 64 * KIB
#: How long a response waits for entries that are written and not yet on disk, s. A sync is delayed
#: by a quarter of a second.
_SYNC_WAIT_S: Final = 1.0
_SHOWN: Final = ("principal", "host", "client_id", "api", "time")


async def requester_of(audit: AuditPartition, offset: int, timestamp: int) -> dict[str, Any] | None:
    """Return principal, host, client id, API and time of the request that made the record of the
    metadata log at ``offset``; None if this node did not carry it out. ``timestamp`` is the
    record's, ms. A thread reads the audit log. Entries become readable when they are on disk, so
    the search for a recent change waits for that once.
    """
    written = audit.end_offset
    found = await search(audit, offset, timestamp)
    if found is None and audit.high_watermark < written:
        await _until_readable(audit, written)
        found = await search(audit, offset, timestamp)
    return found


def replica_of_audit_topic(image: Image, replicas: Replicas | None) -> Partition | None:
    """Return this node's replica of the audit topic, if it has one."""
    topic_id = image.topic_ids.get(AUDIT_TOPIC)
    if topic_id is None or replicas is None:
        return None
    found = replicas.find(image.partitions[topic_id][PARTITION])
    return None if isinstance(found, ErrorCode) else found


async def _until_readable(audit: AuditPartition, end_offset: int) -> None:
    """Wait until the entries below ``end_offset`` can be read, for at most ``_SYNC_WAIT_S``."""
    advanced = trio.Event()

    def on_advance() -> None:
        if audit.high_watermark >= end_offset:
            advanced.set()

    unsubscribe = audit.on_advance(on_advance)
    try:
        with trio.move_on_after(_SYNC_WAIT_S):
            await advanced.wait()
    finally:
        unsubscribe()


async def search(audit: Partition, offset: int, timestamp: int) -> dict[str, Any] | None:
    """Return what :func:`requester_of` returns, if the entry for ``offset`` can be read now."""
    begin = audit.offset_for_timestamp(timestamp)  # an entry is written when its records are
    if begin is None:
        return None
    try:
        read = audit.read(begin.offset, _SEARCHED)
    except OffsetOutOfRange:
        return None
    try:
        return await trio.to_thread.run_sync(_entry_of, read.chunks, offset)
    finally:
        read.release()


def _entry_of(chunks: Sequence[Chunk], offset: int) -> dict[str, Any] | None:
    """Return what is shown of the entry whose records include ``offset``."""
    try:
        for batch in decode_batches(content(chunks)):
            for record in batch.records:
                entry = json.loads(record.value or b"{}")
                if entry.get("offset", -1) <= offset <= entry.get("last_offset", -1):
                    return {name: entry.get(name) for name in _SHOWN}
    except (DecodeError, ValueError, RecursionError):
        return None
    return None
