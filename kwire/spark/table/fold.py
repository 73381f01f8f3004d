"""Folds records in offset order into changes, current state and history, the contents of the
tables. It knows no Spark and no files.

The state is an image (``kwire.cluster``) and the time since which each entity has its state.
Secrets are replaced before a record is folded, so neither the state nor the tables contain them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kwire.cluster import FoldError, Image, Loader, apply
from kwire.cluster.entities.partitions import merge
from kwire.cluster.image import METADATA_VERSION
from kwire.cluster.interned_lists import share
from kwire.cluster.partition_reader import CHANGE_FRAMES, PartitionReader
from kwire.errors import WireError
from kwire.message import Message
from kwire.records import decode_metadata_record, encode_metadata_record, metadata_record_name
from kwire.records.redact import REDACTED, redact
from kwire.spark.source.offsets import DataLossError
from kwire.spark.table.kinds import BY_ENTITY, KINDS, Key, Kind
from kwire.spark.table.rows import Change, Closed, Folded, Moment, Row, State, Trouble
from kwire.spark.table.seen import Seen, shown, uuid_text
from kwire.spark.table.touch import PATCHES, topic_of, touched
from kwire.uuid import Uuid

SET, PATCH, DELETE, RESYNC = "set", "patch", "delete", "resync"
#: How far behind the first record of what may be a snapshot to look for what only a snapshot says.
_LOOK_AHEAD: Final = 1000
_MINUTE_MS: Final = 60_000
_PARTITION: Final = BY_ENTITY["partition"]
_CHANGED: Final = "PARTITION_CHANGE_RECORD"
_OF_ONE_PARTITION: Final = frozenset(("PARTITION_RECORD", _CHANGED))
_NO_PARTITIONS: Final[dict[int, Any]] = {}


class Fold:
    """Folds rows into ``state``. The output collects in ``folded``, which the caller takes and
    replaces.
    """

    def __init__(self, state: State | None = None, *, fail_fast: bool = False) -> None:
        """With ``fail_fast`` a record that cannot be read or does not fit raises; otherwise it is
        added to ``errors``.
        """
        self.state = state or State()
        self.folded = Folded()
        self._ahead: Sequence[Row] = ()
        self._fail_fast = fail_fast
        self._changes, self._quiet = PartitionReader(), False
        self._begin(self.state.image)
        held, self.state.held = self.state.held, []
        for row in held:
            name, version, record = decode_metadata_record(row.value or b"")
            self._load(row, name, version, record)

    def _begin(self, image: Image) -> None:
        self._loader = Loader(image)
        self._origin: dict[int, tuple[Row, str, Message]] = {}

    def take(
        self,
        rows: Sequence[Row],
        ahead: Sequence[Row] = (),
        *,
        quiet_below: int = 0,
        until: int | None = None,
    ) -> None:
        """Fold ``rows``, which are in offset order; those below the state's next offset were folded
        before and are skipped. ``ahead`` are rows that follow, if any are known.

        Rows below offset ``quiet_below`` change the state and what was before, and give no other
        output; those from offset ``until`` on are not taken. Raises DataLossError for the records
        of a snapshot behind others, and DecodeError and FoldError with ``fail_fast``; the state
        must not be used after that.
        """
        self._ahead = ahead
        state, self._quiet = self.state, self.state.next_offset < quiet_below
        for n, row in enumerate(rows):
            if row.offset >= state.next_offset:
                if until is not None and row.offset >= until:
                    return
                if self._quiet and row.offset >= quiet_below:
                    self._speak()
                if (row.value or b"")[:3] not in CHANGE_FRAMES or not self._quick(row):
                    self._take(row, rows, n)
                state.next_offset = row.offset + 1
                state.last_time = row.timestamp
        if self._quiet:
            self._speak()

    def _speak(self) -> None:
        """Drop the output of quiet rows."""
        self.folded, self._quiet = Folded(before=self.folded.before), False

    def _quick(self, row: Row) -> bool:
        """Fold a change of a partition in a third of the time; False, and nothing is done, if it is
        not as plain as nearly every record of a busy log is.
        """
        state, loader, folded = self.state, self._loader, self.folded
        if row.error is not None or loader.in_transaction or not state.next_offset:
            return False
        try:
            topic_id, index, change = self._changes.read_shared_change(row.value or b"")
        except WireError:
            return False
        partitions: Any = loader.image.partitions.get(Uuid(topic_id))
        was = partitions.get(index) if partitions else None
        if was is None:
            return False
        now = partitions[index] = merge(was, change)
        loader.skip_to(row.offset + 1, -1 if row.epoch is None else row.epoch)
        self._row = row
        since, key = state.since["partition"], (was.topic_id, index)
        began, moment = since.pop(key, None), Moment(row.offset, row.timestamp)
        since[key] = moment
        folded.before["partition"].setdefault(key, began)
        if self._quiet:
            return True
        counted = row.timestamp - row.timestamp % _MINUTE_MS, _CHANGED
        folded.load[counted] += 1
        folded.load_bytes[counted] += len(row.value or b"")
        topic = loader.image.topics.get(was.topic_id)
        if began is not None and began.offset != row.offset:
            folded.closed["partition"].append(Closed(key, was, topic, began, moment))
        text = f"{uuid_text(was.topic_id)}:{index}"
        offset, time, _, epoch, _ = row
        folded.changes.append(
            Change(
                offset, offset, 0, epoch, time, _CHANGED, "partition", text, topic, PATCH, was, now
            )
        )
        return True

    def lost(self, row: Row) -> None:
        """Report an unreadable place whose offset is not known; ``row`` has the expected one."""
        self._trouble(row, None, FoldError(row.error or "nothing can be read"))

    def _take(self, row: Row, rows: Sequence[Row], n: int) -> None:
        self._row = row
        if row.error is not None:
            self._trouble(row, None, FoldError(row.error))
            return
        try:
            name, version, record = decode_metadata_record(row.value or b"")
        except WireError as error:
            self._trouble(row, None, error)
            return
        counted = row.timestamp - row.timestamp % _MINUTE_MS, name
        self.folded.load[counted] += 1
        self.folded.load_bytes[counted] += len(row.value or b"")
        gap = row.offset > self.state.next_offset and self._is_snapshot(record, rows, n)
        if gap or (name == "TOPIC_RECORD" and self._says_again(row)):
            raise DataLossError(
                f"the records at offset {row.offset} are those of a snapshot, and the records"
                f" before offset {self.state.next_offset} were read: what was between is gone;"
                " build the tables anew in another directory, or name the server or the log"
                " directory itself as the source"
            )
        if not self.state.next_offset:
            self._check_beginning(row, name, record)
        self._load(row, name, version, record)

    def _load(self, row: Row, name: str, version: int, record: Message) -> None:
        seen = without_secrets(name, record)
        if seen is not record:
            row = row._replace(value=encode_metadata_record(seen, version))
        self._row = row
        self._origin[id(seen)] = row, name, seen
        epoch = -1 if row.epoch is None else row.epoch
        self._loader.load(seen, row.offset, epoch, refused=self._refused, change=self._change)
        if self._loader.in_transaction:
            self.state.held.append(row)
        else:
            self.state.held.clear()
            self._origin.clear()

    # --- one record's changes
    # ----------------------------------------------------------------------

    def _change(self, image: Image, record: Message) -> None:
        row, name, _ = self._origin[id(record)]
        if name in _OF_ONE_PARTITION:
            self._change_partition(image, record, row, name)
            return
        places = touched(image, record)
        before = [kind.seen(image, key) for kind, key in places]
        topics = [topic_of(image, place) for place in places]
        if not self._applied(image, record, row, name):
            return
        n = 0
        for (kind, key), was, topic in zip(places, before, topics, strict=True):
            now = kind.seen(image, key)
            if was is not None or now is not None:
                topic = topic or topic_of(image, (kind, key))
                self._changed(row, n, name, kind, key, topic, was, now)
                n += 1

    def _change_partition(self, image: Image, record: Any, row: Row, name: str) -> None:
        """The same for a record of one partition, in half the time: nearly every record of a busy
        log comes by here.
        """
        key = topic_id, index = record.topic_id, record.partition_id
        if name == "PARTITION_RECORD":
            share(record)
        was = image.partitions.get(topic_id, _NO_PARTITIONS).get(index)
        if self._applied(image, record, row, name):
            now = image.partitions[topic_id][index]
            self._changed(row, 0, name, _PARTITION, key, image.topics.get(topic_id), was, now)

    def _applied(self, image: Image, record: Message, row: Row, name: str) -> bool:
        try:
            apply(image, record)
        except FoldError as error:
            self._trouble(row, name, error)
            return False
        return True

    def _changed(
        self,
        row: Row,
        n: int,
        name: str,
        kind: Kind,
        key: Key,
        topic: str | None,
        was: Seen | None,
        now: Seen | None,
    ) -> None:
        """Add change ``n`` of ``row``, a record of type ``name``, to the output."""
        self._version(kind, key, topic, was, now)
        op = DELETE if now is None else PATCH if name in PATCHES else SET
        self.folded.changes.append(
            Change(
                row.offset,
                self._row.offset,
                n,
                row.epoch,
                row.timestamp,
                name,
                kind.entity,
                kind.text(key),
                topic,
                op,
                was,
                now,
            )
        )

    def _version(
        self, kind: Kind, key: Key, topic: str | None, was: Seen | None, now: Seen | None
    ) -> None:
        """End the entity's row in the history and begin the next one, unless it is unchanged."""
        if _same(was, now, topic) and not _holds_secret(kind, now):
            return
        since, moment = self.state.since[kind.entity], Moment(self._row.offset, self._row.timestamp)
        began = since.pop(key, None)
        # A version that a transaction makes and changes again was never visible.
        if was is not None and began is not None and began.offset != moment.offset:
            self.folded.closed[kind.entity].append(Closed(key, was, topic, began, moment))
        if now is not None:
            since[key] = moment
        self.folded.before[kind.entity].setdefault(key, began)

    # --- a log that begins anew at a snapshot
    # ----------------------------------------------------------------------

    def _is_snapshot(self, record: Any, rows: Sequence[Row], n: int) -> bool:
        """True if the records behind a gap are those of a snapshot, because the log's start moved
        past this position.

        A snapshot begins with metadata.version. A log behind a gap of control records may begin
        with one too, but it never repeats a record of something that exists already.
        """
        image = self._loader.image
        if (
            not image.features
            or record.NAME != "FeatureLevelRecord"
            or record.name != METADATA_VERSION
        ):
            return False
        behind = rows[n + 1 : n + 1 + _LOOK_AHEAD]
        behind = [*behind, *self._ahead[: _LOOK_AHEAD - len(behind)]]
        return bool(record.feature_level == image.metadata_version) or any(
            map(self._says_again, behind)
        )

    def _says_again(self, row: Row) -> bool:
        """True for a topic that exists already. A controller writes such a record only into a
        snapshot. (Brokers can register again.)
        """
        try:
            record: Any = decode_metadata_record(row.value or b"")[2]
        except WireError:
            return False
        return record.NAME == "TopicRecord" and record.topic_id in self._loader.image.topics

    def resync(self, state: State, offset: int) -> None:
        """Go on from ``state``, that of the log before ``offset``, over a gap in which records were
        lost. A difference counts as made by the record before ``offset``: entities that were
        deleted meanwhile are deleted there.
        """
        before, after = self.state, state.image
        row = self._row = Row(offset - 1, state.last_time or 0, None)
        lost, found = {"nextOffset": before.next_offset}, {"nextOffset": offset}
        where = row.offset, row.offset, -1, None, row.timestamp
        self.folded.changes.append(Change(*where, "", "log", "", None, RESYNC, lost, found))
        n = 0
        for kind in KINDS:
            for key in {**before.since[kind.entity], **state.since[kind.entity]}:
                was, now = kind.seen(before.image, key), kind.seen(after, key)
                topic = topic_of(after if now is not None else before.image, (kind, key))
                if not _same(was, now, topic):
                    record = kind.record(after, key)
                    name = "" if record is None else metadata_record_name(type(record))
                    self._changed(row, n, name, kind, key, topic, was, now)
                    n += 1
        before.image, before.held, before.next_offset = after, [], offset
        # The record before ``offset`` may be the snapshot's, and the next log has another there.
        before.last_time = None
        self._begin(after)

    def _check_beginning(self, row: Row, name: str, record: Any) -> None:
        first = name == "FEATURE_LEVEL_RECORD" and record.name == METADATA_VERSION
        if row.offset and not first and name not in ("BEGIN_TRANSACTION_RECORD", "NO_OP_RECORD"):
            self._trouble(
                row,
                name,
                FoldError(
                    f"the records begin at offset {row.offset}, with neither a log's first record"
                    " nor a snapshot's: what was before is missing; begin at earliest, and let the"
                    " server put the snapshot in front"
                ),
            )

    # --- trouble
    # ----------------------------------------------------------------------

    def _refused(self, error: FoldError) -> None:
        self._trouble(self._row, None, error)

    def _trouble(self, row: Row, name: str | None, error: Exception) -> None:
        if self._fail_fast:
            raise FoldError(f"offset {row.offset}: {error}") from error
        self.folded.errors.append(Trouble(row.offset, row.timestamp, name, str(error)))


def without_secrets(name: str, record: Any) -> Any:
    """``record`` of type ``name`` (``CONFIG_RECORD``), or a copy with ``(redacted)`` where it holds
    secrets.
    """
    if name == "CONFIG_RECORD":
        members = {"resourceType": record.resource_type, "name": record.name, "value": record.value}
        value = redact(name, members)["value"]
        return record if value == record.value else record.copy(value=value)
    if name == "USER_SCRAM_CREDENTIAL_RECORD":
        hidden = REDACTED.encode()
        return record.copy(salt=hidden, stored_key=hidden, server_key=hidden)
    return record


def _same(was: Seen | None, now: Seen | None, topic: str | None) -> bool:
    """True if both show the same. A partition has another epoch with each change."""
    if was is None or now is None or isinstance(was, dict):
        return was == now
    one: Any = was
    other: Any = now
    return one is other or bool(
        one.partition_epoch == other.partition_epoch and shown(one, topic) == shown(other, topic)
    )


def _holds_secret(kind: Kind, seen: Any) -> bool:
    """True if the record holds a secret. It counts as changed each time it is written, because the
    fold does not see its value.
    """
    return seen is not None and (
        kind.entity == "user" or (kind.entity == "config" and seen["value"] == REDACTED)
    )
