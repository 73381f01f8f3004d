"""Reads a small file that no default may replace, with the remedy if it cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gateway.log.files.disk import doing
from gateway.log.files.errors import LogDamaged
from kwire.errors import DecodeError

_T = TypeVar("_T")


def read_small_file(path: Path, reader: Callable[[Path], _T], advice: str) -> _T | None:
    """Return what ``reader`` returns, None without the file. Raises LogDamaged with ``advice``,
    DiskFailed.
    """
    with doing("read", path):
        try:
            return reader(path)
        # A missing file is a fresh directory to most callers; a voter decides for itself what is
        # missing.
        except FileNotFoundError:
            return None
        except DecodeError as error:
            raise LogDamaged(str(path), error.offset, error.reason, advice) from error
