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
from contextlib import contextmanager
from functools import partial

from kwire.errors import DecodeError
from kwire.records import BatchHeader, decode_control_record, decode_records, iter_batches
from kwire.spark.options import METADATA_TOPIC
from kwire.spark.record_columns import Columns, columns_of
from kwire.spark.source.offsets import DataLossError
from kwire.spark.source.options import Settings
from kwire.spark.source.server import RETRY_S, ServerError, ServerLog, sentences


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
                    raise _nothing(at, settings)
                begin, at = at, now_at
                deadline = deadline if at == begin else _deadline(settings)
                coming = pool.submit(_from, log, at, end, settings) if at < end else None
                for columns in records:
                    yield columns.within(begin, end)
    finally:
        log.close()


def snapshot_end(settings: Settings, start: int) -> int | None:
    """The offset behind the snapshot that a server puts in front of its log, which begins at
    ``start``; None if it begins with the log's own records.

    The control records of a snapshot stay at their places there: its header is the first record,
    its footer the last one. Raises ServerError.
    """
    log, at, deadline = ServerLog(settings), start, _deadline(settings)
    try:
        while True:
            data = log.patiently(partial(log.fetch, at))
            with _readable(at, settings):
                batches = [(one, _controls(data, one)) for one in iter_batches(data)]
            for header, names in batches:
                if header.base_offset <= start and "SNAPSHOT_HEADER" not in names:
                    return None
                if "SNAPSHOT_FOOTER" in names:
                    return header.next_offset
                at, deadline = header.next_offset, _deadline(settings)
            if time.monotonic() > deadline:
                raise _nothing(at, settings)
    finally:
        log.close()


def _controls(data: bytes, header: BatchHeader) -> list[str]:
    records = decode_records(data, header) if header.is_control else ()
    return [decode_control_record(record).name for record in records]


def _from(log: ServerLog, at: int, end: int, settings: Settings) -> tuple[int, list[Columns]]:
    """Return (the next offset, records), of which some may be before ``at``; ``at`` and no records
    if there are none now.
    """
    from kafka.errors import OffsetOutOfRangeError, RetriableError

    with sentences(settings):
        try:
            data = log.fetch(at)
        except OffsetOutOfRangeError:
            return _after_loss(log, at, end, settings), []
        except RetriableError:
            # The leader moved or a connection broke: the next request finds the leader anew.
            log.forget_leader()
            time.sleep(RETRY_S)
            return at, []
    return _records(data, at, settings)


def _nothing(at: int, settings: Settings) -> ServerError:
    return ServerError(
        f"{settings.bootstrap} gave nothing at offset {at} for {settings.poll_timeout_ms} ms"
    )


def _records(data: bytes, at: int, settings: Settings) -> tuple[int, list[Columns]]:
    with _readable(at, settings):
        headers = list(iter_batches(data, check_crc=True))
        return max([at, *(one.next_offset for one in headers)]), list(columns_of(data, headers))


@contextmanager
def _readable(at: int, settings: Settings) -> Iterator[None]:
    try:
        yield
    except DecodeError as error:
        raise ServerError(
            f"the batches from offset {at} on that {settings.bootstrap} sent cannot be read:"
            f" {error}"
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
