"""Keeps the image of a cluster beside its log: what is committed is folded in a thread, and shown on the event loop.

It is driven from outside, as ``LogDirectory`` is, and knows neither trio nor clients:

    more = await trio.to_thread.run_sync(keeper.decode_step, high_watermark)
    keeper.apply_step()

at once again if there is ``more``, else when the high watermark has moved, or after a second while there is a ``problem``.
A step's work is bounded in the thread by ``PIECE_BYTES``. The loop only takes over what the thread prepared, the first image
as a whole and later changes as a ``Delta``: readers on the loop never see half of a batch or of a transaction.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.log.log_cursor import LogGap
from gateway.log.problem import Problem
from gateway.snapshot_id import SnapshotId
from gateway.sources.image_memory import collector_paused, let_go, let_stay
from gateway.sources.replay import NoStart, Replay
from kwire.cluster import Delta, Image
from kwire.errors import DecodeError

if TYPE_CHECKING:
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord
    from kwire.uuid import Uuid

#: Records after which they are hidden from the garbage collector: a full pass over so many takes some ms.
LOOSE_RECORDS_MAX: Final = 2000


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a step in the thread leaves for the loop: an account, and an image or changes to the one there is."""

    log_bytes: int
    records: Counter[str]
    skipped: Counter[str]
    notices: list[str]
    image: Image | None
    snapshot: SnapshotId | None  #: what ``image`` began with
    delta: Delta | None
    read_offset: int
    in_transaction: bool


class ImageKeeper:
    """The image of what is committed in a ``__cluster_metadata-0`` directory.

    ``decode_step`` may run in any thread, one at a time and never during ``apply_step``; everything else belongs to the
    event loop. The image is changed in place: who reads it reads it on the loop, and keeps none of it over an await.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory: Final = os.fspath(directory)
        #: The state up to ``next_offset``; empty until ``loaded``.
        self.image = Image()
        self.loaded = False
        self.acl_changes = 0  #: how often ``image.acls`` became another
        self.high_watermark = 0  #: as last given
        #: Records of the log by type since the start, control records too, by Kafka's names: ``PARTITION_RECORD``.
        self.records: Counter[str] = Counter()
        #: Records passed over, by reason (``batch_fold`` names them): together Kafka's ``metadata-load-error-count``.
        self.skipped: Counter[str] = Counter()
        self.snapshot_loads = 0  #: how often an image began with a snapshot (``HandleLoadSnapshotCount``)
        #: Everything before it was read, control records and what an open transaction holds back too.
        self.read_offset = 0
        self.in_transaction = False  #: Was a metadata transaction open there?
        self.log_bytes = 0  #: of the log's batches in the image, from the snapshot on that it began with
        #: What keeps the image from the high watermark at the moment.
        self.problem: Problem | None = None
        self._notices: list[str] = []
        self._replay = Replay(self.directory)
        self._alone = True  # the replay folds into an image of its own, which nobody sees yet
        self._prepared: _Prepared | None = None
        self._retired: list[Any] = []  # what the thread is to let go of
        self._loose = 0  # records that the garbage collector would look at

    @property
    def next_offset(self) -> int:
        """The first offset that is not in the image."""
        return self.image.next_offset

    @property
    def behind(self) -> int:
        """Offsets below the high watermark that are not in the image, those of an open transaction too."""
        return max(0, self.high_watermark - self.image.next_offset)

    def take_notices(self) -> list[str]:
        """What was passed over since the last call, in sentences; ``skipped`` counts also what is not told any more."""
        notices, self._notices = self._notices, []
        return notices

    def acls(self) -> tuple[int, dict[Uuid, AccessControlEntryRecord] | None]:
        """For an authorizer: ``acl_changes``, and those that are committed, None until they are known."""
        return self.acl_changes, self.image.acls if self.loaded else None

    # --- in the thread ------------------------------------------------------------------------------------------------

    def decode_step(self, high_watermark: int) -> bool:
        """Read, decode and fold one piece below ``high_watermark``. True if there is more to do at once.

        What the directory may be the cause of raises nothing: see ``problem``.
        """
        if self._prepared is not None:
            return True  # the one before was not applied yet
        let_go(self._retired)
        self.high_watermark = high_watermark
        try:
            with collector_paused():
                more = self._step(high_watermark)
        except (NoStart, LogGap) as error:
            return self._stop(Problem(self.directory, -1, str(error)))
        except DecodeError as error:
            return self._stop(Problem(error.path, error.offset, error.reason))
        except OSError as error:
            return self._stop(Problem(str(error.filename or self.directory), -1, error.strerror or str(error)))
        except BaseException:
            self._restart()  # some records of the piece may be folded and others not
            raise
        self.problem = None
        return more

    def _step(self, high_watermark: int) -> bool:
        replay, image, delta = self._replay, None, None
        before, taken = replay.read_offset, replay.fold.taken
        if self._alone:
            more = self._advance(high_watermark)
            if not more and high_watermark > 0:
                image, self._alone = replay.fold.image, False
        else:
            delta = Delta(self.image)
            replay.fold.image = delta.image
            more = self._advance(high_watermark)
        if image is not None or replay.read_offset != before:
            self._prepare(replay, image, delta)
        self._loose += replay.fold.taken - taken
        if self._loose >= LOOSE_RECORDS_MAX:
            let_stay()
            self._loose = 0
        return more

    def _advance(self, high_watermark: int) -> bool:
        """One step of the replay, or to another one where the log goes on behind a newer snapshot."""
        try:
            return self._replay.step(high_watermark)
        except LogGap:
            if not self._replay.can_restart(high_watermark):
                raise
            self._restart()
            return True

    def _prepare(self, replay: Replay, image: Image | None, delta: Delta | None) -> None:
        fold = replay.fold
        records, skipped, notices = fold.take_account()
        snapshot = replay.snapshot if image else None
        self._prepared = _Prepared(
            replay.log_bytes, records, skipped, notices, image, snapshot, delta, replay.read_offset, fold.in_transaction
        )

    def _stop(self, problem: Problem) -> bool:
        self.problem = problem
        return False

    def _restart(self) -> None:
        """Begin again, with the newest snapshot. What there is stays to be seen until the new image is through."""
        self._replay, self._alone = Replay(self.directory), True

    # --- on the event loop --------------------------------------------------------------------------------------------

    def apply_step(self) -> bool:
        """Show what the last step prepared; True if the image changed."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return False
        self.records.update(prepared.records)
        self.skipped.update(prepared.skipped)
        self._notices += prepared.notices
        if prepared.image is not None:
            self._retired.append(self.image)
            self.image, self.loaded = prepared.image, True
            self.acl_changes += 1
            self.snapshot_loads += prepared.snapshot is not None
        elif prepared.delta is not None:
            self.acl_changes += prepared.delta.changes("acls")
            self._retired += prepared.delta.commit()
        else:
            return False
        self.log_bytes, self.read_offset = prepared.log_bytes, prepared.read_offset
        self.in_transaction = prepared.in_transaction
        return True
