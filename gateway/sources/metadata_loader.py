"""Keeps an image of the cluster up to date with its log: folds in a thread, publishes on the event
loop.

It starts no thread and knows neither trio nor clients. The caller runs

    more = await trio.to_thread.run_sync(loader.decode_step, high_watermark)
    loader.apply_step()
    for error in loader.publish(): ...

again at once if there is ``more``, else when the high watermark has moved, or after a second while
there is a ``problem``. ``PIECE_BYTES`` bounds the work of a step in the thread. The loop only
adopts what the thread prepared, the first image as a whole and later changes as a ``Delta``, so
that readers on the loop never see half of a batch or transaction. It does not know who uses the
image: they subscribe. Source: ``MetadataLoader`` and its ``MetadataPublisher``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

from gateway.log.files.problem import Problem
from gateway.log.reading.log_cursor import LogGap
from gateway.log.reading.recent_batches import RecentBatches
from gateway.sources.gc_tuning import (
    FoldedObjects,
    collector_paused,
    image_loaded,
    release_incrementally,
)
from gateway.sources.metadata_batch_loader import Position, State
from gateway.sources.metadata_replayer import MetadataReplayer, NoUsableSnapshot
from kwire.cluster import Delta, Image
from kwire.errors import DecodeError
from kwire.metadata_log.snapshot_id import SnapshotId

#: Hears of a step: what it changes, None if it brings another image; and the image.
Publisher = Callable[[Delta | None, Image], None]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The result of a step in the thread: counts, and a new image or changes to the current one."""

    log_bytes: int
    records: Counter[str]
    skipped: Counter[str]
    notices: list[str]
    image: Image | None
    snapshot: SnapshotId | None  #: what ``image`` began with
    delta: Delta | None
    read_offset: int
    in_transaction: bool
    lacks: str | None
    position: Position | None  #: the end, if a batch ends there and no transaction is open


class MetadataLoader:
    """The image of the committed records in a ``__cluster_metadata-0`` directory.

    ``decode_step`` may run in any thread, one at a time and never during ``apply_step``; everything
    else belongs to the event loop. The image is changed in place: a reader on the loop keeps no
    part of it over an await.
    """

    def __init__(
        self, directory: str | os.PathLike[str], recent: RecentBatches | None = None
    ) -> None:
        """``recent``: what this process appended last, where it writes the log: that is applied
        without a read of the disk.
        """
        self.directory: Final = os.fspath(directory)
        self._recent = recent
        #: The state up to ``next_offset``; empty until ``loaded``.
        self.image = Image()
        self.loaded = False
        self._publishers: list[Publisher] = []
        self._failed: set[Publisher] = set()  # those that have missed a delta
        self._preparing: list[Publisher] = []
        self._delta: Delta | None = Delta(self.image)  # of the last step, committed
        self.high_watermark = 0  #: the argument of the last ``decode_step``
        #: Records of the log by type since the start, control records too, by Kafka's names:
        #: ``PARTITION_RECORD``.
        self.records: Counter[str] = Counter()
        #: Records skipped, by reason (see ``batch_fold``); their sum is Kafka's
        #: ``metadata-load-error-count``.
        self.skipped: Counter[str] = Counter()
        self.snapshot_loads = (
            0  #: how often an image began with a snapshot (``HandleLoadSnapshotCount``)
        )
        #: The first offset that was not read; above ``next_offset`` while a transaction is open.
        self.read_offset = 0
        self.in_transaction = False  #: whether a metadata transaction is open at ``read_offset``
        self.log_bytes = (
            0  #: of the log's batches in the image, from the snapshot on that it began with
        )
        #: A clause about the part of the log below ``read_offset`` that the image lacks
        #: (``MetadataBatchLoader.lacks``).
        self.lacks: str | None = None
        #: The fault that keeps the image below the high watermark, if any.
        self.problem: Problem | None = None
        self._position: Position | None = None  # of ``image``
        self._notices: list[str] = []
        self._replay = MetadataReplayer(self.directory, self._recent)
        self._rebuilding = True  # the replay folds into an unpublished image
        self._prepared: _Prepared | None = None
        self._retired: list[Any] = []  # objects that the thread releases
        self._objects = FoldedObjects()

    @property
    def next_offset(self) -> int:
        """The first offset that is not in the image."""
        return self.image.next_offset

    @property
    def behind(self) -> int:
        """Offsets below the high watermark that are not in the image, those of an open transaction
        included.
        """
        return max(0, self.high_watermark - self.image.next_offset)

    def take_notices(self) -> list[str]:
        """Return a sentence for each record skipped since the last call; ``skipped`` also counts
        those without one.
        """
        notices, self._notices = self._notices, []
        return notices

    def subscribe(self, on_update: Publisher, prepare: Publisher | None = None) -> None:
        """Call ``on_update`` on the event loop after each step, also after one that changed
        nothing. All are called in the order of their subscription, the first one in the same pass
        as the change.

        ``prepare`` is called in the thread before a step is applied, with the changes to the image
        or with the next image, for work that would hold the event loop.
        """
        assert not self.loaded, "whoever subscribes later lacks the first image"
        self._publishers.append(on_update)
        if prepare is not None:
            self._preparing.append(prepare)

    def capture(self) -> State | None:
        """Return a copy of the image, which later records do not change, for a snapshot; None if it
        can be no snapshot. On the event loop: as the image is copied and not folded again, a
        snapshot of a million partitions takes no second image.
        """
        if not self.loaded or self._position is None or self.lacks:
            return None
        copied = Image()
        for one in fields(self.image):
            value = getattr(self.image, one.name)
            # Dictionaries and records inside of it are replaced and not changed (``Delta``).
            setattr(copied, one.name, value.copy() if isinstance(value, dict) else value)
        return State(copied, self._position)

    # --- in the thread
    # ---------------------------------------------------------------------------------------------

    def decode_step(self, high_watermark: int) -> bool:
        """Read, decode and fold one piece below ``high_watermark``. True if there is more to do at
        once.

        Faults of the directory raise nothing: see ``problem``.
        """
        if self._prepared is not None:
            return True  # the previous step was not applied yet
        release_incrementally(self._retired)
        self.high_watermark = high_watermark
        try:
            with collector_paused():
                more = self._step(high_watermark)
        except (NoUsableSnapshot, LogGap) as error:
            return self._stop(Problem(self.directory, -1, str(error)))
        except DecodeError as error:
            return self._stop(Problem(error.path, error.offset, error.reason))
        except OSError as error:
            return self._stop(
                Problem(str(error.filename or self.directory), -1, error.strerror or str(error))
            )
        except BaseException:
            self.restart()  # some records of the piece may be folded and others not
            raise
        self.problem = None
        return more

    def _step(self, high_watermark: int) -> bool:
        replay, image, delta = self._replay, None, None
        before, taken = replay.read_offset, replay.fold.taken
        if self._rebuilding:
            more = self._advance(high_watermark)
            if not more and high_watermark > 0:
                image, self._rebuilding = replay.fold.image, False
        else:
            delta = Delta(self.image)
            replay.fold.image = delta.image
            more = self._advance(high_watermark)
        if image is not None or replay.read_offset != before:
            self._prepare(replay, image, delta)
        self._objects.made(replay.fold.taken - taken, is_building=self._rebuilding)
        return more

    def _advance(self, high_watermark: int) -> bool:
        """Do one step of the replay; begin another one if the log continues behind a newer
        snapshot.
        """
        try:
            return self._replay.step(high_watermark)
        except LogGap:
            if not self._replay.can_restart(high_watermark):
                raise
            self.restart()
            return True

    def _prepare(self, replay: MetadataReplayer, image: Image | None, delta: Delta | None) -> None:
        fold = replay.fold
        records, skipped, notices = fold.take_counts()
        snapshot = replay.snapshot if image else None
        if image is not None or delta is not None:
            for prepare in self._preparing:
                prepare(delta, image or self.image)
        self._prepared = _Prepared(
            replay.log_bytes,
            records,
            skipped,
            notices,
            image,
            snapshot,
            delta,
            replay.read_offset,
            fold.in_transaction,
            fold.lacks,
            fold.position if fold.aligned else None,
        )

    def _stop(self, problem: Problem) -> bool:
        self.problem = problem
        return False

    def restart(self) -> None:
        """Begin again with the newest snapshot. The current image is served until the new one is
        complete.
        """
        self._replay, self._rebuilding = MetadataReplayer(self.directory, self._recent), True

    # --- on the event loop
    # ---------------------------------------------------------------------------------------------

    def apply_step(self) -> bool:
        """Publish what the last step prepared; True if the image changed."""
        prepared, self._prepared = self._prepared, None
        self._delta = Delta(self.image)
        if prepared is None:
            return False
        self.records.update(prepared.records)
        self.skipped.update(prepared.skipped)
        self._notices += prepared.notices
        if prepared.image is not None:
            self._retired.append(self.image)
            self.image, self.loaded, self._delta = prepared.image, True, None
            image_loaded(self.image)
            self.snapshot_loads += prepared.snapshot is not None
        elif prepared.delta is not None:
            assert prepared.read_offset >= self.read_offset, "a delta follows what was read"
            self._delta = prepared.delta
            self._retired += prepared.delta.commit()
        else:
            return False
        assert self.image.next_offset <= prepared.read_offset, "an image has only what was read"
        self._position, self.lacks = prepared.position, prepared.lacks
        self.log_bytes, self.read_offset = prepared.log_bytes, prepared.read_offset
        self.in_transaction = prepared.in_transaction
        return True

    def publish(self) -> Iterator[Exception | None]:
        """Tell the subscribers what the last step changed, one after another; each has had its turn
        when the iterator gives its exception, or None.

        One that raises is given the whole image at its next turn.
        """
        delta, image = self._delta, self.image
        for on_update in self._publishers:
            try:
                on_update(None if on_update in self._failed else delta, image)
            except Exception as error:
                self._failed.add(on_update)
                yield error
            else:
                self._failed.discard(on_update)
                yield None
