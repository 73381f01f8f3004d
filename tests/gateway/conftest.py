"""A place for thousands of small directories, and indexes that are written soon."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """In memory where there is such a file system: nothing here is about the real disk."""
    with tempfile.TemporaryDirectory(
        dir=_IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    ) as directory:
        yield Path(directory)


@pytest.fixture(scope="session", autouse=True)
def few_entries_wait() -> Iterator[None]:
    """Tests append few batches: some entries of an index are in the file then, some wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.log.segments.segment._WAITING_MAX", 2)
        yield
