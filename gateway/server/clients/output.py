"""Queues the output of one connection, and sends it in order: bytes, and ranges of files.

Ranges go from the page cache to the socket (sendfile). :meth:`Output.send` never waits: it sends
what the socket takes now. It knows nothing of messages.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from gateway.base.sizes import KIB, MIB
from gateway.ports.services import FileRange, FileRecords, Read

#: Shorter ranges are read and sent with the bytes around them, which saves a system call and the
#: setup of sendfile: up to about this size it is faster.
COPY_MAX: Final = 16 * KIB
#: Bytes that one send call may gather, and that one call of sendfile may read from disk, while the
#: event loop waits.
_GATHER_MAX: Final = 256 * KIB
_SENDFILE_MAX: Final = MIB
#: After so many bytes other connections run, however fast this peer reads.
_TURN_MAX: Final = 2 * MIB
#: Announces more bytes: Linux then puts the bytes before a range into one packet with it.
_MORE: Final = getattr(socket, "MSG_MORE", 0)


class FileTooShort(OSError):
    """A file no longer has the bytes that the response announces: its log was truncated."""

    def __init__(self, missing: FileRange) -> None:
        super().__init__(
            f"{missing.length} bytes from position {missing.position} were announced,"
            " and the file does not have them any more"
        )


class SharedBytes:
    """Bytes of a response that several connections send, in ``chunks`` of up to about 64 KiB.

    ``freed`` is called when the last holder has released them.
    """

    __slots__ = ("_freed", "_holders", "chunks", "size")

    def __init__(self, chunks: list[bytes], freed: Callable[[], None]) -> None:
        self.chunks = chunks
        self.size = sum(map(len, chunks))
        self._freed = freed
        self._holders = 0

    def __len__(self) -> int:
        return self.size

    def hold(self) -> None:
        """Add a holder."""
        self._holders += 1

    def release(self) -> None:
        """Remove a holder."""
        self._holders -= 1
        if not self._holders:
            self.chunks = []
            self._freed()


class Output:
    """The queue of one connection.

    ``unsent`` counts its bytes in memory, without ranges of files. ``shared`` counts those among
    them that are in SharedBytes, until the whole SharedBytes is sent.
    """

    __slots__ = ("_items", "_sock", "progress", "shared", "unsent")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # bytes and memoryviews | FileRange | a callable, which releases the read before it
        self._items: deque[Any] = deque()
        self.unsent = 0
        self.shared = 0
        self.progress = 0  #: bytes sent so far; the caller compares it to see progress

    def __bool__(self) -> bool:
        return bool(self._items)

    def is_longer_than(self, size: int) -> bool:
        """Whether more than ``size`` bytes in memory, or a range of a file, come next."""
        return self.unsent > size or (bool(self._items) and type(self._items[0]) is FileRange)

    def add(self, parts: Iterable[Any]) -> None:
        """Queue the parts of one response: bytes-like, FileRecords or SharedBytes.

        Raises FileTooShort for a short range of a file, which is read at once.
        """
        memory: list[Any] = []
        for part in parts:
            if type(part) is FileRecords:
                self._add_records(part.read, memory)
            elif type(part) is SharedBytes:
                self._share(part, memory)
            else:
                memory.append(part)
        self._flush_memory(memory)

    def send(self) -> bool:
        """Send what the socket takes now; True if nothing is left.

        Raises FileTooShort, and OSError if the peer has disconnected.
        """
        items, end = self._items, self.progress + _TURN_MAX
        try:
            while items:
                if self.progress >= end:
                    return False
                item = items[0]
                if type(item) is FileRange:
                    if not self._send_range(item):
                        return False
                elif callable(item):
                    items.popleft()()
                elif not self._send_memory():
                    return False
        except BlockingIOError:
            return False
        return True

    def discard(self) -> None:
        """Drop everything that is queued, and release its reads."""
        items, self._items = self._items, deque()
        self.unsent = 0
        for item in items:
            if callable(item):
                item()

    def _share(self, part: SharedBytes, memory: list[Any]) -> None:
        self._flush_memory(memory)
        self._items.extend(part.chunks)
        self.unsent += part.size
        self.shared += part.size
        part.hold()

        def sent() -> None:
            self.shared -= part.size
            part.release()

        self._items.append(sent)

    def _add_records(self, read: Read, memory: list[Any]) -> None:
        held = False
        try:
            for chunk in read.chunks:
                if not isinstance(chunk, FileRange):
                    memory.append(chunk)
                    # A view may be of memory that ends with the read, as a mapped file does.
                    held = held or not isinstance(chunk, bytes)
                elif chunk.length <= COPY_MAX:
                    memory.append(_read(chunk))
                else:
                    self._flush_memory(memory)
                    self._items.append(chunk)
                    held = True
        except BaseException:
            read.release()
            raise
        if held:
            self._flush_memory(memory)
            self._items.append(read.release)
        else:
            read.release()

    def _flush_memory(self, memory: list[Any]) -> None:
        if memory:
            data = memory[0] if len(memory) == 1 else b"".join(memory)
            self._items.append(data)
            self.unsent += len(data)
            memory.clear()

    def _send_memory(self) -> bool:
        """Send the bytes at the head of the queue; False if the socket took only some of them."""
        items = self._items
        data = items.popleft()
        # Gathering the responses to pipelined requests makes them three times as fast.
        if items and len(data) < _GATHER_MAX and _is_memory(items[0]):
            gathered = [data]
            size = len(data)
            while items and _is_memory(items[0]) and size < _GATHER_MAX:
                gathered.append(items.popleft())
                size += len(gathered[-1])
            data = b"".join(gathered)
        more = _MORE if items and type(items[0]) is FileRange else 0
        try:
            sent = self._sock.send(data, more)
        except BaseException:
            items.appendleft(data)
            raise
        self._moved(sent)
        self.unsent -= sent
        if sent < len(data):
            items.appendleft(memoryview(data)[sent:])
            return False
        return True

    def _send_range(self, item: FileRange) -> bool:
        sent = os.sendfile(
            self._sock.fileno(), item.fd, item.position, min(item.length, _SENDFILE_MAX)
        )
        if sent == 0:
            raise FileTooShort(item)
        self._moved(sent)
        self._items.popleft()
        if sent < item.length:
            self._items.appendleft(FileRange(item.fd, item.position + sent, item.length - sent))
        return True

    def _moved(self, sent: int) -> None:
        self.progress += sent


def _is_memory(item: Callable[[], None] | Any) -> bool:
    return isinstance(item, (bytes, memoryview))


def _read(chunk: FileRange) -> bytes:
    data = os.pread(chunk.fd, chunk.length, chunk.position)
    if len(data) < chunk.length:
        raise FileTooShort(chunk)
    return data
