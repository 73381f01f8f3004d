"""Folds a long log directory in pieces at the same time: the last piece in this process, each
earlier one in a process of its own.

Every process reads the log from the start. It folds what comes before its piece quietly, for the
state alone, which takes a fraction of the time; so each piece begins with the exact state of a
single fold, open transactions and the offsets of all entities included, and needs no snapshot at
its beginning. A process gives the names of the files that it wrote, and the last piece commits all
of them. It knows no Spark.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from types import TracebackType
from typing import Any, Final

from kwire.spark.source.files import find_files
from kwire.spark.table.directory import directory_rows
from kwire.spark.table.fold import Fold
from kwire.spark.table.rows import Folded
from kwire.spark.table.store import Store, TablesError

#: (table, file) of rows that only grow.
Files = list[tuple[str, str]]
#: A process reads at least so many bytes of a log, or it takes longer to start than it saves.
_BYTES_MIN: Final = 8 * 1024 * 1024
_PROCESSES_MAX: Final = 4
#: The time of a record that is folded quietly, of that of one that is written too.
_QUIET: Final = 0.25
#: So many changes are written together: some 100 MB.
CHANGES_AT_ONCE: Final = 100_000
_HEAD: Final = struct.Struct(">qi")


def processes() -> int:
    """The number of processes that can fold one log here."""
    if not sys.executable or not hasattr(os, "sched_getaffinity"):
        return 1
    return min(_PROCESSES_MAX, len(os.sched_getaffinity(0)))


def cuts(directory: str, since: int, pieces: int) -> list[int]:
    """The offsets at which pieces of a log directory begin, without the first: at most ``pieces``
    - 1. They grow shorter, because what comes before a piece takes time, too. Segments that begin
    before offset ``since`` do not count. Raises FileNotFoundError.
    """
    files = [file for file in find_files([directory], "segments") if _offset(file) >= since]
    sizes = [os.path.getsize(file) for file in files]
    pieces = min(pieces, sum(sizes) // _BYTES_MIN)
    if pieces < 2:
        return []
    shares = [(1 - _QUIET) ** n for n in range(pieces)]
    ends = [sum(sizes) * sum(shares[:n]) / sum(shares) for n in range(1, pieces)]
    found = {_batch_at(files, sizes, int(end)) for end in ends}
    return sorted(offset for offset in found if offset is not None and offset > since)


def _batch_at(files: Sequence[str], sizes: Sequence[int], place: int) -> int | None:
    """The first offset of the batch at byte ``place`` of all files, None if no batch is there."""
    for path, size in zip(files, sizes, strict=True):
        if place < size:
            return _batch_in(path, place)
        place -= size
    return None


def _batch_in(path: str, place: int) -> int | None:
    at = 0
    with open(path, "rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            offset, length = _HEAD.unpack(head)
            if at >= place:
                return int(offset)
            if length <= 0:
                break
            at += _HEAD.size + length
            file.seek(length, os.SEEK_CUR)
    return None


def _offset(file: str) -> int:
    return int(os.path.basename(file)[:20])


class Parts:
    """Writes rows to files, which count when :meth:`Store.adopt` names them."""

    def __init__(self, store: Store) -> None:
        # No other process, also not one that a killed writer left, has files of these numbers.
        self._store, self._number = store, random.getrandbits(48)
        self.files: Files = []

    def add(self, folded: Folded) -> None:
        """Write the rows of ``folded``. Raises OSError."""
        new = self._store.write(folded, self._number)
        self._number += len(new)
        self.files += new


class Pieces:
    """The processes that fold what comes before the last of ``offsets``, which are the beginnings
    of pieces. Leaving the context ends them.
    """

    def __init__(
        self,
        directory: str,
        since: int,
        offsets: Sequence[int],
        path: str,
        *,
        fail_fast: bool,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._running: list[subprocess.Popen[bytes]] = []
        for begin, end in pairwise([since, *offsets]):
            job = [os.path.abspath(directory), since, begin, end, path, fail_fast]
            self._running.append(self._start(job))

    def _start(self, job: Sequence[Any]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "kwire.spark.table.pieces"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert process.stdin is not None, "it is a pipe"
        with contextlib.suppress(BrokenPipeError):  # it has ended, and files() says how
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
        return process

    def files(self) -> Files:
        """The files of all pieces, in their order, when they are written. Raises TablesError."""
        found: Files = []
        for process in self._running:
            assert process.stdout is not None, "it is a pipe"
            text = process.stdout.read()
            if process.wait():
                self._errors.seek(0)
                said = self._errors.read().decode(errors="replace").strip().splitlines()
                raise TablesError(
                    f"a process that folds a part of the log ended with {process.returncode}:"
                    f" {said[-1] if said else 'it was killed'}; nothing was changed, run it again"
                )
            found += map(tuple, json.loads(text))
        return found

    def __enter__(self) -> Pieces:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        self._errors.close()


def fold_piece(
    directory: str, since: int, begin: int, end: int, path: str, fail_fast: bool
) -> Files:
    """Write the rows of the offsets from ``begin`` to ``end``, exclusive, of a log whose records
    below ``since`` are in the tables.
    """
    store = Store(path)
    fold, parts = Fold(store.state(), fail_fast=fail_fast), Parts(store)
    for rows, ahead in pairwise(chain(directory_rows(directory, since), [()])):
        fold.take(rows, ahead, quiet_below=begin, until=end)
        if len(fold.folded.changes) >= CHANGES_AT_ONCE:
            parts.add(fold.folded)
            fold.folded = Folded()
        if rows and rows[-1].offset >= end:
            break
    parts.add(fold.folded)
    return parts.files


def _end_with(lines: Iterable[bytes]) -> None:
    """End this process when the one that started it is gone."""
    for _ in lines:
        pass
    os._exit(1)


def main() -> None:
    """Fold the piece that a line of stdin describes, and print its files."""
    import gc

    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    gc.disable()
    files = fold_piece(*job)
    sys.stdout.write(json.dumps(files))
    sys.stdout.flush()
    os._exit(0)  # without taking down a million objects


if __name__ == "__main__":
    main()
