"""Writes a planned rescue into a data directory, so that a crash at any instant can be resumed.

The old state is copied beside the data directory first. The new ``__cluster_metadata-0`` is built
under another name, synced, read back and compared with the plan. Then ``meta.properties`` gets
another name, under which no node starts on the directory, the directories change places, and
``meta.properties`` gets its name back. ``finish`` completes what a crash interrupted.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.base.sizes import MIB
from gateway.log.files import high_watermark_file, meta_properties, recovery_point
from gateway.log.files.directory_lock import FILE_NAME as LOCK
from gateway.log.files.directory_lock import DirectoryLock
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import LogError
from gateway.log.files.offset_checkpoint import RECOVERY_POINT
from gateway.rescue.plan import Plan, PlannedFile
from gateway.rescue.read_copy import read_copy
from kwire.metadata_log.open_file import OpenFile
from kwire.protocol import CLUSTER_METADATA_PARTITION

_NEW: Final = f"{CLUSTER_METADATA_PARTITION}.rescue-new"
_OLD: Final = f"{CLUSTER_METADATA_PARTITION}.rescue-old"
_GUARD: Final = f"{meta_properties.FILE_NAME}.rescue"
#: The notes of a voter of kwire about the log that is replaced.
_NOTES: Final = (recovery_point.FILE_NAME, high_watermark_file.FILE_NAME, RECOVERY_POINT)


class RescueFailed(LogError):
    """The new directory does not read back as planned; the old one was not touched."""


@dataclass(slots=True)
class Written:
    """The journal's facts: SHA-256 of what was read and written, by file name."""

    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)


def backup_of(target: Path, epoch: int) -> Path:
    """Return the directory that holds the state before the rescue."""
    # Beside the data directory: Kafka refuses a log.dir with directories that are no partitions.
    return target.with_name(f"{target.name}.before-rescue-{epoch}")


def journal_of(target: Path, epoch: int) -> Path:
    """Return the file that says what was done."""
    return target.with_name(f"{target.name}.rescue-{epoch}.json")


def is_interrupted(target: Path) -> bool:
    """Whether a rescue of this directory was interrupted while the directories changed places."""
    return (target / _GUARD).exists()


def write_rescue(
    plan: Plan,
    source: Path | None,
    target: Path,
    facts: dict[str, Any],
    *,
    meta: bytes | None = None,
    disk: Disk | None = None,
) -> Path | None:
    """Write the plan from the partition's directory ``source`` into the data directory ``target``,
    and return the backup, None of a new directory.

    ``meta``: the content of ``meta.properties`` of a new directory. ``facts`` go into the journal.
    Raises LogLocked, DiskFailed, RescueFailed.
    """
    disk = disk or Disk()
    disk.make_directory(target)
    lock = DirectoryLock(target)
    try:
        written = Written()
        backup = None if meta is not None else _back_up(target, plan.epoch, disk)
        _build(plan, source, target / _NEW, written, disk)
        _check(plan, target / _NEW)
        _give_to_owner(target, backup)
        journal = {
            **facts,
            "epoch": plan.epoch,
            "endOffset": plan.end_offset,
            "backup": None if backup is None else str(backup),
            "read": written.inputs,
            "written": written.outputs,
        }
        data = json.dumps(journal, indent=2, sort_keys=True) + "\n"
        disk.replace(journal_of(target, plan.epoch), data.encode())
        _close(target, meta, disk)
        _change_places(target, disk)
    finally:
        lock.release()
    return backup


def finish(target: Path, *, disk: Disk | None = None) -> None:
    """Complete a rescue that was interrupted while the directories changed places. Raises
    LogLocked, DiskFailed.
    """
    lock = DirectoryLock(target)
    try:
        _change_places(target, disk or Disk())
    finally:
        lock.release()


# --- the steps
# ---------------------------------------------------------------------------


def _back_up(target: Path, epoch: int, disk: Disk) -> Path:
    backup = backup_of(target, epoch)
    # An earlier run has made it: what is in the target by now may be newer.
    if backup.exists():
        return backup
    half = backup.with_name(backup.name + ".tmp")
    _remove_directory(half, disk)
    disk.make_directory(half / CLUSTER_METADATA_PARTITION)
    inside = target / CLUSTER_METADATA_PARTITION
    for directory, into in ((target, half), (inside, half / CLUSTER_METADATA_PARTITION)):
        for path in _regular_files(directory):
            _copy(path, None, b"", into / path.name, disk)
        disk.sync_directory(into)
    disk.rename(half, backup)
    disk.sync_directory(backup.parent)
    return backup


def _build(plan: Plan, source: Path | None, new: Path, written: Written, disk: Disk) -> None:
    # Left by a run that was interrupted: nothing of it is needed.
    _remove_directory(new, disk)
    disk.make_directory(new)
    for one in plan.files:
        path = None if source is None else source / one.name
        if one.length is None and (path is None or not path.exists()):
            continue
        _write_file(one, path, new, written, disk)
    disk.sync_directory(new)


def _write_file(
    one: PlannedFile, path: Path | None, new: Path, written: Written, disk: Disk
) -> None:
    # Files without a part of the source's are made by the plan alone.
    source = None if one.length == 0 else path
    read, wrote = _copy(source, one.length, one.appended, new / one.name, disk)
    if source is not None:
        written.inputs[one.name] = read
    written.outputs[one.name] = wrote


def _check(plan: Plan, new: Path) -> None:
    """Read the new directory back. Raises RescueFailed."""
    copy = read_copy(new)
    faults = [str(one) for one in copy.damage]
    if copy.end.end_offset != plan.end_offset:
        faults.append(f"it ends at offset {copy.end.end_offset}, not at {plan.end_offset}")
    if not plan.is_static and copy.newest_voters != plan.voters:
        faults.append("it does not name the new voters")
    if copy.election is None or copy.election.epoch != plan.epoch:
        faults.append(f"its quorum-state is not of epoch {plan.epoch}")
    if faults:
        raise RescueFailed(
            f"{new} does not read back as planned: {'; '.join(faults)}; the old directory was not"
            " touched, and the source may have changed meanwhile: run the command again"
        )


def _give_to_owner(target: Path, backup: Path | None) -> None:
    """Give the new files to the owner of the data directory: the operator may be another user than
    the node.
    """
    owner = target.stat()
    for made in filter(None, (target / LOCK, target / _NEW, backup)):
        with doing("give to the owner of the data directory", made):
            for path in (made, *made.rglob("*")):
                if path.stat().st_uid != owner.st_uid:
                    os.chown(path, owner.st_uid, owner.st_gid)


def _close(target: Path, meta: bytes | None, disk: Disk) -> None:
    """Take ``meta.properties`` away, so that no node starts on the directory from here on."""
    if meta is not None:
        disk.replace(target / _GUARD, meta)
        return
    disk.rename(target / meta_properties.FILE_NAME, target / _GUARD)
    disk.sync_directory(target)


def _change_places(target: Path, disk: Disk) -> None:
    """Put the new directory in place of the old one. Each step may have been done by a run before
    this one.
    """
    new, old = target / _NEW, target / _OLD
    current = target / CLUSTER_METADATA_PARTITION
    if new.exists():
        if current.exists():
            disk.rename(current, old)
            disk.sync_directory(target)
        disk.rename(new, current)
        disk.sync_directory(target)
    assert current.exists(), "no step leaves the directory without a log"
    for name in _NOTES:
        disk.remove(target / name)
    _remove_directory(old, disk)
    # Last: from here on a node may start.
    disk.rename(target / _GUARD, target / meta_properties.FILE_NAME)
    disk.sync_directory(target)


# --- files
# ---------------------------------------------------------------------------


def _copy(
    source: Path | None, length: int | None, appended: bytes, into: Path, disk: Disk
) -> tuple[str, str]:
    """Write ``into`` and return the SHA-256 of what was read and of what was written."""
    read, wrote = hashlib.sha256(), hashlib.sha256()
    file = disk.open(into)
    try:
        disk.truncate(file, 0)
        position = 0
        if source is not None:
            with doing("read", source):
                original = OpenFile(str(source))
                left = original.status()[0] if length is None else length
            while left > 0:
                with doing("read", source):
                    data = original.read(position, min(left, MIB))
                if not data:
                    raise RescueFailed(f"{source} became shorter while it was read: run this again")
                disk.write(file, position, data)
                read.update(data)
                wrote.update(data)
                position, left = position + len(data), left - len(data)
        disk.write(file, position, appended)
        wrote.update(appended)
        disk.sync(file)
    finally:
        file.close()
    return read.hexdigest(), wrote.hexdigest()


def _regular_files(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    with doing("look at", directory):
        return sorted(one for one in directory.iterdir() if one.is_file() and one.name != LOCK)


def _remove_directory(directory: Path, disk: Disk) -> None:
    """Remove a directory of this module, which has files and one level of directories at most."""
    if not directory.is_dir():
        return
    for path in sorted(directory.iterdir()):
        if path.is_dir() and not path.is_symlink():
            _remove_directory(path, disk)
        else:
            disk.remove(path)
    with doing("remove", directory):
        directory.rmdir()
    disk.sync_directory(directory.parent)
