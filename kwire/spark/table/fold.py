"""Folds records in offset order into changes, current state and history, the contents of the
tables. It knows no Spark and no files.

The state is an image (``kwire.cluster``) and the time since which each entity has its state.
Secrets are replaced before a record is folded, so neither the state nor the tables contain them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kwire.cluster import FoldError, Image, Loader, apply
from kwire.cluster.image import METADATA_VERSION
from kwire.errors import WireError
from kwire.message import Message
from kwire.records import decode_metadata_record, encode_metadata_record
from kwire.records.redact import REDACTED, redact
from kwire.spark.exact import json_text
from kwire.spark.table.kinds import BY_ENTITY, KINDS, Fields, Key, Kind
from kwire.spark.table.touch import PATCHES, topic_of, touched

SET, PATCH, DELETE, RESET = "set", "patch", "delete", "reset"
#: How far behind the first record of what may be a snapshot to look for what only a snapshot says.
_LOOK_AHEAD: Final = 1000
_MINUTE_MS: Final = 60_000


class Row(NamedTuple):
    """A record as it was read; ``timestamp`` in ms, ``epoch`` None if the source has none,
    ``error`` the source's error.
    """

    offset: int
    timestamp: int
    value: bytes | None
    epoch: int | None = None
    error: str | None = None


class Moment(NamedTuple):
    """The record with which a state began: its offset, and its time (ms)."""

    offset: int
    timestamp: int


class Change(NamedTuple):
    """One entity that a record changed. ``effective_offset`` is that of the record with which it
    came into force.

    The two offsets differ inside a metadata transaction. ``n`` counts the changes of one record.
    """

    offset: int
    effective_offset: int
    n: int
    epoch: int | None
    timestamp: int
    type: str
    entity: str
    key: str
    topic: str | None
    op: str
    before: str | None
    after: str | None


class Closed(NamedTuple):
    """The fields of an entity from ``since`` until ``until``, exclusive."""

    key: Key
    fields: Fields
    since: Moment
    until: Moment


class Trouble(NamedTuple):
    """A record that could not be read, or does not fit the state before it, and was ignored."""

    offset: int
    timestamp: int
    type: str | None
    error: str


@dataclass
class State:
    """The state of a fold after the records below ``next_offset``."""

    image: Image = field(default_factory=Image)
    since: dict[str, dict[Key, Moment]] = field(
        default_factory=lambda: {kind.entity: {} for kind in KINDS}
    )
    held: list[Row] = field(default_factory=list)
    next_offset: int = 0


@dataclass
class Folded:
    """The output of some records, besides the state. ``dirty`` names the parts of the current state
    that changed.
    """

    changes: list[Change] = field(default_factory=list)
    closed: dict[str, list[Closed]] = field(
        default_factory=lambda: {kind.entity: [] for kind in KINDS}
    )
    errors: list[Trouble] = field(default_factory=list)
    load: Counter[tuple[int, str]] = field(default_factory=Counter)
    load_bytes: Counter[tuple[int, str]] = field(default_factory=Counter)
    dirty: set[tuple[str, int]] = field(default_factory=set)


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
        self._fail_fast = fail_fast
        self._begin(self.state.image)
        held, self.state.held = self.state.held, []
        for row in held:
            name, version, record = decode_metadata_record(row.value or b"")
            self._load(row, name, version, record)

    def _begin(self, image: Image) -> None:
        self._loader = Loader(image, refused=self._refused, change=self._change)
        self._origin: dict[int, tuple[Row, str, Message]] = {}

    def take(self, rows: Sequence[Row]) -> None:
        """Fold ``rows``, which are in offset order; those below the state's next offset were folded
        before and are skipped.

        Raises DecodeError and FoldError with ``fail_fast``; the state must not be used after that.
        """
        for n, row in enumerate(rows):
            if row.offset >= self.state.next_offset:
                self._take(row, rows, n)
                self.state.next_offset = row.offset + 1

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
        if row.offset > self.state.next_offset and self._is_snapshot(record, rows, n):
            self._reset(row)
        elif name == "TOPIC_RECORD" and self._says_again(row):
            self._trouble(
                row,
                name,
                FoldError(
                    "a topic that there is already: these are records of a snapshot, and what was"
                    " between is missing; build the tables anew"
                ),
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
        self._loader.load(seen, row.offset, -1 if row.epoch is None else row.epoch)
        if self._loader.in_transaction:
            self.state.held.append(row)
        else:
            self.state.held.clear()
            self._origin.clear()

    # --- one record's changes
    # ----------------------------------------------------------------------

    def _change(self, image: Image, record: Message) -> None:
        row, name, _ = self._origin[id(record)]
        places = touched(image, record)
        before = [kind.at(image, key) for kind, key in places]
        topics = [topic_of(image, place) for place in places]
        try:
            apply(image, record)
        except FoldError as error:
            self._trouble(row, name, error)
            return
        n = 0
        for (kind, key), was, topic in zip(places, before, topics, strict=True):
            now = kind.at(image, key)
            if was is None and now is None:
                continue
            self._version(kind, key, was, now)
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
                    topic or topic_of(image, (kind, key)),
                    op,
                    _json(was),
                    _json(now),
                )
            )
            n += 1

    def _version(self, kind: Kind, key: Key, was: Fields | None, now: Fields | None) -> None:
        """End the entity's row in the history and begin the next one, unless it is unchanged."""
        if was == now and not _holds_secret(kind, now):
            return
        since, moment = self.state.since[kind.entity], Moment(self._row.offset, self._row.timestamp)
        began = since.pop(key, None)
        # A version that a transaction makes and changes again was never visible.
        if was is not None and began is not None and began.offset != moment.offset:
            self.folded.closed[kind.entity].append(Closed(key, was, began, moment))
        if now is not None:
            since[key] = moment
        self.folded.dirty.add((kind.entity, kind.bucket(key)))

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
        return bool(record.feature_level == image.metadata_version) or any(
            map(self._says_again, rows[n + 1 : n + 1 + _LOOK_AHEAD])
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

    def _reset(self, row: Row) -> None:
        """Begin anew at a snapshot: every row of the history ends here, and the snapshot has the
        state.
        """
        image, moment = self._loader.image, Moment(row.offset, row.timestamp)
        for kind in KINDS:
            for key, began in self.state.since[kind.entity].items():
                self.folded.closed[kind.entity].append(
                    Closed(key, kind.at(image, key) or {}, began, moment)
                )
            self.folded.dirty |= {(kind.entity, bucket) for bucket in range(kind.buckets)}
            self.state.since[kind.entity] = {}
        lost = json_text({"nextOffset": self.state.next_offset})
        self.folded.changes.append(
            Change(
                row.offset,
                row.offset,
                -1,
                row.epoch,
                row.timestamp,
                "",
                "log",
                "",
                None,
                RESET,
                lost,
                json_text({"nextOffset": row.offset}),
            )
        )
        self.state.image, self.state.held = Image(), []
        self._begin(self.state.image)

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


def _holds_secret(kind: Kind, fields: Fields | None) -> bool:
    """True if the record holds a secret. It counts as changed each time it is written, because the
    fold does not see its value.
    """
    return fields is not None and (
        kind.entity == "user" or (kind.entity == "config" and fields["value"] == REDACTED)
    )


def _json(fields: Fields | None) -> str | None:
    if fields is None:
        return None
    value = fields.get("value")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        fields = {**fields, "value": str(value)}  # JSON has no infinity
    return json_text(fields)


def current(state: State, entity: str, bucket: int | None = None) -> list[tuple[Key, Moment]]:
    """Return the entities of a kind, or those of one bucket of it, and since when each has its
    state.
    """
    kind = BY_ENTITY[entity]
    return [
        (key, since)
        for key, since in state.since[entity].items()
        if bucket is None or kind.bucket(key) == bucket
    ]
