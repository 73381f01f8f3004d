"""A disk that remembers every operation, and what a crash behind any of them may leave: POSIX
promises no more than that.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gateway.log.files.disk import Disk, DiskFile


class Op(NamedTuple):
    """One file operation; or ``ack``, what the caller had been promised at that instant."""

    kind: str
    path: Path
    value: Any = None
    position: int = 0


class QuietDisk(Disk):
    """Claims to sync and does not: for looking at many directories."""

    def __init__(self) -> None:
        super().__init__(fsync=True)

    def sync(self, file: DiskFile) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class RecordingDisk(QuietDisk):
    """Does everything, and writes it down in ``ops``; paths are relative to ``root``. Files that
    are to be deleted later wait for :meth:`delete_waiting`.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.ops: list[Op] = []
        self.waiting: list[Path] = []
        self.delete_later = lambda path, delay_ms: self.waiting.append(path)

    def ack(self, promise: Any) -> None:
        self.ops.append(Op("ack", Path(), promise))

    def delete_waiting(self) -> None:
        """The delay of everything that waits is over."""
        while self.waiting:
            self.remove(self.waiting.pop(0))

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        self._note("mkdir", path)

    def open(self, path: Path) -> DiskFile:
        is_new = not path.exists()
        file = super().open(path)
        if is_new:
            self._note("create", path)
        return file

    def write(self, file: DiskFile, position: int, data: bytes | memoryview) -> None:
        super().write(file, position, data)
        self._note("write", file.path, bytes(data), position)

    def truncate(self, file: DiskFile, size: int) -> None:
        super().truncate(file, size)
        self._note("truncate", file.path, size)

    def sync(self, file: DiskFile) -> None:
        self._note("sync", file.path)

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._note("rename", source, target.relative_to(self.root))

    def remove(self, path: Path) -> None:
        is_there = path.exists()
        super().remove(path)
        if is_there:
            self._note("remove", path)

    def sync_directory(self, path: Path) -> None:
        self._note("sync directory", path)

    def _note(self, kind: str, path: Path, value: Any = None, position: int = 0) -> None:
        self.ops.append(Op(kind, path.relative_to(self.root), value, position))


@dataclass
class _Inode:
    data: bytes = b""  # as synced
    changes: list[Op] = field(default_factory=list)  # since then

    def content(self, keep: Any = None, zero: bool = False) -> bytes:
        """With the changes that ``keep`` lets through; ``zero``: the length of writes comes
        through, not their bytes.
        """
        data = bytearray(self.data)
        for change in self.changes:
            if keep is not None and not keep(change):
                continue
            if change.kind == "truncate":
                data[:] = data[: change.value].ljust(change.value, b"\0")
            else:
                end = change.position + len(change.value)
                data.extend(bytes(max(0, end - len(data))))
                data[change.position : end] = bytes(len(change.value)) if zero else change.value
        return bytes(data)


State = dict[Path, bytes | None]  # files with their content, directories with None


class NewStates:
    """Lets each state through once for each promise: what recovery does depends on nothing else.

    Behind most operations a crash leaves what it could leave behind the one before.
    """

    def __init__(self) -> None:
        self.came = 0  #: states, with those that came before
        self._known: set[tuple[frozenset[tuple[Path, bytes | None]], Hashable]] = set()

    def of(self, states: Iterable[State], promise: Hashable = None) -> Iterator[State]:
        """Yield those of ``states`` that are new with what had been promised by then."""
        for state in states:
            self.came += 1
            key = frozenset(state.items()), promise
            if key not in self._known:
                self._known.add(key)
                yield state


class CrashDisk:
    """Replays operations in memory, and tells what may be on disk after any of them."""

    def __init__(self, state: State | None = None) -> None:
        """``state`` is on disk, all of it synced."""
        self.directories = {Path(), *(path for path, data in (state or {}).items() if data is None)}
        self.names = {
            path: _Inode(data) for path, data in (state or {}).items() if data is not None
        }
        self.synced_names = dict(self.names)
        self.renames: list[
            tuple[Op, _Inode | None]
        ] = []  # what happened to names and is not synced

    def apply(self, op: Op) -> None:
        match op.kind:
            case "mkdir":
                self.directories.update((op.path, *op.path.parents))
            case "create":
                self._name(op, _Inode())
            case "write" | "truncate":
                self.names[op.path].changes.append(op)
            case "sync":
                inode = self.names[op.path]
                inode.data, inode.changes = inode.content(), []
            case "rename" | "remove":
                self._name(op, None)
            case "sync directory":
                for change, target in [
                    one for one in self.renames if one[0].path.parent == op.path
                ]:
                    _rename(self.synced_names, change, target)
                    self.renames.remove((change, target))

    def _name(self, op: Op, inode: _Inode | None) -> None:
        self.renames.append((op, inode))
        _rename(self.names, op, inode)

    # --- what may be on disk
    # ---------------------------------------------------------------------------------------------

    def killed(self, op: Op) -> Iterator[State]:
        """The process was killed: everything is there, the last write perhaps in part."""
        yield self._state(self.names)
        if op.kind == "write" and len(op.value) > 1:
            yield self._state(self.names, torn=(op, 1 + op.position % (len(op.value) - 1)))

    def lost_power(self, rand: random.Random) -> Iterator[State]:
        """The machine stopped: of what was not synced anything may be missing, bytes and names, in
        any order.
        """
        yield self._state(self.synced_names, keep=lambda change: False)
        yield self._state(self.names, keep=lambda change: False)
        yield self._state(self.names, zero=True)
        yield self._state(self.synced_names)
        names = dict(self.synced_names)
        for change, inode in self.renames:
            if rand.random() < 0.5:
                _rename(names, change, inode)
        yield self._state(names, keep=lambda change: rand.random() < 0.5)

    def _state(
        self,
        names: dict[Path, _Inode],
        keep: Any = None,
        zero: bool = False,
        torn: tuple[Op, int] | None = None,
    ) -> State:
        state: State = dict.fromkeys(self.directories)
        for path, inode in names.items():
            state[path] = inode.content(keep, zero)
            if torn and path == torn[0].path:
                op, length = torn
                rest = _Inode(inode.data, inode.changes[:-1])
                rest.changes.append(op._replace(value=op.value[:length]))
                state[path] = rest.content()
        return state


def _rename(names: dict[Path, _Inode], op: Op, inode: _Inode | None) -> None:
    if op.kind == "create":
        assert inode is not None
        names[op.path] = inode
    elif (moved := names.pop(op.path, None)) is not None and op.kind == "rename":
        names[op.value] = moved


def write_state(root: Path, state: State) -> None:
    """Make the directory ``root`` hold exactly ``state``."""
    for path, data in sorted(state.items()):
        target = root / path
        if data is None:
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def read_state(root: Path) -> State:
    """Everything below ``root`` but the lock."""
    state: State = {}
    for path in root.rglob("*"):
        if path.name != ".lock":
            state[path.relative_to(root)] = None if path.is_dir() else path.read_bytes()
    return state
