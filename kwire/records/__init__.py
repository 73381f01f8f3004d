"""Kafka's records: batches read and written, control records, and the frame of metadata records.

    for batch in decode_batches(data):  # the bytes of a segment, or of a Fetch response
        for record in batch.records:
            type, version, message = decode_metadata_record(record.value)

``iter_batches`` finds batches without reading their records. All that reads raises DecodeError for
bytes that break a rule, and nothing else; docs/strictness-records.md has the rules that Kafka does
not have.
"""

from kwire.records.batch import (
    BATCH_ELEMENTS_MAX,
    RecordBatch,
    decode_batch,
    decode_batches,
    decode_records,
)
from kwire.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from kwire.records.control import (
    CONTROL_TYPES,
    ControlRecord,
    ControlType,
    decode_control_record,
    encode_control_record,
)
from kwire.records.encode import encode_batch
from kwire.records.header import BATCH_OVERHEAD, BatchHeader, iter_batches, read_header, verify_crc
from kwire.records.metadata import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_name,
)
from kwire.records.record import Compression, Header, Record, TimestampType

__all__ = [
    "BATCH_ELEMENTS_MAX",
    "BATCH_OVERHEAD",
    "CONTROL_TYPES",
    "DECOMPRESSED_BYTES_MAX",
    "BatchHeader",
    "Compression",
    "ControlRecord",
    "ControlType",
    "Header",
    "Record",
    "RecordBatch",
    "TimestampType",
    "compress",
    "decode_batch",
    "decode_batches",
    "decode_control_record",
    "decode_metadata_record",
    "decode_records",
    "decompress",
    "encode_batch",
    "encode_control_record",
    "encode_metadata_record",
    "iter_batches",
    "metadata_record_name",
    "read_header",
    "verify_crc",
]
