"""Writes changes as the records of a view: JSON keys and values, in record batches.

The value of an entity that is gone is null, a tombstone. With ``schemas`` keys and values are
Connect's JSON with schema (``JsonConverter`` with ``schemas.enable``). Headers name the cluster,
and the snapshot that a record is of. The same changes give the same records at every server. It
knows neither the log nor its readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from gateway.base.sizes import KIB
from gateway.ports.view_topics import CHANGES, VIEWS
from gateway.views.fold import READ, Change, Snapshot, Source
from gateway.views.schemas import absent_key, connect_schema
from kwire.cluster import view_offsets as offsets
from kwire.cluster.kind import Kind, State
from kwire.cluster.view_records import (
    CLUSTER_ID_HEADER,
    COMPLETE_HEADER,
    SNAPSHOT_HEADER,
    SNAPSHOT_KIND,
)
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.records import Compression, Record, encode_batch, encode_control_record

#: Size at which a batch ends, before compression.
BATCH_BYTES: Final = 128 * KIB
#: Smaller batches are not compressed: most of a live view's have one record.
_COMPRESSED_MIN: Final = 2 * KIB
#: The fastest level: JSON of entities shrinks to a tenth.
_LEVEL: Final = 1
#: Offsets of one batch at most: the varints of a record that @platformatic/kafka reads end at 2^30,
#: and it leaves out what is behind them.
_SPAN_MAX: Final = 2**30
_json: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


_Headers = tuple[tuple[str, bytes], ...]


class EncodedBatch(NamedTuple):
    """A record batch, and the offset of its last record."""

    last_offset: int
    data: bytes


class ViewEncoder:
    """Encodes the records of one cluster's views."""

    def __init__(self, cluster_id: str, *, schemas: bool = False) -> None:
        self._schemas = schemas
        self._cluster_id = _json(cluster_id)
        self._headers = ((CLUSTER_ID_HEADER, cluster_id.encode()),)
        self._envelopes = {
            (view, key): '{"schema":' + _json(connect_schema(view, key=key)) + ',"payload":'
            for view in (VIEWS if schemas else ())
            for key in (False, True)
        }

    def batches(
        self, view: str, changes: Iterable[Change], complete: Snapshot | None = None
    ) -> Iterator[EncodedBatch]:
        """Yield the batches of a view's records among ``changes``, and of the record behind them
        that says that a snapshot is ``complete``; none without a record.
        """
        found: Iterable[tuple[int, Record]] = (
            (change.epoch, self.record(view, change))
            for change in changes
            if view in (CHANGES, change.kind.view)
        )
        if complete is not None:
            found = chain(found, [(complete.epoch, self.marker(view, complete))])
        pending: list[Record] = []
        size = first = epoch = 0
        for of_epoch, record in found:
            if pending and (
                size >= BATCH_BYTES or of_epoch != epoch or record.offset - first >= _SPAN_MAX
            ):
                yield _batch(pending, size, epoch)
                pending, size = [], 0
            if not pending:
                first, epoch = record.offset, of_epoch
            pending.append(record)
            size += len(record.key or b"") + len(record.value or b"")
        if pending:
            yield _batch(pending, size, epoch)

    def record(self, view: str, change: Change) -> Record:
        """Return the record of one change in ``view``."""
        kind, state = change.kind, change.before if change.after is None else change.after
        named = dict(zip(kind.key_fields, kind.name(state), strict=True))
        after = None if change.after is None else _value(kind, change.after)
        headers: _Headers = self._headers
        source = change.source
        if change.op == READ:
            headers += ((SNAPSHOT_HEADER, _snapshot(source.offset + 1, source.epoch)),)
        if view != CHANGES:
            return self._record(view, change.offset, change.timestamp, _json(named), after, headers)
        key = _json({"kind": kind.kind, **named})
        before = None if change.before is None else _value(kind, change.before)
        value = self._change(
            change.op, kind.kind, _json(named), before, after, source, change.timestamp
        )
        return self._record(view, change.offset, change.timestamp, key, value, headers)

    def marker(self, view: str, complete: Snapshot) -> Record:
        """Return the record of ``view`` that says that a snapshot is complete.

        In a view of entities it is a tombstone of a key that no entity has, which changes no table
        that is made of the view.
        """
        end_offset, epoch, first, entities, timestamp = complete
        headers = (
            *self._headers,
            (SNAPSHOT_HEADER, _snapshot(end_offset, epoch)),
            (COMPLETE_HEADER, str(first).encode()),
        )
        key, value = absent_key(view), None
        if view == CHANGES:
            named = {"endOffset": end_offset, "epoch": epoch}
            key = {"kind": SNAPSHOT_KIND, **named}
            after = _json({**named, "firstOffset": first, "entities": entities})
            source = Source(end_offset - 1, epoch, None, 0, None)
            value = self._change(READ, SNAPSHOT_KIND, _json(named), None, after, source, timestamp)
        at = offsets.of_complete(end_offset)
        return self._record(view, at, timestamp, _json(key), value, headers)

    def _record(
        self, view: str, offset: int, timestamp: int, key: str, value: str | None, headers: _Headers
    ) -> Record:
        if self._schemas:
            key = _json(key) if view == CHANGES else key
            key = f"{self._envelopes[view, True]}{key}}}"
            value = None if value is None else f"{self._envelopes[view, False]}{value}}}"
        return Record(
            offset=offset,
            timestamp=timestamp,
            key=key.encode("ascii"),
            value=None if value is None else value.encode("ascii"),
            headers=headers,
        )

    def _change(
        self,
        op: str,
        kind: str,
        key: str,
        before: str | None,
        after: str | None,
        source: Source,
        timestamp: int,
    ) -> str:
        """Return the value of a change; ``key``, ``before`` and ``after`` are JSON."""
        if self._schemas:
            key = _json(key)
            before = None if before is None else _json(before)
            after = None if after is None else _json(after)
        record_type = "null" if source.record_type is None else f'"{source.record_type}"'
        version = "null" if source.record_type is None else source.record_version
        end = "null" if source.transaction_end is None else source.transaction_end
        return (
            f'{{"op":"{op}","kind":"{kind}","key":{key},"before":{before or "null"}'
            f',"after":{after or "null"},"source":{{"cluster_id":{self._cluster_id}'
            f',"offset":{source.offset},"epoch":{source.epoch},"record_type":{record_type}'
            f',"record_version":{version},"transaction_end":{end}}},"ts_ms":{timestamp}}}'
        )


def end_marker_batch(end: int, epoch: int, timestamp: int = -1) -> bytes:
    """Return a control batch at the offset before ``end``, for a reader that has no record below
    ``end``: clients skip it, and continue at ``end``.
    """
    record = encode_control_record(
        "LEADER_CHANGE", LeaderChangeMessage(), offset=end - 1, timestamp=timestamp
    )
    return encode_batch([record], partition_leader_epoch=epoch, is_control=True)


def _snapshot(end_offset: int, epoch: int) -> bytes:
    return b"%d-%d" % (end_offset, epoch)


def _value(kind: Kind, state: State) -> str:
    return _json(kind.fields(state))


def _batch(records: list[Record], size: int, epoch: int) -> EncodedBatch:
    codec = Compression.GZIP if size >= _COMPRESSED_MIN else Compression.NONE
    data = encode_batch(
        records,
        partition_leader_epoch=epoch,
        compression=codec,
        level=_LEVEL if codec else None,
    )
    return EncodedBatch(records[-1].offset, data)


assert offsets.CHANGES_MAX <= _SPAN_MAX, "the entities of a snapshot fit into one batch"
