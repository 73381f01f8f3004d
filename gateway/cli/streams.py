"""Prepares the command's standard streams, so that no subcommand has to handle their failures.

Standard output that cannot be written raises :class:`OutputFailed`. That is no OSError, because
subcommands report an OSError as the failure of the file they read. Standard error that cannot be
written is ignored: an error has no other way to be shown. Descriptors 0 to 2 that the parent
process closed are opened, so that no file or socket of the command takes their place.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ERRORS: Final = "kwire.json_escape"
_ADVICE: Final = {
    errno.EBADF: ": it is closed; send it to a file, a pipe or /dev/null",
    errno.ENOSPC: ": free some space there, or send it to another place",
}
#: Descriptor to open mode. Input and output are opened the wrong way round: reading the one and
#: writing the other fail with EBADF, as they would if the descriptor were still closed. Output to
#: standard error is discarded.
_MODES: Final = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}


class OutputFailed(Exception):
    """Standard output could not be written. ``errno`` is the system's reason."""

    def __init__(self, error: OSError) -> None:
        self.errno = error.errno
        advice = _ADVICE.get(error.errno or 0, "")
        super().__init__(f"cannot write to standard output: {error.strerror}{advice}")

    @property
    def reader_is_gone(self) -> bool:
        """Whether the output is a pipe whose reader has closed it."""
        return self.errno == errno.EPIPE


class _Output(io.FileIO):
    """Descriptor 1. Waits where it is non-blocking, raises OutputFailed once, and discards what
    comes after that.
    """

    _failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        if self._failed:
            return memoryview(data).nbytes
        try:
            while (written := super().write(data)) is None:
                select.select([], [self], [])
            return written
        except OSError as error:
            self._failed = True
            raise OutputFailed(error) from None


class _ErrorOutput(io.FileIO):
    """Descriptor 2. Discards what cannot be written."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            written = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written


def prepare_streams() -> None:
    """Open closed descriptors and replace ``sys.stdout`` and ``sys.stderr``. Streams that a test or
    caller set are left alone.
    """
    codecs.register_error(_ERRORS, _json_escape)
    for descriptor, mode in _MODES.items():
        _open_if_closed(descriptor, mode)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout, _ERRORS)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_ErrorOutput(2, "w", closefd=False), sys.stderr, "backslashreplace")


def _open_if_closed(descriptor: int, mode: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, mode)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)


def _text(raw: io.FileIO, before: TextIO | None, errors: str) -> TextIO:
    if before is not None:
        before.flush()
    encoding = before.encoding if before is not None else "utf-8"
    line_buffering = raw.isatty() or raw.fileno() == 2
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=line_buffering
    )


def _json_escape(error: UnicodeError) -> tuple[str, int]:
    """Characters that the output's encoding lacks, as ``\\uXXXX``: JSON lines stay JSON in every
    locale.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end
