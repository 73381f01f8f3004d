"""Names the directories of the tables of several clusters: one for each below the root. It knows no
Spark.
"""

from __future__ import annotations

import os
import re
from typing import Final

from pyarrow import fs

from kwire.spark.table.store import MANIFEST, TablesError

#: The column that tells clusters apart, and the word in the names of their directories, by which
#: Spark finds its value.
CLUSTER: Final = "cluster_id"
#: Names of clusters: their ids are among them.
NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
#: The file at the root with the state of the sources (``conditions``).
SOURCES: Final = "sources.json"


def cluster_path(root: str, name: str) -> str:
    """The directory of the tables of the cluster ``name`` below ``root``."""
    return f"{root.rstrip('/')}/{CLUSTER}={name}"


def clusters_at(root: str) -> list[str]:
    """The names of the clusters that have tables below ``root``, sorted."""
    files, path = opened(root)
    found = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    before = f"{CLUSTER}="
    return sorted(
        one.base_name.removeprefix(before)
        for one in found
        if one.base_name.startswith(before) and not one.is_file
    )


def is_of_several(root: str) -> bool:
    """True if ``root`` has tables of a list of clusters, False if it has those of one or none."""
    files, path = opened(root)
    one, several = files.get_file_info([f"{path}/{MANIFEST}", f"{path}/{SOURCES}"])
    return not one.is_file and (several.is_file or bool(clusters_at(root)))


def check_root(root: str, *, several: bool) -> None:
    """Raise TablesError if ``root`` has tables of the other kind, and ValueError if it shall have
    those of several sources and is on a file system without locks.
    """
    files, path = opened(root)
    if several and not isinstance(files, fs.LocalFileSystem):
        raise ValueError(
            f"{root}: the tables of a list of sources need a file system with locks, such as a disk"
            " or NFS"
        )
    if several and files.get_file_info(f"{path}/{MANIFEST}").is_file:
        raise TablesError(
            f"{root} has tables of one source: take another directory for a list of sources"
        )
    if not several and is_of_several(root):
        raise TablesError(
            f"{root} has tables of a list of sources: give a list, or take another directory"
        )


def opened(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of ``path``, and its name there."""
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
        path.rstrip("/") if "://" in path else os.path.abspath(path)
    )
    return found
