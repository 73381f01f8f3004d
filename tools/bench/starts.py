"""Measures what the logs of a broker cost at its start: many small ones, and a large one; after a
clean stop, and without recovery points, as an older release has left them.

The logs are written and opened in this process, without a server around them. Processor time, so
that other processes of the machine do not count.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gateway.base.sizes import MIB
from gateway.log.files.disk import Disk
from gateway.log.files.errors import LogError
from gateway.log.files.offset_checkpoint import RECOVERY_POINT, Checkpoints
from gateway.log.partition.log_settings import LogSettings
from gateway.sources.stored_log import StoredLog
from kwire.records import Record, encode_batch
from kwire.records.header import read_header
from kwire.uuid import Uuid

_PARTITIONS: Final = 1000
_LARGE_BYTES: Final = 1024 * MIB
_BATCH_BYTES: Final = 16_384
_BATCHES: Final = 20  # of each small log
_SETTINGS: Final = LogSettings()
_ROUNDS: Final = 3


def run() -> Iterator[dict[str, Any]]:
    """Yield the rows."""
    yield from _rows(f"{_PARTITIONS:,} logs of {_BATCHES} batches", _PARTITIONS, _BATCHES)
    yield from _rows("a log of 1 GiB", 1, _LARGE_BYTES // _BATCH_BYTES)


def _rows(what: str, partitions: int, batches: int) -> Iterator[dict[str, Any]]:
    scratch = Path(tempfile.mkdtemp(prefix="kwire-bench-"))
    try:
        logs = Logs(scratch, partitions)
        logs.fill(batches)
        clean = min(logs.cost_of_start() for _ in range(_ROUNDS))
        (scratch / RECOVERY_POINT).unlink()
        whole = logs.cost_of_start()
    finally:
        shutil.rmtree(scratch)
    yield {
        "what": f"open {what} after a clean stop",
        "unit": "ms CPU",
        "kwire": clean * 1000,
        "peer": "without recovery points",
        "peer_value": whole * 1000,
        "ratio": whole / clean,
        "bar": 1.0,
        "notes": f"batches of {_BATCH_BYTES} bytes",
    }


class Logs:
    """The logs of ``count`` partitions in a directory."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._count = count

    def fill(self, batches: int) -> None:
        """Write the logs and close them. Raises LogError."""
        value = bytes(_BATCH_BYTES)
        for one in self._open():
            assert one.log is not None
            for number in range(batches):
                record = Record(offset=number, timestamp=1000 + number, value=value)
                data = encode_batch(
                    [record],
                    partition_leader_epoch=0,
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=number,
                )
                one.log.append(data, crc_checked=True)
                one.producers.append(read_header(data))
            one.close()
        self._checkpoints.recovery_points.save()

    def cost_of_start(self) -> float:
        """Open the logs; return the processor time, s. Raises LogError."""
        began = time.process_time()
        opened = list(self._open())
        spent = time.process_time() - began
        for one in opened:
            one.close()
        self._checkpoints.recovery_points.save()
        return spent

    def _open(self) -> Iterator[StoredLog]:
        disk = Disk()
        self._checkpoints = Checkpoints(self._directory, disk, [])
        for number in range(self._count):
            one = StoredLog(
                self._directory / f"bench-{number}",
                Uuid(number.to_bytes(16)),
                number,
                lambda: _SETTINGS,
                disk,
                self._checkpoints,
                lambda: None,
            )
            one.open()
            if one.log is None:
                raise LogError(str(one.fault))
            yield one
