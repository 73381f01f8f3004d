"""Reads metadata records for Python programs: from files, or from a server as it grows.

``read``, ``image`` and ``follow`` are ``kwire.read``, ``kwire.image`` and ``kwire.follow``. They
decode; what a record means for the state is ``kwire.cluster``'s.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from kwire.cluster import Image
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.metadata_log.at import At, at_number, at_time, parse_at
from kwire.metadata_log.errors import MetadataLogError, MetadataLogWarning
from kwire.metadata_log.file_names import parse_segment_name
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.state import load_state
from kwire.protocol import CLUSTER_METADATA_PARTITION, CLUSTER_METADATA_TOPIC
from kwire.records import Record, decode_control_record, decode_metadata_record

_PARTITION: Final = 0
_POLL_MS: Final = 500


@dataclass(frozen=True, slots=True)
class MetadataRecord:
    """One record of ``__cluster_metadata``.

    ``timestamp`` is in ms since 1970. ``type`` is the name that kafka-dump-log prints, such as
    ``TOPIC_RECORD``, and ``message`` the decoded record, such as
    :class:`kwire.messages.topic_record.TopicRecord`; it is None for a control record of an unknown
    type. ``epoch`` is -1 where a server does not give it.
    """

    offset: int
    epoch: int
    timestamp: int
    type: str
    version: int
    message: Message | None
    is_control: bool = False


def read(path: str | os.PathLike[str]) -> Iterator[MetadataRecord]:
    """Yield the records of a log directory, a segment (.log) or a snapshot (.checkpoint), in order.

    Of a directory, a ``__cluster_metadata-0`` or its parent, these are the records of its segments;
    what came before the first of them is in a snapshot. A batch that is cut off at the end of the
    log, as in one that is being written, ends the iteration with a MetadataLogWarning. Raises
    DecodeError, whose ``path`` is the file, for other damage and for a record that kwire does not
    know; OSError.
    """
    files = _segments(Path(path))
    for file in files:
        try:
            for header, records in read_log_file(file):
                decode = _control_record if header.is_control else _metadata_record
                for record in records:
                    yield decode(record, header.partition_leader_epoch, str(file))
        except DecodeError as error:
            if error.rule != "truncated" or file != files[-1]:
                raise
            _warn(f"{file}: ends inside a batch at byte {error.offset}: being written, or cut off")


def image(path: str | os.PathLike[str], *, at: int | str | datetime | None = None) -> Image:
    """Return the cluster's image in a log directory, or in a snapshot, at its end or before ``at``.

    ``at`` is an offset (exclusive), ms since 1970, a datetime (UTC unless it has a zone), or text
    with one of these. A log that ends inside a batch or a transaction, and a snapshot that is
    passed over, is a MetadataLogWarning. Raises MetadataLogError where the files do not lead there;
    ValueError for text that is neither.
    """
    state = load_state([Path(path)], _end(at))
    for note in state.notes:
        _warn(note)
    return state.image


def follow(
    server: str,
    *,
    start: int | Literal["beginning", "end"] = "beginning",
    until_end: bool = False,
    **settings: Any,
) -> Iterator[MetadataRecord]:
    """Yield the records of a server of the topic ``__cluster_metadata``, and wait for more.

    ``server`` is HOST:PORT of a ``kwire serve``. ``until_end`` ends at the last offset that the log
    has now. ``settings`` go to kafka-python's KafkaConsumer (``security_protocol``,
    ``sasl_mechanism``, ``ssl_cafile`` ...). Clients do not see control records, so their offsets
    are missing. Raises DecodeError for a record that kwire does not know, MetadataLogError where
    the server has no such topic or offset, and KafkaError.
    """
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=server,
        group_id=None,
        enable_auto_commit=False,
        # A lost position is an error, and never a silent jump.
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        **settings,
    )
    try:
        if _PARTITION not in (consumer.partitions_for_topic(CLUSTER_METADATA_TOPIC) or ()):
            raise MetadataLogError(f"{server} has no topic {CLUSTER_METADATA_TOPIC}")
        partition = TopicPartition(CLUSTER_METADATA_TOPIC, _PARTITION)
        end = _seek(consumer, partition, start, server)
        while not until_end or consumer.position(partition) < end:
            for record in consumer.poll(timeout_ms=_POLL_MS).get(partition, ()):
                if until_end and record.offset >= end:
                    return
                epoch = -1 if record.leader_epoch is None else record.leader_epoch
                yield _metadata_record(record, epoch, server)
    finally:
        consumer.close()


def _warn(text: str) -> None:
    # The caller of ``read`` or ``image``.
    warnings.warn(text, MetadataLogWarning, stacklevel=3)


def _segments(path: Path) -> list[Path]:
    """The segments of a directory, oldest first, or the file itself. Raises FileNotFoundError."""
    if not path.is_dir():
        return [path]
    inside = path / CLUSTER_METADATA_PARTITION
    directory = inside if inside.is_dir() else path
    files = sorted(one for one in directory.iterdir() if parse_segment_name(one.name) is not None)
    if not files:
        raise FileNotFoundError(f"{path}: no segment of a metadata log (OFFSET.log) in it")
    return files


def _seek(consumer: Any, partition: Any, start: int | str, server: str) -> int:
    """Seek to ``start``; return the present end."""
    consumer.assign([partition])
    first = consumer.beginning_offsets([partition])[partition]
    end: int = consumer.end_offsets([partition])[partition]
    offset = {"beginning": first, "end": end}.get(str(start), start)
    if not isinstance(offset, int) or not first <= offset <= end:
        raise MetadataLogError(f"{server}: offset {start} is not between {first} and {end}")
    consumer.seek(partition, offset)
    return end


def _end(at: int | str | datetime | None) -> At:
    match at:
        case None:
            return At()
        case int():
            return at_number(at)
        case datetime():
            return at_time(at)
        case _:
            return parse_at(at)


def _metadata_record(record: Any, epoch: int, where: str) -> MetadataRecord:
    """Decode a data record, of kwire's or of a client's."""
    try:
        name, version, message = decode_metadata_record(record.value or b"")
    except DecodeError as error:
        raise DecodeError(
            f"offset {record.offset}: {error.reason}", path=where, rule=error.rule
        ) from None
    return MetadataRecord(record.offset, epoch, record.timestamp, name, version, message)


def _control_record(record: Record, epoch: int, where: str) -> MetadataRecord:
    try:
        control = decode_control_record(record)
    except DecodeError as error:
        raise DecodeError(
            f"offset {record.offset}: {error.reason}", path=where, rule=error.rule
        ) from None
    return MetadataRecord(
        record.offset,
        epoch,
        record.timestamp,
        control.name,
        control.version,
        control.message,
        is_control=True,
    )
