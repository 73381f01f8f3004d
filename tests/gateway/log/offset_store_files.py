"""Opens stores of committed offsets for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.log.offset_store import OffsetStore

NOW_MS = 1_700_000_000_000


def open_store(directory: Path, **options: Any) -> OffsetStore:
    return OffsetStore(directory, **options)


def contents(directory: Path) -> dict[bytes, bytes]:
    store = open_store(directory)
    try:
        return dict(store.records())
    finally:
        store.close()
