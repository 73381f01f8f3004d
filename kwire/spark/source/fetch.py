"""Fetches records of the metadata topic by requests of its own over kafka-python's connections, for
one task.

kafka-python's consumer parses each record in Python, which takes tens of times as long as
``kwire.spark.record_columns``. Only its connections are therefore used: they return the bytes of a
Fetch response. Knows no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from kwire.errors import DecodeError
from kwire.records import BatchHeader, iter_batches
from kwire.spark.options import METADATA_TOPIC
from kwire.spark.record_columns import Columns, columns_of
from kwire.spark.record_types import type_prefix
from kwire.spark.source.offsets import DataLossError
from kwire.spark.source.options import Settings
from kwire.spark.source.server import RETRY_S, ServerError, ServerLog, raise_code, sentences

#: The newest version that names topics and not their ids.
_VERSION_MAX: Final = 12
_MAX_WAIT_MS: Final = 500
_NO_OP: Final = type_prefix("NO_OP_RECORD")
#: Bytes asked for at a time where the options do not say, as Kafka's consumers have it.
_PARTITION_BYTES: Final = 1024 * 1024


def read_range(settings: Settings, start: int, end: int) -> Iterator[Columns]:
    """The records with ``start`` <= offset < ``end``, in order, as they arrive; memory holds two
    responses.

    The next response is fetched while the caller works on one. Control records are left out. Raises
    DataLossError when the log start has passed ``start`` and the options do not allow that;
    ServerError when no record arrives for ``poll_timeout_ms``, or a response cannot be read.
    """
    log = ServerLog(settings)
    try:
        with ThreadPoolExecutor(1, "kwire-fetch") as pool:
            at, deadline = start, _deadline(settings)
            coming = pool.submit(_from, log, at, end, settings) if at < end else None
            while coming is not None:
                now_at, records = coming.result()
                if now_at == at and time.monotonic() > deadline:
                    raise ServerError(
                        f"{settings.bootstrap} gave nothing at offset {at} for"
                        f" {settings.poll_timeout_ms} ms"
                    )
                begin, at = at, now_at
                deadline = deadline if at == begin else _deadline(settings)
                coming = pool.submit(_from, log, at, end, settings) if at < end else None
                for columns in records:
                    yield columns.within(begin, end)
    finally:
        log.close()


def only_no_ops(log: ServerLog, settings: Settings, start: int, end: int) -> bool:
    """True if the records with ``start`` <= offset < ``end`` change nothing; at the price of one
    request. False also if these are more than an answer holds, or it cannot be had now.
    """
    from kafka.errors import KafkaError

    try:
        at, records = _records(_fetch(log, start, settings), start, settings)
    except (KafkaError, ServerError):
        return False
    return at >= end and all(
        bool(columns.values.begin_with((_NO_OP,)).all())
        for columns in (one.within(start, end) for one in records)
        if len(columns)
    )


def _from(log: ServerLog, at: int, end: int, settings: Settings) -> tuple[int, list[Columns]]:
    """Return (the next offset, records), of which some may be before ``at``; ``at`` and no records
    if there are none now.
    """
    from kafka.errors import OffsetOutOfRangeError, RetriableError

    with sentences(settings):
        try:
            data = _fetch(log, at, settings)
        except OffsetOutOfRangeError:
            return _after_loss(log, at, end, settings), []
        except RetriableError:
            # The leader moved or a connection broke: the next request finds the leader anew.
            log.forget_leader()
            time.sleep(RETRY_S)
            return at, []
    return _records(data, at, settings)


def _fetch(log: ServerLog, at: int, settings: Settings) -> bytes:
    from kafka.protocol.consumer import FetchRequest as Request

    size = settings.fetch.get("max_partition_fetch_bytes", _PARTITION_BYTES)
    wanted = Request.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=at,
        last_fetched_epoch=-1,
        partition_max_bytes=size,
    )
    request = Request(
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=settings.fetch.get("fetch_max_bytes", size),
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[Request.FetchTopic(topic=METADATA_TOPIC, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=_VERSION_MAX,
    )
    answer: Any = log.ask_leader(request)
    raise_code(answer.error_code or 0)
    partition = answer.responses[0].partitions[0]
    raise_code(partition.error_code)
    return bytes(partition.records or b"")


def _records(data: bytes, at: int, settings: Settings) -> tuple[int, list[Columns]]:
    headers: list[BatchHeader] = []
    try:
        for header in iter_batches(data, check_crc=True):
            headers.append(header)
            at = max(at, header.next_offset)
        return at, list(columns_of(data, headers))
    except DecodeError as error:
        raise ServerError(
            f"the batch at offset {at} that {settings.bootstrap} sent cannot be read: {error}"
        ) from error


def _after_loss(log: ServerLog, at: int, end: int, settings: Settings) -> int:
    """Return where to continue if ``at`` is not in the log: its start, or ``end`` if ``at`` is
    beyond the log's end.
    """
    state = log.state()
    if settings.fail_on_data_loss:
        raise DataLossError(
            f"offset {at} of {METADATA_TOPIC} is not at {settings.bootstrap}: the log goes from"
            f" {state.start} to {state.end}"
        )
    return state.start if at < state.start else end


def _deadline(settings: Settings) -> float:
    return time.monotonic() + settings.poll_timeout_ms / 1000
