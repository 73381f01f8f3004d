"""Stores how far a log was synced, so that the next start can report a log that was shortened.

The file has one decimal offset. It never exceeds what is on disk: it is replaced after each sync
that it describes, and removed before the log is rewritten. A missing or unreadable file gives no
warning, and failures to write it are ignored, because nothing else depends on it. It does not limit
recovery, as Kafka's ``recovery-point-offset-checkpoint`` does.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from kwire.metadata_log.open_file import open_regular, read_regular

#: Name of the file in the log's directory.
END_CHECKPOINT: Final = "synced-end-offset"
_BYTES_MAX: Final = 32


def read_end(directory: Path) -> int | None:
    """Return the end offset that was stored last, or None."""
    try:
        # A longer file is not one of this kind; it fails the test below.
        text = read_regular(directory / END_CHECKPOINT, _BYTES_MAX)
    except OSError:
        return None
    return int(text) if text.endswith(b"\n") and text[:-1].isdigit() else None


def write_end(directory: Path, end_offset: int) -> None:
    """Store ``end_offset``; everything below it must be on disk."""
    path = directory / END_CHECKPOINT
    with contextlib.suppress(OSError):
        # Without a sync: a power failure may leave an older offset, which only makes the warning
        # come less often.
        temporary = path.with_name(END_CHECKPOINT + ".tmp")
        file = open_regular(str(temporary), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with open(file, "wb") as opened:
            opened.write(b"%d\n" % end_offset)
        os.replace(temporary, path)


def remove_end(directory: Path) -> None:
    """Remove the file, before the log may become shorter."""
    with contextlib.suppress(OSError):
        os.unlink(directory / END_CHECKPOINT)
