"""Counts what is read from files."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


def read_by(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """Return the bytes that ``work`` reads from files."""
    real, count = os.pread, 0

    def counting(fd: int, length: int, position: int) -> bytes:
        nonlocal count
        data = real(fd, length, position)
        count += len(data)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", counting)
        work()
    return count
