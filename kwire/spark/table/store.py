"""Stores the tables as files: Parquet beside a manifest that lists the valid ones. It knows no
Spark; one writer at a time, many readers.

A commit writes new files under new names, then replaces the manifest. A writer that is killed
before that leaves files that no manifest lists, and the next writer deletes them. A reader uses the
files of the manifest it read: replaced files are deleted some minutes later. A lock keeps a second
writer out from the first file of a commit to the manifest.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kwire.spark.table import layers as layering
from kwire.spark.table.arrow import (
    changes_table,
    closed_table,
    errors_table,
    held_rows,
    held_table,
    load_table,
    restore,
    together,
)
from kwire.spark.table.kinds import KINDS, Key, Kind
from kwire.spark.table.layers import Layer, living, merged
from kwire.spark.table.places import FLEET, directory_of
from kwire.spark.table.rows import Folded, Moment, State
from kwire.spark.table.tiers import due, level_of

MANIFEST: Final = "manifest.json"
_LOCK: Final = "lock"
#: So long a writer waits for another one, such as an earlier attempt of the same task.
_LOCK_S: Final = 30.0
_FORMAT: Final = 2
#: The format of release 0.2, which had the current state of a kind in buckets.
_BEFORE: Final = 1
_MANY: Final = 1 << 40
#: How long a file that was replaced is kept for those who are reading it.
_KEEP_S: Final = 600
_DATA: Final = re.compile(r"data/[a-z_]+-[0-9]{12}-[0-9]+\.parquet")


class TablesError(RuntimeError):
    """The directory is not as its writer left it, or another writer uses it."""


@dataclass
class Manifest:
    """The files of the current commit. ``appended`` lists (file, level) of tables that only grow,
    ``current`` the layers of the current state of a kind. ``cluster`` is the id of the cluster,
    None if it is not known, ``last_time`` the timestamp (ms) of the record before ``next_offset``;
    ``token`` tells a commit from one of the same number in tables that were built anew.
    """

    commit: int = 0
    next_offset: int = 0
    appended: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    current: dict[str, list[Layer]] = field(default_factory=dict)
    held: str | None = None
    replaced: list[tuple[float, str]] = field(default_factory=list)
    cluster: str | None = None
    last_time: int | None = None
    token: str = ""

    def files(self) -> set[str]:
        """Return all files that are valid, or may still be read."""
        found = {file for files in self.appended.values() for file, _ in files} | {
            file for _, file in self.replaced
        }
        found |= {layer.file for layers in self.current.values() for layer in layers}
        return found | ({self.held} if self.held else set())


class Store:
    """The directory of the tables."""

    def __init__(self, path: str) -> None:
        """Raises ValueError for a path that is none of a file, and TablesError."""
        self.root = directory_of(path)
        self.manifest = self.read_manifest()
        self._begun: _Commit | None = None
        self._locked = False

    def read_manifest(self) -> Manifest:
        """The manifest of the last commit; an empty one where nothing was written yet. Raises
        TablesError.
        """
        try:
            with open(f"{self.root}/{MANIFEST}", encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return Manifest()
        try:
            read = json.loads(text)
            written = read.pop("format")
            if written not in (_FORMAT, _BEFORE):
                raise ValueError("it was written by another version of kwire")
            if written == _BEFORE:
                read["current"] = _layers_of(read.get("current", {}))
            kept = read.pop("kept", "parquet")
            if kept != "parquet":
                raise ValueError(f"it is of {kept.title()} tables, which are kept by {FLEET} now")
            read.pop("outbox", None)
            current = {
                kind: [Layer(*one) for one in layers] for kind, layers in read["current"].items()
            }
            return Manifest(**{**read, "current": current})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TablesError(
                f"{self.root}/{MANIFEST} cannot be read: {error}; build the tables anew"
            ) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other writers out for the block, which may contain another one of these. Raises
        TablesError if one does not end within half a minute.
        """
        if self._locked:
            yield
            return
        os.makedirs(self.root, exist_ok=True)
        with open(f"{self.root}/{_LOCK}", "ab") as file:
            self._wait_for(file.fileno())
            self._locked = True
            try:
                yield
            finally:
                self._locked = False

    def _wait_for(self, lock: int) -> None:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise self._other_writer() from None
                time.sleep(0.02)
            else:
                return

    def is_current(self) -> bool:
        """True if no other writer has committed since this one did. Raises TablesError."""
        now = self.read_manifest()
        return (now.commit, now.token) == (self.manifest.commit, self.manifest.token)

    def _other_writer(self) -> TablesError:
        return TablesError(
            f"{self.root}: another writer uses these tables; let only one query write them"
        )

    def paths(self, files: Iterable[str]) -> list[str]:
        """The paths of files of the manifest."""
        return [f"{self.root}/{file}" for file in files]

    def read(self, files: Iterable[str]) -> pa.Table:
        """Return the rows of files of the manifest that are of one table."""
        return together(map(self._read, files))

    def load(self) -> State:
        """Return the state of the last commit, and delete the files that a killed writer left.
        Raises TablesError.
        """
        with self.writing():
            self.manifest, self._begun = self.read_manifest(), None
            self._sweep()
            return self.state()

    def state(self) -> State:
        """Return the state of the last commit that was read."""
        state = State(next_offset=self.manifest.next_offset, last_time=self.manifest.last_time)
        for kind in KINDS:
            if layers := self.manifest.current.get(kind.entity):
                restore(state, kind, living(self._read(layer.file) for layer in layers))
        if self.manifest.held:
            state.held = held_rows(self._read(self.manifest.held))
        return state

    def add(self, folded: Folded) -> None:
        """Write the rows of ``folded`` into files that count with the next :meth:`commit`. A long
        log goes by here in parts, so that memory holds one of them. Let the parts and the commit be
        one block of :meth:`writing`. Raises OSError.
        """
        with self.writing():
            self._add(folded)

    def _add(self, folded: Folded) -> None:
        commit = self._begun = self._begun or _Commit(self)
        for name, table in _tables(folded):
            commit.append(name, table)

    def write(self, folded: Folded, number: int) -> list[tuple[str, str]]:
        """Write the rows of ``folded`` into files that count when :meth:`adopt` names them, with
        numbers from ``number`` on: (table, file) of each. Raises OSError.
        """
        files = []
        for n, (name, table) in enumerate(_tables(folded), number):
            file = _data_file(name, self.manifest.commit + 1, n)
            self._write(file, table)
            files.append((name, file))
        return files

    def adopt(self, files: Iterable[tuple[str, str]]) -> None:
        """Let files of :meth:`write` count with the next :meth:`commit`, in their order."""
        commit = self._begun = self._begun or _Commit(self)
        for name, file in files:
            commit.adopt(name, file)

    def commit(self, state: State, folded: Folded) -> Counter[str]:
        """Add ``folded`` to the tables, and what was added before: all of it or, after a crash,
        nothing. Return the number of rows that were added to each table. Raises TablesError,
        OSError.
        """
        with self.writing():
            self._add(folded)
            commit, self._begun = self._begun or _Commit(self), None
            for kind in KINDS:
                commit.change(state, kind, folded.before[kind.entity])
            commit.hold(held_table(state.held) if state.held else None)
            self._publish(commit.done(state))
            return commit.rows

    def _publish(self, manifest: Manifest) -> None:
        if not self.is_current():
            raise self._other_writer()
        text = json.dumps({"format": _FORMAT, **asdict(manifest)})
        temporary = f"{self.root}/{MANIFEST}.tmp"
        with open(temporary, "w", encoding="utf-8") as opened:
            opened.write(text)
        os.replace(temporary, f"{self.root}/{MANIFEST}")
        gone = self.manifest.files() - manifest.files()
        self.manifest = manifest
        for file in gone:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.root}/{file}")

    def _sweep(self) -> None:
        """Delete the files that no manifest lists."""
        os.makedirs(f"{self.root}/data", exist_ok=True)
        known = self.manifest.files()
        for base in os.listdir(f"{self.root}/data"):
            name = f"data/{base}"
            if name not in known and _DATA.fullmatch(name):
                os.unlink(f"{self.root}/{name}")

    def _read(self, file: str) -> pa.Table:
        return pq.read_table(f"{self.root}/{file}")

    def count(self, file: str) -> int:
        """The number of rows in a file."""
        return int(pq.read_metadata(f"{self.root}/{file}").num_rows)

    def _write(self, file: str, table: pa.Table) -> None:
        pq.write_table(table, f"{self.root}/{file}")


def _tables(folded: Folded) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of tables that only grow."""
    if folded.changes:
        yield "changes", changes_table(folded.changes)
    if folded.errors:
        yield "errors", errors_table(folded.errors)
    if folded.load:
        yield "load", load_table(folded)
    for kind in KINDS:
        if folded.closed[kind.entity]:
            yield kind.table, closed_table(kind, folded.closed[kind.entity])


def _layers_of(buckets: Mapping[str, Mapping[str, str]]) -> dict[str, list[tuple[str, int, int]]]:
    """The layers of a manifest of release 0.2. Their rows have no keys, so they count as so many
    that the first change writes the state anew.
    """
    return {kind: [(file, _MANY, 0) for file in files.values()] for kind, files in buckets.items()}


def _data_file(name: str, commit: int, number: int) -> str:
    return f"data/{name}-{commit:012d}-{number}.parquet"


class _Commit:
    """A manifest under construction."""

    def __init__(self, store: Store) -> None:
        old = store.manifest
        self._store, self._number, self._files, self._now = store, old.commit + 1, 0, time.time()
        self._appended = {name: list(map(tuple, files)) for name, files in old.appended.items()}
        self._current = {entity: list(layers) for entity, layers in old.current.items()}
        self._replaced = [
            (since, file) for since, file in old.replaced if since > self._now - _KEEP_S
        ]
        self._held = old.held
        self.rows = Counter[str]()

    def append(self, name: str, table: pa.Table) -> None:
        self.adopt(name, self._write(name, table))

    def adopt(self, name: str, file: str) -> None:
        files: list[Any] = self._appended.setdefault(name, [])
        rows = self._store.count(file)
        files.append((file, level_of(rows)))
        self.rows[name] += rows
        while (step := due([level for _, level in files]))[0]:
            some = files[len(files) - step[0] :]
            whole = together(self._read_all(file for file, _ in some))
            files[len(files) - step[0] :] = [(self._write(name, whole), step[1])]
            self._let_go(file for file, _ in some)

    def change(self, state: State, kind: Kind, before: Mapping[Key, Moment | None]) -> None:
        """Bring the layers of a kind to ``state``; ``before`` as in :class:`Folded`."""
        layers = self._current.setdefault(kind.entity, [])
        step = layering.change(layers, state, kind, before)
        while step is not None:
            replaced = [layer.file for layer in step.of]
            self._let_go(replaced)
            del layers[len(layers) - len(replaced) :]
            if step.table.num_rows:
                layers.append(step.layer(self._write(f"{kind.table}_current", step.table)))
            count, level = due([one.level for one in layers])
            some = layers[len(layers) - count :]
            tables = self._read_all(one.file for one in some)
            step = merged(some, level, tables) if count else None
        if not layers:
            del self._current[kind.entity]

    def hold(self, table: pa.Table | None) -> None:
        self._let_go([self._held] if self._held else [])
        self._held = None if table is None else self._write("held", table)

    def done(self, state: State) -> Manifest:
        appended: Any = self._appended
        return Manifest(
            self._number,
            state.next_offset,
            appended,
            self._current,
            self._held,
            self._replaced,
            self._store.manifest.cluster,
            state.last_time,
            uuid.uuid4().hex,
        )

    def _let_go(self, files: Iterable[str]) -> None:
        self._replaced += [(self._now, file) for file in files]

    def _write(self, name: str, table: pa.Table) -> str:
        file = _data_file(name, self._number, self._files)
        self._files += 1
        self._store._write(file, table)
        return file

    def _read_all(self, files: Iterable[str]) -> list[pa.Table]:
        read: Callable[[str], pa.Table] = self._store._read
        return [read(file) for file in files]
