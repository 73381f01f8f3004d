"""Writes changes as the records of a view: JSON keys and values, in record batches.

The value of an entity that is gone is null, a tombstone. With ``schemas`` keys and values are
Connect's JSON with schema (``JsonConverter`` with ``schemas.enable``). The same changes give the
same records at every server. It knows neither the log nor its readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gateway.base.sizes import KIB
from gateway.ports.view_topics import CHANGES, VIEWS
from gateway.views import offsets
from gateway.views.fold import Change
from gateway.views.schemas import connect_schema
from kwire.cluster.kind import Kind, State
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


class EncodedBatch(NamedTuple):
    """A record batch, and the offset of its last record."""

    last_offset: int
    data: bytes


class ViewEncoder:
    """Encodes the records of one cluster's views."""

    def __init__(self, cluster_id: str, *, schemas: bool = False) -> None:
        self._schemas = schemas
        self._cluster_id = _json(cluster_id)
        self._envelopes = {
            (view, key): '{"schema":' + _json(connect_schema(view, key=key)) + ',"payload":'
            for view in (VIEWS if schemas else ())
            for key in (False, True)
        }

    def batches(self, view: str, changes: Iterable[Change]) -> Iterator[EncodedBatch]:
        """Yield the batches of a view's records among ``changes``, none without a record."""
        pending: list[Record] = []
        size = first = epoch = 0
        for change in changes:
            if view not in (CHANGES, change.kind.view):
                continue
            record = self.record(view, change)
            if pending and (
                size >= BATCH_BYTES or change.epoch != epoch or change.offset - first >= _SPAN_MAX
            ):
                yield _batch(pending, size, epoch)
                pending, size = [], 0
            if not pending:
                first, epoch = change.offset, change.epoch
            pending.append(record)
            size += len(record.key or b"") + len(record.value or b"")
        if pending:
            yield _batch(pending, size, epoch)

    def record(self, view: str, change: Change) -> Record:
        """Return the record of one change in ``view``."""
        kind, state = change.kind, change.before if change.after is None else change.after
        named = dict(zip(kind.key_fields, kind.name(state), strict=True))
        value: str | None
        if view == CHANGES:
            key, value = _json({"kind": kind.kind, **named}), self._change(change, _json(named))
        else:
            key = _json(named)
            value = None if change.after is None else _value(kind, change.after)
        if self._schemas:
            key = _json(key) if view == CHANGES else key
            key = f"{self._envelopes[view, True]}{key}}}"
            value = None if value is None else f"{self._envelopes[view, False]}{value}}}"
        return Record(
            offset=change.offset,
            timestamp=change.timestamp,
            key=key.encode("ascii"),
            value=None if value is None else value.encode("ascii"),
        )

    def _change(self, change: Change, key: str) -> str:
        kind, source = change.kind, change.source
        before = "null" if change.before is None else _value(kind, change.before)
        after = "null" if change.after is None else _value(kind, change.after)
        if self._schemas:
            key = _json(key)
            before = before if change.before is None else _json(before)
            after = after if change.after is None else _json(after)
        record_type = "null" if source.record_type is None else f'"{source.record_type}"'
        version = "null" if source.record_type is None else source.record_version
        end = "null" if source.transaction_end is None else source.transaction_end
        return (
            f'{{"op":"{change.op}","kind":"{kind.kind}","key":{key},"before":{before}'
            f',"after":{after},"source":{{"cluster_id":{self._cluster_id}'
            f',"offset":{source.offset},"epoch":{source.epoch},"record_type":{record_type}'
            f',"record_version":{version},"transaction_end":{end}}},"ts_ms":{change.timestamp}}}'
        )


def end_marker_batch(end: int, epoch: int, timestamp: int = -1) -> bytes:
    """Return a control batch at the offset before ``end``, for a reader that has no record below
    ``end``: clients skip it, and continue at ``end``.
    """
    record = encode_control_record(
        "LEADER_CHANGE", LeaderChangeMessage(), offset=end - 1, timestamp=timestamp
    )
    return encode_batch([record], partition_leader_epoch=epoch, is_control=True)


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
