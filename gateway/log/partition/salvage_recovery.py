"""Opens a log that no other node has: keeps what can be read, and gives no offset twice.

Damage costs the records that it hit; batches behind it stay, and empty batches stand for the
offsets that are lost. The metadata log is opened by other rules
(``gateway.log.metadata.recovery``): its records can be fetched from the quorum. Kafka truncates
such a log at the damage (``LogLoader``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk, doing
from gateway.log.partition.loaded_log import LoadedLog
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.salvage import EPOCH, Salvaged, gap, salvage
from gateway.log.segments.batch_check import Tail, check_batches
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment import Segment, delete_segments, replace_segment
from gateway.log.segments.segment_scan import SegmentScan, scan_segment
from kwire.metadata_log.file_names import parse_segment_name, segment_name
from kwire.metadata_log.open_file import read_regular

#: Suffix of what is kept of a segment that could not be read.
DAMAGED: Final = ".damaged"
_INDEX_INTERVAL_BYTES: Final = LogSettings().index_interval_bytes


class SalvageRecovery:
    """Recovers the segments in ``directory``. ``problems`` gets one sentence for each repair;
    ``consequence`` ends the sentences about lost offsets.
    """

    def __init__(
        self, directory: Path, disk: Disk, problems: list[str], consequence: str = ""
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._problems = problems
        self._consequence = consequence

    def recover(self, synced_end: int) -> LoadedLog:
        """Open the newest segment after repairing it; create one if there is none. The log ends no
        lower than ``synced_end``, below which a consumer may have read. Raises DiskFailed.
        """
        with doing("read", self._directory):
            # The closed ones were sealed, so that damage in them is found when they are read
            # (``repair_closed``).
            bases = self._bases()
            active = self._open_last(bases[-1]) if bases else self._create(synced_end)
        try:
            # Before the flush, so that one sync covers both.
            self._fill_lost_offsets(active, synced_end)
            active.flush()
        except BaseException:
            active.close()
            raise
        first = bases[0] if bases else synced_end
        # One writer has one epoch for ever, which needs no file.
        epochs = EpochCache([(EPOCH, first)], saved=[(EPOCH, first)])
        return LoadedLog(bases[:-1], active, epochs, first)

    def repair_all_closed(self) -> None:
        """Read every closed segment of a compacted log, which starts at offset 0: repair damage,
        and delete what a crash of the log cleaner left. Raises DiskFailed.
        """
        with doing("read", self._directory):
            bases = self._bases()
            if bases and bases[0] > 0:
                self._problems.append(self._all_missing_below(bases[0]))
                lost = gap(0, bases[0])
                replace_segment(self._directory, self._disk, 0, [lost], _INDEX_INTERVAL_BYTES)
                bases.insert(0, 0)
            while len(bases) > 1:
                scan = self._scan(bases[0])
                is_whole = scan.size == scan.file_size
                if is_whole and scan.tail.next_offset > bases[1]:
                    # The cleaner has put the records of the next segment into this one.
                    delete_segments(self._directory, self._disk, [bases.pop(1)])
                    continue
                if not is_whole or scan.tail.next_offset < bases[1]:
                    self._problems += self.repair_closed(bases[0], bases[1])
                del bases[0]

    def repair_closed(self, base: int, following: int) -> list[str]:
        """Make a closed segment lead to the next one; return a sentence for each repair, none if
        there was nothing to repair, or if that cannot be done. Raises DiskFailed, OSError.
        """
        salvaged = self._salvage(base, following)
        # Only then does the repaired segment lead to the next one without a gap or an overlap.
        if salvaged.end_offset == following and salvaged.repairs:
            return self._replace(base, salvaged)
        return []

    def keep_copy(self, base: int) -> str:
        """Copy a damaged segment; return the name of the copy. Raises DiskFailed, OSError."""
        path = self._path(base)
        copy = path.with_name(path.name + DAMAGED)
        self._disk.replace(copy, path.read_bytes())
        return copy.name

    # --- inside
    # ---------------------------------------------------------------------------------------------

    def _open_last(self, base: int) -> Segment:
        """Open the last segment, after joining batches behind damage to those before it."""
        scan = self._scan(base)
        # The usual case after a clean stop or a kill between two writes: nothing to salvage.
        if scan.file_size > scan.size:
            salvaged = self._salvage(base, None)
            if salvaged.repairs:
                self._problems += self._replace(base, salvaged)
                scan = self._scan(base)
            else:
                self._report_truncation(scan)
        return Segment(self._disk, self._directory, scan)

    def _create(self, base: int) -> Segment:
        if base:
            self._problems.append(self._all_missing_below(base))
        return Segment.create(self._disk, self._directory, base, _INDEX_INTERVAL_BYTES)

    def _all_missing_below(self, offset: int) -> str:
        return (
            f"{self._directory}: every segment below offset {offset} is missing{self._consequence}"
        )

    def _fill_lost_offsets(self, active: Segment, synced_end: int) -> None:
        """Append empty batches, so that no offset that a consumer may have seen is given twice."""
        start = active.end_offset
        if start >= synced_end:
            return
        data = memoryview(gap(start, synced_end))
        active.append(data, check_batches(data, Tail(start, EPOCH)).batches)
        self._problems.append(
            f"{self._path(active.base_offset)}: offsets {start} to {synced_end - 1} are missing "
            f"behind it; the log goes on at offset {synced_end}{self._consequence}"
        )

    def _replace(self, base: int, salvaged: Salvaged) -> list[str]:
        """Replace a segment by its salvaged bytes. The original is copied first unless all of it
        stays.
        """
        path, kept = self._path(base), ""
        # Nothing of the file is lost if empty batches were only added behind it.
        if not salvaged.data.startswith(path.read_bytes()):
            kept = f"; the file as it was is kept as {self.keep_copy(base)}"
        replace_segment(self._directory, self._disk, base, [salvaged.data], _INDEX_INTERVAL_BYTES)
        return [f"{path}: {repair}{kept}" for repair in salvaged.repairs]

    def _report_truncation(self, scan: SegmentScan) -> None:
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        kept = ""
        if scan.fault is not None:
            # A killed process leaves a batch that is cut short. Wrong bytes in a whole batch come
            # from a power failure or a bad disk, so the evidence is kept.
            kept = f"; the file as it was is kept as {self.keep_copy(scan.base_offset)}"
        self._problems.append(
            f"{self._path(scan.base_offset)}: {scan.file_size - scan.size} bytes from byte "
            f"{scan.size} on cut off: {why}{kept}"
        )

    def _salvage(self, base: int, end_offset: int | None) -> Salvaged:
        return salvage(read_regular(self._path(base)), base, end_offset)

    def _scan(self, base: int) -> SegmentScan:
        return scan_segment(self._directory, base, _INDEX_INTERVAL_BYTES, EPOCH)

    def _path(self, base: int) -> Path:
        return self._directory / segment_name(base)

    def _bases(self) -> list[int]:
        names = (parse_segment_name(entry.name) for entry in self._directory.iterdir())
        return sorted(base for base in names if base is not None)
