"""Opens stores of committed offsets for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.log.offsets.offset_store import OffsetStore
from kwire.metadata_log.file_names import segment_name
from kwire.records import Record, decode_batches
from tests.gateway.log.crash_disk import QuietDisk

NOW_MS = 1_700_000_000_000
#: The first segment.
SEGMENT = segment_name(0)


def open_store(directory: Path, **options: Any) -> OffsetStore:
    return OffsetStore(directory, **{"disk": QuietDisk(), **options})


def contents(directory: Path) -> dict[bytes, bytes]:
    store = open_store(directory)
    try:
        return dict(store.records())
    finally:
        store.close()


def records_in(directory: Path) -> list[Record]:
    """The records in the files, as Kafka's consumers read them."""
    data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    return [record for batch in decode_batches(data) for record in batch.records]
