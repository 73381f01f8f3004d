"""Reads the log of a directory forward from an offset, up to a limit, one chunk at a time.

Blocking; builds no index. Batches that this process appended a moment ago come from its memory
(``recent_batches``), all others from the files. It is made for a reader that stays below the high
watermark: those batches never change, so a position in a segment stays valid while the batches
above are truncated and written again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gateway.log.metadata.listing import list_directory
from gateway.log.reading.recent_batches import AppendedBatches, RecentBatches
from gateway.log.segments.offset_index import position_near
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile
from kwire.metadata_log.reader import BATCH_BYTES_MAX
from kwire.records.batch import decode_chunks
from kwire.records.header import BATCH_OVERHEAD, BatchHeader, read_header
from kwire.records.uniform_records import RecordChunk, records_of

Batch = tuple[BatchHeader, Sequence[RecordChunk]]
_Readable = OpenFile | AppendedBatches


class LogGap(Exception):
    """The log does not continue at the cursor's offset: it was cleaned, or replaced by a snapshot
    (KIP-630).
    """


class LogCursor:
    """``next_offset`` is the first offset not returned yet. It need not exist before ``read``."""

    def __init__(
        self, directory: str, next_offset: int, recent: RecentBatches | None = None
    ) -> None:
        """``recent``: what this process appended last, if it writes the log."""
        self.next_offset = next_offset
        self._directory = directory
        self._recent = recent
        self._file: _Readable | None = None
        self._position = 0

    def read(self, below: int, max_bytes: int) -> list[Batch]:
        """Return whole batches that end at or before offset ``below``: about ``max_bytes``, but at
        least one if there is one.

        Empty if the log ends before that. The CRC of each batch in a file is checked; records below
        ``next_offset`` are left out. Raises LogGap; OSError; and DecodeError with file and byte
        position for damage, after the batches before it were returned.
        """
        batches: list[Batch] = []
        while self.next_offset < below and not batches:
            if self._take_appended(below, max_bytes, batches):
                break
            file = self._open()
            if self._take(file, below, max_bytes, batches):
                continue
            if file.status()[0] - self._position >= BATCH_OVERHEAD or not self._next_segment(file):
                break  # the next batch ends above ``below``, or does not exist yet
        return batches

    def _take_appended(self, below: int, max_bytes: int, batches: list[Batch]) -> bool:
        """Take batches from memory; False if it does not hold the next one. If it does and none was
        taken, that one ends above ``below``, as in the files.
        """
        holds, taken = False, 0
        while (
            self._recent is not None
            and self.next_offset < below
            and (taken < max_bytes or not batches)
        ):
            appended = self._recent.at(self.next_offset)
            if appended is None:
                break
            holds = True
            if appended is not self._file:
                self._file, self._position = appended, 0
            before = self._position
            if not self._take(appended, below, max_bytes, batches):
                break
            taken += self._position - before
        return holds

    def _open(self) -> OpenFile:
        """Return the segment that holds ``next_offset``: the open file while it still has its name.
        Raises LogGap.
        """
        file = self._file
        if isinstance(file, OpenFile):
            try:
                status = os.stat(file.path)
                if file.identity == (status.st_dev, status.st_ino):
                    return file
            except FileNotFoundError:
                # The deleted file may hold records beyond ``next_offset`` that were never
                # committed: only the files in the directory count.
                pass
        # Listed each time: the directory may be another process's.
        bases = self._bases()
        # The newest segment that begins at or below the offset: the log has no gaps between
        # segments.
        fitting = [base for base in bases if base <= self.next_offset]
        if not fitting:
            begin = f"begins at offset {bases[0]}" if bases else "has no segments"
            raise LogGap(f"the log {begin} and does not go on at {self.next_offset}")
        return self._open_at(fitting[-1])

    def _open_at(self, base_offset: int) -> OpenFile:
        self._file = file = OpenFile(os.path.join(self._directory, segment_name(base_offset)))
        self._position = position_near(file, base_offset, self.next_offset)
        return file

    def _bases(self) -> list[int]:
        return [base for base, _ in list_directory(self._directory).segments]

    def _next_segment(self, file: OpenFile) -> bool:
        """Open the segment after ``file``, which was read to its end; False if there is none.
        Raises LogGap.
        """
        # Names have 20 digits, so that their order is that of the offsets.
        pending = [
            base for base in self._bases() if segment_name(base) > os.path.basename(file.path)
        ]
        # The file was read to its end, so the offsets up to the next segment are nowhere.
        if pending and pending[0] > self.next_offset:
            raise LogGap(f"offsets {self.next_offset} to {pending[0] - 1} are missing")
        if pending:
            self._open_at(pending[0])
        return bool(pending)

    def _take(self, file: _Readable, below: int, max_bytes: int, batches: list[Batch]) -> bool:
        """Read one chunk of the file into ``batches``; False if no further batch ends at or
        before ``below``.
        """
        data = file.read(self._position, max(max_bytes, BATCH_OVERHEAD))
        # The CRC of an append was checked or computed on its way in.
        in_memory, at = isinstance(file, AppendedBatches), 0
        # Bytes above ``below`` may change while they are read, so a fault in them means nothing.
        while len(data) - at >= BATCH_OVERHEAD and self.next_offset < below:
            try:
                header = read_header(data, at)
                # Above the high watermark the batch may still be truncated.
                if header.next_offset > below:
                    break
                if header.size > len(data) - at:
                    # Only where it is the first of the chunk: the caller asked for about
                    # ``max_bytes``.
                    if batches or at:
                        break
                    data = self._whole(file, header)
                # The index points to a batch before the one that is asked for.
                if header.next_offset > self.next_offset:
                    batches.append(self._decode(data, at, header, crc_checked=in_memory))
                    self.next_offset = header.next_offset
            except DecodeError as error:
                if batches:
                    break  # the batches before the damage are returned first
                raise DecodeError(
                    error.reason, path=file.path, offset=self._position + at, rule=error.rule
                ) from None
            at += header.size
        # Behind the last whole batch: a batch that is cut is read again when there is more of it.
        self._position += at
        return at > 0

    def _whole(self, file: _Readable, header: BatchHeader) -> bytes:
        """Return the bytes of a batch that is larger than a chunk."""
        if header.size > BATCH_BYTES_MAX:
            raise DecodeError(
                f"a batch of {header.size} bytes, more than the {BATCH_BYTES_MAX} allowed",
                rule="batch-length",
            )
        return file.read(self._position, header.size)

    def _decode(self, data: bytes, at: int, header: BatchHeader, *, crc_checked: bool) -> Batch:
        # A gap: cleaning removes whole segments, so within one it is damage.
        if header.base_offset > self.next_offset:
            reason = (
                f"a batch at offset {header.base_offset} stands where offset "
                f"{self.next_offset} must follow"
            )
            raise DecodeError(reason, rule="batch-offset")
        _, chunks = decode_chunks(data, at, crc_checked=crc_checked)
        # The caller may ask for an offset in the middle of a batch.
        if header.base_offset < self.next_offset:
            records = records_of(chunks)
            return header, [record for record in records if record.offset >= self.next_offset]
        return header, chunks
