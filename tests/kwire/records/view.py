"""A decoded batch in the words of the shared vectors, so that the two can be compared whole."""

from __future__ import annotations

from typing import Any

from kwire.records import Record, RecordBatch, TimestampType, decode_control_record

_TIMESTAMP_TYPES = {
    TimestampType.NO_TIMESTAMP: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def batch_view(batch: RecordBatch) -> dict[str, Any]:
    """Every header field and every record; control records decoded."""
    h = batch.header
    view: dict[str, Any] = {
        "magic": h.magic,
        "baseOffset": h.base_offset,
        "lastOffset": h.last_offset,
        "sizeInBytes": h.size,
        "crc": h.crc,
        "compression": h.compression.name.lower(),
        "timestampType": _TIMESTAMP_TYPES[h.timestamp_type],
        "maxTimestamp": h.max_timestamp,
    }
    if h.magic == 2:
        view |= {
            "attributes": h.attributes,
            "partitionLeaderEpoch": h.partition_leader_epoch,
            "lastOffsetDelta": h.last_offset_delta,
            "rawBaseTimestamp": h.base_timestamp,
            "producerId": h.producer_id,
            "producerEpoch": h.producer_epoch,
            "baseSequence": h.base_sequence,
            "lastSequence": h.last_sequence,
            "isTransactional": h.is_transactional,
            "isControl": h.is_control,
            "count": h.record_count,
            "deleteHorizonMs": h.delete_horizon_ms,
        }
    view["records"] = [_record_view(batch, record) for record in batch.records]
    return view


def vector_view(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of a vector: all but each record's size, which our records do not carry."""
    return [
        {
            **batch,
            "records": [
                {k: v for k, v in record.items() if k != "size"} for record in batch["records"]
            ],
        }
        for batch in batches
    ]


def _record_view(batch: RecordBatch, record: Record) -> dict[str, Any]:
    view: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _hex(record.key),
        "value": _hex(record.value),
        "headers": [[key, _hex(value)] for key, value in record.headers],
    }
    if batch.header.magic == 2:
        view["sequence"] = batch.header.sequence_of(record.offset)
    if batch.header.is_control:
        control = decode_control_record(record)
        view |= {"controlType": control.type, "controlName": control.name}
        if control.message is not None:
            view["control"] = control.message.to_json(0)
    return view


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()
