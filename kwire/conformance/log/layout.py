"""Finds the files of a metadata log by their names. It opens none of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log", re.ASCII)
_SNAPSHOT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)
_PARTITION: Final = "__cluster_metadata-0"


class NoLog(Exception):
    """The path has no metadata log."""


@dataclass(frozen=True)
class Segment:
    """A segment and its offset index, which may be missing."""

    path: Path
    base_offset: int

    @property
    def index(self) -> Path:
        """The path of the offset index."""
        return self.path.with_suffix(".index")


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot, by the id in its name."""

    path: Path
    end_offset: int
    epoch: int


@dataclass(frozen=True)
class Layout:
    """The files of one log, in the order of their offsets."""

    directory: Path
    segments: Sequence[Segment]
    snapshots: Sequence[Snapshot]

    def small_file(self, name: str) -> Path | None:
        """Return the path of a file beside the segments, None if there is none."""
        path = self.directory / name
        return path if path.is_file() else None

    @property
    def meta_properties(self) -> Path | None:
        """meta.properties of the directory above, if the log lies in one."""
        path = self.directory.parent / "meta.properties"
        return path if self.directory.name == _PARTITION and path.is_file() else None


def layout(path: Path) -> Layout:
    """Return the log at ``path``: its directory, or the one above. Raises NoLog and OSError."""
    if (path / _PARTITION).is_dir():
        path = path / _PARTITION
    if not path.is_dir():
        raise NoLog(f"{path} is no directory")
    names = sorted(one.name for one in path.iterdir() if one.is_file())
    segments = [
        Segment(path / name, int(match[1])) for name in names if (match := _SEGMENT.fullmatch(name))
    ]
    snapshots = [
        Snapshot(path / name, int(match[1]), int(match[2]))
        for name in names
        if (match := _SNAPSHOT.fullmatch(name))
    ]
    if not segments and not snapshots:
        raise NoLog(f"{path} has no segments and no snapshots")
    return Layout(path, segments, snapshots)
