"""Indexes the batches of one segment or snapshot, checking every one that another process wrote.
Decodes no record.

One entry is a *block*: the batches that begin within 4 KiB of each other, as many as one small read
returns (``segment_slice``). A log of a million records written at idle times takes some hundred
kilobytes of memory. Arrays only grow at their end, so one thread may scan while readers use the
entries that were there before; whatever shortens an index makes a new one. Kafka's ``OffsetIndex``
and ``TimeIndex`` files are not used: they may be missing or behind, and they are in no snapshot.
Follows ``OffsetIndex.lookup``.
"""

from __future__ import annotations

import bisect
import enum
import struct
import time
from array import array
from dataclasses import replace
from typing import Final

import crc32c

from gateway.base.sizes import KIB
from gateway.log.files.problem import Problem
from gateway.log.segments.batch_check import HEADER, Tail, bad_header, misplaced, wrong_crc
from gateway.log.segments.segment_slice import SegmentSlice, Slot
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import OpenFile
from kwire.records.header import BATCH_OVERHEAD, CRC_START, LOG_OVERHEAD

#: Bytes read at once while scanning.
CHUNK_BYTES: Final = 128 * KIB
#: The cost of one batch beside its bytes, in bytes checked, so that a step over small batches takes
#: no longer than one over large ones.
BATCH_COST_BYTES: Final = 2048

_HEAD: Final = struct.Struct(">qiixI")  # base offset, length, partition leader epoch, CRC
_LOWEST: Final = -(1 << 63)
_ANY_OFFSET: Final = -1
_UNSETTLED: Final = (-1, -1)
_NO_TIMESTAMP: Final = -1
#: File systems store times in ticks of up to 10 ms: a second change within the tick of the first
#: does not change the time.
TICK_NS: Final = 20_000_000


#: Bytes of batch starts that one entry covers (the default of ``index.interval.bytes``).
BLOCK_BYTES: Final = 4096


class Status(enum.Enum):
    """How far a scan came."""

    BEHIND = "behind"  #: there is more to check
    AT_END = "at end"  #: every byte of the file is indexed
    TORN = "torn"  #: the file ends inside a batch: still being written, or cut off
    CORRUPT = "corrupt"  #: a damaged batch; nothing behind it is read


class BatchIndex:
    """The index of one file. Offsets are those in the file.

    ``base_offset`` is the offset that the first batch must have (None: any). Batches wholly below
    ``floor``, the log start, are checked but not indexed.
    """

    __slots__ = (
        "_checksums",
        "_last",
        "_seen",
        "base_offset",
        "block_max",
        "end",
        "epochs",
        "file",
        "floor",
        "next_offset",
        "offsets",
        "positions",
        "problem",
        "running_max",
        "status",
    )

    def __init__(self, file: OpenFile, base_offset: int | None, floor: int = 0) -> None:
        self.file = file
        # Arrays of machine integers: a list of Python integers takes about eight times as much.
        self.offsets = array("q")  #: first offset of each block
        self.positions = array("Q")  #: its position
        self.block_max = array("q")  #: its largest timestamp
        self.running_max = array("q")  #: the largest timestamp up to its end
        self.epochs: list[tuple[int, int]] = []  #: (epoch, first indexed offset of it)
        self.base_offset = base_offset
        self.floor = floor
        self.status = Status.BEHIND
        #: The fault at ``end``; set when the status is TORN or CORRUPT.
        self.problem: Problem | None = None
        self.end = 0  #: position behind the last batch that was checked
        self.next_offset = base_offset or 0
        self._checksums = array("I")  # of the first batch of each block
        self._last = (0, b"")  # position and header bytes of the last batch
        # Size and change time of the file when it was last scanned to its end.
        self._seen = _UNSETTLED

    # --- scanning
    # ---------------------------------------------------------------------------------------------

    def scan(self, budget: int) -> int:
        """Check and index further batches until the end, a fault, or about ``budget`` bytes of
        work.

        Returns the work done. ``status`` and ``problem`` say how it ended. Raises OSError.
        """
        seen, now = self.file.status(), time.time_ns()
        done = 0
        self.status, self.problem = Status.BEHIND, None
        while self.status is Status.BEHIND and done < budget:
            # With the size from before the scan: a file that grows meanwhile is read by the next
            # step.
            if self.end >= seen[0]:
                self.status = Status.AT_END
            else:
                done += self._scan_chunk(seen[0])
        if self.status is not Status.BEHIND:
            # A file that was written within the last tick may be written again without a new time:
            # such a status proves nothing, and the next step reads the file again.
            self._seen = seen if now - seen[1] > TICK_NS else _UNSETTLED
        return max(done, 1)

    def _scan_chunk(self, size: int) -> int:
        data = self.file.read(self.end, min(CHUNK_BYTES, size - self.end))
        taken, batches = self._take(data)
        if taken == 0 and self.status is Status.BEHIND:
            taken = self._take_large(data, size)
        return taken + batches * BATCH_COST_BYTES

    def _take(self, data: bytes) -> tuple[int, int]:
        """Index the whole batches at the start of ``data``: (bytes, batches).

        This is the hot loop when a large log is opened. Most batches follow in the same block and
        epoch; of those only the largest timestamp is noted, in local variables.
        """
        unpack, crc_of, view, limit = (
            HEADER.unpack_from,
            crc32c.crc32c,
            memoryview(data),
            len(data),
        )
        base, last, position, batches = self.end, -1, 0, 0
        expected, current_epoch, block_end, latest = self._marks(base)
        while limit - position >= BATCH_OVERHEAD:
            offset, length, epoch, magic, crc, _, delta, _, max_timestamp = unpack(data, position)
            end = position + LOG_OVERHEAD + length
            # Before the CRC, because the length says how far that reads.
            if end > limit or magic != 2 or end - position < BATCH_OVERHEAD:
                break
            if crc_of(view[position + CRC_START : end]) != crc:
                break
            if (
                offset == expected
                and epoch == current_epoch
                and delta >= 0
                and position < block_end
            ):
                expected = offset + delta + 1
                if max_timestamp > latest:
                    latest = max_timestamp
            else:
                self._note(base + position, expected, latest)
                if not self._follows(offset, delta, epoch):
                    break
                self._add(offset, delta, epoch, crc, max_timestamp, end - position)
                expected, current_epoch, block_end, latest = self._marks(base)
            last, position, batches = position, end, batches + 1
        self._note(base + position, expected, latest)
        if last >= 0:
            self._last = (base + last, bytes(view[last : last + BATCH_OVERHEAD]))
        if self.status is Status.BEHIND and limit - position >= BATCH_OVERHEAD:
            self._explain(data, position)
        return position, batches

    def _marks(self, base: int) -> tuple[int, int | None, int, int]:
        """Return the values that the hot loop compares with: next offset, epoch, end of the block
        counted from ``base``, largest timestamp of the block.
        """
        # No block yet: the first batch goes the long way, which begins one.
        if not self.positions:
            return self.next_offset, None, 0, _LOWEST
        return (
            self.next_offset,
            self.epochs[-1][0],
            self.positions[-1] + BLOCK_BYTES - base,
            self.block_max[-1],
        )

    def _note(self, end: int, next_offset: int, latest: int) -> None:
        """Store how far the hot loop came."""
        self.end, self.next_offset = end, next_offset
        if self.positions and latest > self.block_max[-1]:
            self.block_max[-1] = latest
            self.running_max[-1] = max(self.running_max[-1], latest)

    def _explain(self, data: bytes, position: int) -> None:
        """Set the fault of the batch at ``position``, where the index ends; none if the batch goes
        beyond ``data``.
        """
        offset, length, _, magic, *_ = HEADER.unpack_from(data, position)
        if magic != 2 or length < BATCH_OVERHEAD - LOG_OVERHEAD:
            self._refuse_header(data, position, magic, length)
        elif position + LOG_OVERHEAD + length <= len(data):
            self._refuse(wrong_crc(LOG_OVERHEAD + length, offset, self.end))

    def _take_large(self, data: bytes, size: int) -> int:
        """Index the one batch at ``end`` that is larger than a chunk, computing its CRC in pieces;
        or report it as torn.
        """
        left = size - self.end
        if len(data) < BATCH_OVERHEAD:
            self._torn(f"{left} bytes, less than a batch header")
            return 0
        offset, length, epoch, _, crc, _, delta, _, max_timestamp = HEADER.unpack_from(data)
        batch: int = LOG_OVERHEAD + length
        if batch > left:
            self._torn(f"{left} of the {batch} bytes of the batch at offset {offset}")
            return 0
        # In pieces: the length of a batch is an int32, so that one may have 2 GiB.
        if self._crc(data[CRC_START:], batch) != crc:
            self._refuse(wrong_crc(batch, offset, self.end))
        elif self._follows(offset, delta, epoch):
            self._last = (self.end, data[:BATCH_OVERHEAD])
            self._add(offset, delta, epoch, crc, max_timestamp, batch)
        return batch

    def _crc(self, head: bytes, batch: int) -> int:
        crc = crc32c.crc32c(head)
        position, stop = self.end + CRC_START + len(head), self.end + batch
        while position < stop:
            piece = self.file.read(position, min(CHUNK_BYTES, stop - position))
            if not piece:
                break  # the file shrank: the CRC will differ, and the next scan sees the new size
            crc = crc32c.crc32c(piece, crc)
            position += len(piece)
        return int(crc)

    def _follows(self, offset: int, delta: int, epoch: int) -> bool:
        # A file without a known base, such as a snapshot under any name, begins with any offset.
        is_known = self.end or self.base_offset is not None
        tail = Tail(
            self.next_offset if is_known else _ANY_OFFSET,
            self.epochs[-1][0] if self.epochs else _LOWEST,
        )
        fault = misplaced(offset, delta, epoch, tail, self.end)
        if fault is not None:
            self._refuse(fault)
        return fault is None

    def _add(
        self, offset: int, delta: int, epoch: int, crc: int, max_timestamp: int, size: int
    ) -> None:
        position, self.end, self.next_offset = self.end, self.end + size, offset + delta + 1
        # Checked all the same: the batches above it continue from here.
        if self.next_offset <= self.floor:
            return
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, offset))
        positions = self.positions
        if not positions or position - positions[-1] >= BLOCK_BYTES:
            before = self.running_max[-1] if positions else _LOWEST
            # The position first: readers in other threads look it up by one of the others.
            positions.append(position)
            self._checksums.append(crc)
            self.block_max.append(max_timestamp)
            self.running_max.append(max(before, max_timestamp))
            self.offsets.append(offset)
        elif max_timestamp > self.block_max[-1]:
            self.block_max[-1] = max_timestamp
            self.running_max[-1] = max(self.running_max[-1], max_timestamp)

    def _refuse_header(self, data: bytes, position: int, magic: int, length: int) -> None:
        if not any(data[position:]):
            # After a power failure a file can have its new length and zeros instead of its bytes
            # (delayed allocation). Kafka truncates them at start.
            self._torn("zeros, as after a crash of the machine")
        else:
            self._refuse(bad_header(magic, length, self.end))

    def _refuse(self, fault: DecodeError) -> None:
        self.status = Status.CORRUPT
        self.problem = Problem(self.file.path, self.end, fault.reason)

    def _torn(self, reason: str) -> None:
        self.status, self.problem = (
            Status.TORN,
            Problem(self.file.path, self.end, f"incomplete: {reason}"),
        )

    # --- changes by the writer
    # -------------------------------------------------------------------------------------

    def maybe_changed(self) -> bool:
        """Whether the file changed since it was last scanned to its end, or may have changed within
        one tick. Raises OSError.
        """
        return self.file.status() != self._seen

    def intact(self) -> bool:
        """Whether the last indexed batch is still in its place.

        By Raft's log matching property (same offset and epoch) everything before it is then
        unchanged too.
        """
        position, header = self._last
        return self.file.status()[0] >= self.end and self.file.read(position, len(header)) == header

    def rewound(self) -> BatchIndex:
        """Return a new index of the part of this one that is still in a file that was truncated and
        perhaps rewritten.
        """
        size = self.file.status()[0]
        low, high = 0, len(self.positions)
        while low < high:  # blocks before ``low`` still begin with the indexed batch
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._block_stands(middle, size) else (low, middle)
        copy = BatchIndex(self.file, self.base_offset, self.floor)
        if low > 0:  # the last of them may have lost batches behind its first one: scan it again
            copy._take_blocks(self, 0, low - 1)
            # Back to the start of that block, which ``scan`` reads again.
            copy.end, copy.next_offset = self.positions[low - 1], self.offsets[low - 1]
            copy.epochs = [entry for entry in self.epochs if entry[1] < copy.next_offset]
        return copy

    def with_floor(self, floor: int) -> BatchIndex:
        """Return a new index without the batches wholly below ``floor``, the new log start."""
        copy = BatchIndex(self.file, self.base_offset, floor)
        if self.next_offset > floor and self.positions:
            block = max(0, bisect.bisect_right(self.offsets, floor) - 1)
            rest = self._block(block, floor)
            head = self.file.read(rest[0].position, CRC_START) if rest else b""
            if len(head) < CRC_START:
                return copy  # the file was rewritten: the caller scans it from its beginning
            copy._open_block(
                rest[0], _HEAD.unpack(head)[3], max(slot.max_timestamp for slot in rest)
            )
            copy._take_blocks(self, block + 1, len(self.positions))
            copy.epochs = _epochs_from(self.epochs, copy.offsets[0])
        copy.end, copy.next_offset, copy.status, copy.problem = (
            self.end,
            self.next_offset,
            self.status,
            self.problem,
        )
        copy._last, copy._seen = self._last, self._seen
        return copy

    def _block_stands(self, block: int, file_size: int) -> bool:
        """Return whether a block still begins with the batch that was indexed, and that batch is
        whole.
        """
        head = self.file.read(self.positions[block], CRC_START)
        if len(head) < CRC_START:
            return False
        offset, length, epoch, checksum = _HEAD.unpack(head)
        known = (self.offsets[block], self.epoch_at(self.offsets[block]), self._checksums[block])
        return (offset, epoch, checksum) == known and self.positions[
            block
        ] + LOG_OVERHEAD + length <= file_size

    def _block(self, block: int, floor: int) -> list[Slot]:
        """Return the batches of a block that end above ``floor``."""
        whole, stop = self.slice(), self.positions[block + 1 : block + 2]
        assert whole is not None, "a block has a batch"
        end = stop[0] if stop else self.end
        slots = replace(whole, end=end).slots(self.positions[block])
        return [slot for slot in slots if slot.next_offset > floor]

    def _open_block(self, slot: Slot, checksum: int, max_timestamp: int) -> None:
        self.offsets.append(slot.offset)
        self.positions.append(slot.position)
        self._checksums.append(checksum)
        self.block_max.append(max_timestamp)
        self.running_max.append(max_timestamp)

    def _take_blocks(self, other: BatchIndex, start: int, stop: int) -> None:
        largest = self.running_max[-1] if self.running_max else _LOWEST
        self.offsets.extend(other.offsets[start:stop])
        self.positions.extend(other.positions[start:stop])
        self._checksums.extend(other._checksums[start:stop])
        self.block_max.extend(other.block_max[start:stop])
        for one in other.block_max[start:stop]:
            largest = max(largest, one)
            self.running_max.append(largest)

    # --- look-ups
    # ---------------------------------------------------------------------------------------------

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the batch that holds ``offset``; -1 below the first."""
        at = bisect.bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[at - 1][0] if at else -1

    def slice(self, shift: int = 0, log_start: int = 0) -> SegmentSlice | None:
        """Return everything indexed so far, for readers; None without a batch. ``shift`` is added
        to an offset in the file, and the log starts at ``log_start``.
        """
        if not self.positions:
            return None
        return SegmentSlice(
            file=self.file,
            index=self,
            shift=shift,
            start_offset=max(self.offsets[0] + shift, log_start),
            end_offset=self.next_offset + shift,
            first_offset=self.offsets[0] + shift,
            start=self.positions[0],
            end=self.end,
            max_timestamp=self.running_max[-1],
        )

    def position_before(self, offset: int) -> int:
        """As ``SparseIndex.position_before``."""
        return self.positions[max(bisect.bisect_right(self.offsets, offset) - 1, 0)]

    def position_near(self, offset: int) -> int:
        """As ``SparseIndex.position_near``."""
        return self.position_before(offset)

    def position_at(self, position: int) -> int:
        """As ``SparseIndex.position_at``."""
        return self.positions[max(bisect.bisect_right(self.positions, position) - 1, 0)]

    def position_of_time(self, timestamp: int) -> int:
        """As ``SparseIndex.position_of_time``."""
        block = bisect.bisect_left(self.running_max, timestamp)
        return self.positions[min(block, len(self.positions) - 1)]

    def latest_before(self, position: int) -> int:
        """As ``SparseIndex.latest_before``."""
        block = bisect.bisect_left(self.positions, position)
        return self.running_max[block - 1] if block else _NO_TIMESTAMP


def _epochs_from(epochs: list[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
    """Return the epochs from ``offset`` on; the one that holds ``offset`` begins there."""
    kept = [entry for entry in epochs if entry[1] > offset]
    held = [entry for entry in epochs if entry[1] <= offset]
    return [(held[-1][0], offset), *kept] if held else kept
