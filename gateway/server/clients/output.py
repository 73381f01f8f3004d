"""What one connection still has to send, in order: bytes, and ranges of files that go from the page
cache to the socket.

It never waits: :meth:`Output.send` sends what the socket takes now. Knows nothing of messages.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from gateway.ports import FileRange, FileRecords, Read

#: Shorter ranges are read and sent with the bytes around them: one system call less than sendfile,
#: and it costs less than setting one up (sendfile wins from about here on).
COPY_MAX: Final = 16 * 1024
#: Bytes that one send call may gather, and one call of sendfile may read from disk while the loop
#: waits.
_GATHER_MAX: Final = 256 * 1024
_SENDFILE_MAX: Final = 1024 * 1024
#: After so many bytes the others get their turn, however fast this peer reads.
_TURN_MAX: Final = 2 * 1024 * 1024
#: "More follows at once": Linux then puts the bytes before a range into one packet with it.
_MORE: Final = getattr(socket, "MSG_MORE", 0)


class FileTooShort(OSError):
    """A file no longer has the bytes that were promised: its log was cut under us."""


class SharedBytes:
    """Bytes of an answer that several connections may send: ``chunks`` of some 64 KiB, or a little
    more.

    ``freed`` is called with their number when the last holder has released them.
    """

    __slots__ = ("_freed", "_holders", "chunks", "size")

    def __init__(self, chunks: list[bytes], freed: Callable[[int], None]) -> None:
        self.chunks = chunks
        self.size = sum(map(len, chunks))
        self._freed = freed
        self._holders = 0

    def __len__(self) -> int:
        return self.size

    def hold(self) -> None:
        """One more holder."""
        self._holders += 1

    def release(self) -> None:
        """One holder less."""
        self._holders -= 1
        if not self._holders:
            self.chunks = []
            self._freed(self.size)


class Output:
    """The queue. ``unsent`` counts its bytes in memory (ranges of files cost none), ``shared``
    those in SharedBytes among them that are not wholly sent.
    """

    __slots__ = ("_items", "_sock", "progress", "shared", "unsent")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # bytes and memoryviews | FileRange | a callable: release the read whose last chunk was
        # before it
        self._items: deque[Any] = deque()
        self.unsent = 0
        self.shared = 0
        self.progress = 0  #: bytes sent so far, for those who look whether anything moves

    def __bool__(self) -> bool:
        return bool(self._items)

    def is_longer_than(self, size: int) -> bool:
        """Whether more than ``size`` bytes in memory, or a range of a file, are to be sent next."""
        return self.unsent > size or (bool(self._items) and type(self._items[0]) is FileRange)

    def add(self, parts: Iterable[Any]) -> None:
        """Queue the parts of one answer: bytes-like, Spliced or SharedBytes. Raises FileTooShort."""
        memory: list[Any] = []
        for part in parts:
            if type(part) is FileRecords:
                self._splice(part.read, memory)
            elif type(part) is SharedBytes:
                self._share(part, memory)
            else:
                memory.append(part)
        self._flush_memory(memory)

    def send(self) -> bool:
        """Send what the socket takes now; true if nothing is left. Raises OSError if the peer is
        gone, FileTooShort.
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
        """Forget what is left, releasing the reads in it."""
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

    def _splice(self, read: Read, memory: list[Any]) -> None:
        held = False
        try:
            for chunk in read.chunks:
                if not isinstance(chunk, FileRange):
                    memory.append(chunk)
                    # A view may be of something that ends with the read, as a mapped file does.
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
        """Send the bytes at the head, gathered; false if the socket took only some of them."""
        items = self._items
        data = items.popleft()
        # Answers of pipelined requests go out together: worth a factor of three.
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
            raise FileTooShort(
                f"{item.length} bytes promised from position {item.position} are not there any more"
            )
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
        raise FileTooShort(
            f"{chunk.length} bytes promised from position {chunk.position} are not there any more"
        )
    return data
