"""Tracks the download of one snapshot, chunk by chunk (KIP-630).

It does not know the leader that sends the chunks or the file that they are written to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.quorum.effects import SnapshotChunk
from gateway.quorum.response_checks import InvalidResponse
from kwire.messages.fetch_snapshot_response import PartitionSnapshot
from kwire.metadata_log.snapshot_id import SnapshotId

#: Responses in a row without a byte after which the download is abandoned. A leader that has the
#: file sends at least one byte each time.
_EMPTY_MAX: Final = 3


class Download:
    """The bytes of ``id`` up to ``position``; ``size`` is None until the first response names
    it.
    """

    __slots__ = ("_empty", "id", "position", "size", "token", "written_first")

    def __init__(self, id: SnapshotId) -> None:
        self.id = id
        self.position = 0
        self.size: int | None = None
        self._empty = 0
        self.token = 0  #: of the write of the last chunk
        #: The token of the chunk before it, which is on disk before the next one is asked for: a
        #: fast leader and a slow disk would otherwise fill the memory.
        self.written_first = 0

    @property
    def complete(self) -> bool:
        """Whether every byte has come."""
        # Kafka's leader answers POSITION_OUT_OF_RANGE to a position that equals the size, so the
        # end of a snapshot is known from its size and not from an empty response.
        return self.position == self.size

    def take(
        self, partition: PartitionSnapshot, next_token: Callable[[], int]
    ) -> SnapshotChunk | None:
        """Return the chunk in an error-free response, None for one without bytes.

        Raises InvalidResponse if it is not the next chunk, if the size changed, or after
        ``_EMPTY_MAX`` responses without bytes.
        """
        got = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        # Kafka throws IllegalStateException in both cases, which ends the process.
        if got != self.id or partition.position != self.position:
            raise InvalidResponse(
                f"bytes of snapshot {got} at {partition.position} where {self.id} at "
                f"{self.position} was asked for"
            )
        data = partition.unaligned_records or b""
        size = partition.size
        # A frozen snapshot never changes its size. A second size means another file under the same
        # id, and its bytes would be appended to those of the first.
        if size < 1 or size != (self.size or size) or self.position + len(data) > size:
            raise InvalidResponse(
                f"{len(data)} bytes at {self.position} of snapshot {self.id} of {size} bytes, "
                f"before said to be {self.size}"
            )
        if not data:
            self._empty += 1
            if self._empty >= _EMPTY_MAX:
                raise InvalidResponse(
                    f"{self._empty} answers without a byte of snapshot {self.id} at "
                    f"{self.position} of {size}"
                )
            return None
        self._empty = 0
        self.size = size
        self.written_first, self.token = self.token, next_token()
        chunk = SnapshotChunk(self.position, data, size, self.token)
        self.position += len(data)
        return chunk
