"""Says where tables can be: in a directory of this machine or of a file system that it mounts. It
knows no Spark.
"""

from __future__ import annotations

import os
import re
from typing import Final

#: The first column of each table, by which ``kwire.spark.fleet`` tells clusters apart.
CLUSTER: Final = "cluster_id"
#: The command for what these tables are not for.
FLEET: Final = "kwire spark fleet (kwire.spark.fleet.keep)"
#: A scheme has two letters at least: one letter is a drive.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
#: The file with which tables of a list of clusters began in release 0.2.
_SOURCES: Final = "sources.json"


def directory_of(path: str) -> str:
    """The directory that ``path`` names, which may be ``file:...``. Raises ValueError for a path
    that is not a file's, such as ``s3a://bucket/tables``, and for tables of a list of clusters.
    """
    found = _SCHEME.fullmatch(path)
    if found and found[1].lower() != "file":
        raise ValueError(
            f"{path}: these tables are files of this machine or of a file system that it mounts;"
            f" tables at {found[1]}: are kept by {FLEET}, because Spark writes them"
        )
    directory = os.path.abspath(re.sub("^//(?=/)", "", found[2]) if found else path)
    if _is_of_several(directory):
        raise ValueError(
            f"{path} has the tables of a list of clusters, which kwire 0.2 wrote: this release does"
            f" not read them; build them anew with {FLEET}"
        )
    return directory


def _is_of_several(directory: str) -> bool:
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    return _SOURCES in names or any(name.startswith(f"{CLUSTER}=") for name in names)
