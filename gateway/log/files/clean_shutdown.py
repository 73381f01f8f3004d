"""Reads and writes ``.kafka_cleanshutdown``: the broker epoch of a broker that stopped cleanly
(``CleanShutdownFileHandler``, KIP-966).

The file exists only while no broker runs on the directory: a broker that starts removes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk, doing
from kwire.metadata_log.open_file import read_regular

FILE_NAME: Final = ".kafka_cleanshutdown"
_BYTES_MAX: Final = 4096
#: Of a broker that did not stop cleanly, or of a release that wrote no epoch.
UNKNOWN_EPOCH: Final = -1


def take_clean_shutdown(data_dir: Path, disk: Disk) -> int:
    """Return the broker epoch in the file, and remove it; -1 if there is none, or none that can be
    read. Raises DiskFailed.
    """
    path = data_dir / FILE_NAME
    with doing("read", path):
        try:
            found = json.loads(read_regular(path, _BYTES_MAX))
            epoch = found["brokerEpoch"]
        except FileNotFoundError:
            return UNKNOWN_EPOCH
        except (ValueError, KeyError, TypeError):
            epoch = UNKNOWN_EPOCH
    disk.remove(path)
    disk.sync_directory(data_dir)
    return epoch if type(epoch) is int else UNKNOWN_EPOCH


def write_clean_shutdown(data_dir: Path, disk: Disk, broker_epoch: int) -> None:
    """Note that every log is on disk and closed. Raises DiskFailed."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.replace(data_dir / FILE_NAME, content.encode())
