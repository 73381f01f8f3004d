"""Rules of Produce and DeleteRecords (KIP-32, KIP-107, KIP-110, KIP-467)."""

from __future__ import annotations

import struct
import time
from typing import Any, Final

import crc32c

from kwire.conformance.fetch_fixtures import end_of, good_fetch
from kwire.conformance.fixtures import (
    EARLIEST,
    Partition,
    fetch,
    list_offset,
    own_partition,
    produce,
    produce_answer,
    records,
    refused_batch,
)
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME, small_request
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.messages.create_topics_request import CreatableTopicConfig
from kwire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol import ApiKey, ErrorCode
from kwire.records import Compression, encode_batch
from kwire.uuid import Uuid

_NEEDED: Final = (ApiKey.PRODUCE, ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.LIST_OFFSETS)
_VALIDATOR: Final = "LogValidator"
#: Base offset and leader epoch of a batch, which the broker sets, are before the CRC.
_CRC_AT: Final = 17
_NO_ID: Final = Uuid(bytes(range(16)))

FAMILY: Final = Family(
    "produce", "Produce and DeleteRecords", roles=BROKER, apis=_NEEDED, changes=Changes.OWN
)


def _patched(batch: bytes, at: int, data: bytes) -> bytes:
    """Return a batch with other bytes and the CRC of them."""
    changed = batch[:at] + data + batch[at + len(data) :]
    return changed[:_CRC_AT] + struct.pack(">I", crc32c.crc32c(changed[21:])) + changed[21:]


@FAMILY.rule("offsets-count", source="ProduceResponse.json", section="BaseOffset")
def offsets_count(probe: Probe) -> None:
    """Batches get the offsets behind those of the batch before."""
    where = own_partition(probe)
    found = [produce(probe, where, encode_batch(records(count, "v"))) for count in (3, 2, 1)]
    probe.expect(found == [1, 4, 6], f"batches of 3, 2 and 1 records behind 0 are at {found}")
    end = end_of(probe, where)
    probe.expect(end == 7, f"behind 7 records the log ends at {end}")


@FAMILY.rule("acks-one", source="ProduceRequest.json", section="Acks")
def acks_one(probe: Probe) -> None:
    """With acks 1 the answer has the offset."""
    one = produce_answer(probe, own_partition(probe), encode_batch(records(1, "v")), acks=1)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    probe.expect(one.base_offset == 1, f"the batch behind 0 is at {one.base_offset}")


@FAMILY.rule("acks-none", source="ProduceRequest.json", section="Acks")
def acks_none(probe: Probe) -> None:
    """With acks 0 there is no answer: the next frame answers the next request, and the records are
    in the log.
    """
    where = own_partition(probe)
    version = probe.newest(ApiKey.PRODUCE)
    topic = TopicProduceData(
        name="" if version >= 13 else where.topic,
        partition_data=[
            PartitionProduceData(index=where.index, records=encode_batch(records(1, "v")))
        ],
    )
    if version >= 13:
        topic.topic_id = where.topic_id
    connection = probe.connect()
    request = ProduceRequest(acks=0, timeout_ms=5000, topic_data=[topic])
    _, data = probe.encode(request, version)
    connection.send_unanswered(data, ApiKey.PRODUCE, version)
    newest = probe.newest(ApiKey.METADATA)
    probe.call(small_request(ApiKey.METADATA, newest), newest, connection)
    probe.until(lambda: end_of(probe, where) == 2, "the record of acks 0")


@FAMILY.rule("acks-invalid", source="ReplicaManager", section="isValidRequiredAcks")
def acks_invalid(probe: Probe) -> None:
    """Acks of 2 have error INVALID_REQUIRED_ACKS."""
    one = produce_answer(probe, own_partition(probe), encode_batch(records(1, "v")), acks=2)
    probe.expect_error(one.error_code, ErrorCode.INVALID_REQUIRED_ACKS)


@FAMILY.rule("unknown-topic", source="KafkaApis", section="handleProduceRequest")
def unknown_topic(probe: Probe) -> None:
    """A topic that does not exist has error UNKNOWN_TOPIC_OR_PARTITION, from version 13 on
    UNKNOWN_TOPIC_ID.
    """
    own_partition(probe)
    where = Partition(NO_NAME, _NO_ID, 0, 0, 0, 0, False)
    by_id = probe.newest(ApiKey.PRODUCE) >= 13
    wanted = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused_batch(probe, encode_batch(records(1, "v")), wanted, where=where)


@FAMILY.rule("bytes-come-back", source="DefaultRecordBatch", section="CRC")
def bytes_come_back(probe: Probe) -> None:
    """A batch is fetched with the bytes that were produced, from its CRC on; before it the broker
    has set base offset and leader epoch.
    """
    where = own_partition(probe)
    batch = encode_batch(records(3, "some value"))
    offset = produce(probe, where, batch)
    found = bytes(good_fetch(probe, where, offset).records)
    probe.expect(
        struct.unpack_from(">q", found)[0] == offset and found[_CRC_AT:] == batch[_CRC_AT:],
        "the batch is fetched with other bytes",
    )
    epoch = struct.unpack_from(">i", found, 12)[0]
    probe.expect(epoch >= where.epoch, f"the batch has leader epoch {epoch}")


def _compressed(probe: Probe, codec: Compression) -> None:
    where = own_partition(probe)
    batch = encode_batch(records(20, "x" * 50), compression=codec)
    offset = produce(probe, where, batch)
    found = bytes(good_fetch(probe, where, offset).records)
    probe.expect(found[_CRC_AT:] == batch[_CRC_AT:], "the batch is fetched with other bytes")


@FAMILY.rule("gzip", source="CompressionType", section="GZIP")
def gzip(probe: Probe) -> None:
    """A batch that is compressed with gzip comes back as it was."""
    _compressed(probe, Compression.GZIP)


@FAMILY.rule("snappy", source="CompressionType", section="SNAPPY")
def snappy(probe: Probe) -> None:
    """A batch that is compressed with snappy comes back as it was."""
    _compressed(probe, Compression.SNAPPY)


@FAMILY.rule("lz4", source="CompressionType", section="LZ4")
def lz4(probe: Probe) -> None:
    """A batch that is compressed with lz4 comes back as it was."""
    _compressed(probe, Compression.LZ4)


@FAMILY.rule("zstd", source="KIP-110", section="ZSTD", since="2.1")
def zstd(probe: Probe) -> None:
    """A batch that is compressed with zstd comes back as it was."""
    _compressed(probe, Compression.ZSTD)


@FAMILY.rule("crc-wrong", source="DefaultRecordBatch", section="ensureValid")
def crc_wrong(probe: Probe) -> None:
    """A batch with a wrong CRC has error CORRUPT_MESSAGE."""
    batch = bytearray(encode_batch(records(1, "v")))
    batch[-1] ^= 1
    refused_batch(probe, bytes(batch), ErrorCode.CORRUPT_MESSAGE)


@FAMILY.rule("count-wrong", source=_VALIDATOR, section="validateBatch")
def count_wrong(probe: Probe) -> None:
    """A batch that has fewer records than its header says has error INVALID_RECORD."""
    batch = _patched(encode_batch(records(1, "v")), 57, struct.pack(">i", 2))
    refused_batch(probe, batch, ErrorCode.INVALID_RECORD)


@FAMILY.rule("last-offset-wrong", source=_VALIDATOR, section="validateBatch")
def last_offset_wrong(probe: Probe) -> None:
    """A batch whose last offset does not follow from its number of records has error
    INVALID_RECORD.
    """
    batch = _patched(encode_batch(records(1, "v")), 23, struct.pack(">i", 7))
    refused_batch(probe, batch, ErrorCode.INVALID_RECORD)


@FAMILY.rule("control-batch", source=_VALIDATOR, section="validateBatch")
def control_batch(probe: Probe) -> None:
    """A control batch of a client has error INVALID_RECORD."""
    batch = encode_batch(records(1, "v"), is_control=True)
    refused_batch(probe, batch, ErrorCode.INVALID_RECORD)


@FAMILY.rule("two-batches", source="ProduceRequest", section="validateRecords", since="0.11")
def two_batches(probe: Probe) -> None:
    """Two batches for one partition in one request have error INVALID_RECORD."""
    refused_batch(probe, encode_batch(records(1, "v")) * 2, ErrorCode.INVALID_RECORD)


@FAMILY.rule("too-large", source="UnifiedLog", section="max.message.bytes")
def too_large(probe: Probe) -> None:
    """A batch above max.message.bytes of its topic has error MESSAGE_TOO_LARGE."""
    config = CreatableTopicConfig(name="max.message.bytes", value="1000")
    where = own_partition(probe, configs=[config])
    refused_batch(
        probe, encode_batch(records(1, "x" * 2000)), ErrorCode.MESSAGE_TOO_LARGE, where=where
    )


@FAMILY.rule("no-key-in-compacted-topic", source="KIP-467", section="RecordErrors", since="2.4")
def no_key_in_compacted_topic(probe: Probe) -> None:
    """A record without a key in a compacted topic has error INVALID_RECORD, and the answer names
    the record.
    """
    config = CreatableTopicConfig(name="cleanup.policy", value="compact")
    where = own_partition(probe, configs=[config])
    [first, second] = records(2, "v")
    second.key = None
    one = refused_batch(probe, encode_batch([first, second]), ErrorCode.INVALID_RECORD, where=where)
    named = [error.batch_index for error in one.record_errors]
    probe.expect(named == [1], f"the record errors are about {named}")


@FAMILY.rule("create-time", source="ProduceResponse.json", section="LogAppendTimeMs")
def create_time(probe: Probe) -> None:
    """A topic with the producers' timestamps has no append time in the answer, and keeps them."""
    where = own_partition(probe)
    one = produce_answer(probe, where, encode_batch(records(1, "v")))
    probe.expect(one.log_append_time_ms == -1, f"the append time is {one.log_append_time_ms}")


@FAMILY.rule("log-append-time", source="KIP-32", section="message.timestamp.type", since="0.10")
def log_append_time(probe: Probe) -> None:
    """A topic with message.timestamp.type=LogAppendTime has the broker's time in answer and
    batch.
    """
    config = CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime")
    where = own_partition(probe, configs=[config])
    [old] = records(1, "v")
    old.timestamp = int(time.time() * 1000) - 3_600_000
    one = produce_answer(probe, where, encode_batch([old]))
    probe.expect_error(one.error_code, ErrorCode.NONE)
    probe.expect(
        one.log_append_time_ms > old.timestamp, f"the append time is {one.log_append_time_ms}"
    )
    batch = bytes(good_fetch(probe, where, one.base_offset).records)
    written = struct.unpack_from(">q", batch, 35)[0]
    probe.expect(
        written == one.log_append_time_ms, f"the batch has time {written}, the answer another one"
    )


# --- DeleteRecords --------------------------------------------------------------------------


def _delete(probe: Probe, where: Partition, offset: int) -> Any:
    partition = DeleteRecordsPartition(partition_index=where.index, offset=offset)
    topics = [DeleteRecordsTopic(name=where.topic, partitions=[partition])]
    [topic] = probe.call(DeleteRecordsRequest(topics=topics, timeout_ms=5000)).topics
    [one] = topic.partitions
    return one


@FAMILY.rule(
    "delete-records",
    source="KIP-107",
    section="DeleteRecords",
    since="0.11",
    apis=(*_NEEDED, ApiKey.DELETE_RECORDS),
)
def delete_records(probe: Probe) -> None:
    """Records below the offset are gone: the log starts there, and a Fetch below has error
    OFFSET_OUT_OF_RANGE.
    """
    where = own_partition(probe)
    produce(probe, where, encode_batch(records(3, "v")))
    one = _delete(probe, where, 2)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    probe.expect(one.low_watermark == 2, f"the low watermark is {one.low_watermark}")
    first = list_offset(probe, where.topic, where.index, EARLIEST).offset
    probe.expect(first == 2, f"the log starts at {first}")
    probe.expect_error(fetch(probe, where, 1).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)


@FAMILY.rule(
    "delete-records-to-end",
    source="KIP-107",
    section="offset -1",
    since="0.11",
    apis=(*_NEEDED, ApiKey.DELETE_RECORDS),
)
def delete_records_to_end(probe: Probe) -> None:
    """Offset -1 deletes every record."""
    where = own_partition(probe)
    one = _delete(probe, where, -1)
    probe.expect_error(one.error_code, ErrorCode.NONE)
    probe.expect(one.low_watermark == 1, f"the low watermark is {one.low_watermark}")


@FAMILY.rule(
    "delete-records-beyond-end",
    source="KIP-107",
    section="OFFSET_OUT_OF_RANGE",
    since="0.11",
    apis=(*_NEEDED, ApiKey.DELETE_RECORDS),
)
def delete_records_beyond_end(probe: Probe) -> None:
    """An offset beyond the end has error OFFSET_OUT_OF_RANGE, and nothing is deleted."""
    where = own_partition(probe)
    one = _delete(probe, where, 100)
    probe.expect_error(one.error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
    first = list_offset(probe, where.topic, where.index, EARLIEST).offset
    probe.expect(first == 0, f"the log starts at {first}")
