"""Extracts tar archives of logs and directories, by Python's rules for archives of data."""

from __future__ import annotations

import tarfile
from pathlib import Path


def extract(path: Path, into: Path, prefix: str = "") -> None:
    """Extract the members of an archive whose names begin with ``prefix``. Raises OSError and
    tarfile.TarError.
    """
    with tarfile.open(path) as archive:
        # One by one: a list of them would be a pass of its own over the compressed bytes.
        wanted = (member for member in archive if member.name.startswith(prefix))
        # Before Python 3.11.4 there is no filter.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(into, members=wanted)
