"""Reads the logs of nodes, by Fetch as a consumer does and from their files, into values for the
checker.
"""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from pathlib import Path
from typing import Self

from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.records import (
    BatchHeader,
    decode_control_record,
    decode_metadata_record,
    decode_records,
    iter_batches,
)
from tools.consistency_checker.history import LogRead, SeenBatch
from tools.consistency_checker.writers import id_of
from tools.consume import EARLIEST, LATEST, ConsumeError, fetch, offset
from tools.process import PATIENCE_S
from tools.wire_client import WireClient

_PAUSE_S, _TAIL_TIMEOUT_S = 0.05, 2.0


class ReadError(Exception):
    """A node did not reach the end of the log in time."""


def seen(data: bytes) -> list[SeenBatch]:
    """The whole batches of ``data``, CRCs checked. Raises DecodeError."""
    return [_seen(data, header) for header in iter_batches(data, check_crc=True)]


def read_files(directory: Path, end: int) -> list[SeenBatch]:
    """The batches below offset ``end`` in the segments of a ``__cluster_metadata-0`` directory,
    which may be growing.
    """
    batches = (
        batch for file in sorted(directory.glob("*.log")) for batch in seen(file.read_bytes())
    )
    return [batch for batch in batches if batch.last_offset < end]


def fetch_all(address: str, end: int, timeout_s: float = 30) -> list[SeenBatch]:
    """Everything below ``end`` that a consumer of the node at ``address`` can read. Raises
    ConsumeError, OSError.
    """
    with WireClient(address, timeout_s) as client:
        batches = (
            batch for data in fetch(client, offset(client, EARLIEST), end) for batch in seen(data)
        )
        return [batch for batch in batches if batch.last_offset < end]


def wait_for_end(address: str, end: int, timeout_s: float = PATIENCE_S) -> None:
    """Return when a consumer of the node at ``address`` can read up to ``end``. Raises
    ReadError.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with WireClient(address) as client:
                trouble = f"its end is {(reached := offset(client, LATEST))}"
            if reached >= end:
                return
        except (OSError, EOFError, ConsumeError) as error:
            trouble = repr(error)
        if time.monotonic() > deadline:
            raise ReadError(
                f"the node at {address} did not come to offset {end} in {timeout_s:.0f} s:"
                f" {trouble}"
            )
        time.sleep(0.05)


class Tail:
    """A consumer that follows a node from the beginning, over its restarts: a thread for the time
    of a ``with`` block.
    """

    def __init__(self, node: int, address: str) -> None:
        self._node, self._address = node, address
        self._batches: list[SeenBatch] = []
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"tail of node {node}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def read(self) -> LogRead:
        """The batches read, in order. Raises the error that ended reading, such as a batch that
        cannot be decoded.
        """
        if self._error is not None:
            raise self._error
        return LogRead(self._node, self._batches)

    def _run(self) -> None:
        try:
            while not self._stop.wait(_PAUSE_S):
                # A node that is down, starting, or without a leader fails in many ways.
                with (
                    contextlib.suppress(OSError, EOFError, ConsumeError),
                    WireClient(self._address, _TAIL_TIMEOUT_S) as client,
                ):
                    self._follow(client)
        except BaseException as error:
            self._error = error

    def _follow(self, client: WireClient) -> None:
        while not self._stop.wait(_PAUSE_S):
            position = self._batches[-1].last_offset + 1 if self._batches else 0
            for data in fetch(client, position, offset(client, LATEST)):
                self._batches += seen(data)


def _seen(data: bytes, header: BatchHeader) -> SeenBatch:
    records, leader, ids = decode_records(data, header), None, []
    for record in records:
        if header.is_control:
            control = decode_control_record(record)
            if isinstance(control.message, LeaderChangeMessage):
                leader = control.message.leader_id
        elif (
            record.value is not None
            and (id := id_of(decode_metadata_record(record.value)[2])) is not None
        ):
            ids.append((record.offset, id))
    digest = zlib.crc32(data[header.position : header.end])
    return SeenBatch(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        digest,
        tuple(ids),
        leader,
    )
