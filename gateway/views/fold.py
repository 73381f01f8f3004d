"""Folds committed metadata records to the changes of entities that they make, numbered by
``kwire.cluster.view_offsets``.

A metadata transaction (KIP-868) makes its changes at the record that ends it, and none if it is
aborted. Control records and records that change nothing make none. A topic whose partitions or
configs a batch changed has one change at the end of the batch, so that a new topic of 10,000
partitions does not change 10,000 times. It encodes nothing (``gateway.views.encode``), and keeps no
more than the image. A record that cannot be decoded or does not fit is passed over, as in
``gateway.sources.metadata_batch_loader``, so that the changes are those of the image that brokers
have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kwire.cluster import FoldError, Image, Loader, apply
from kwire.cluster import view_offsets as offsets
from kwire.cluster.affected_entities import affected_entities
from kwire.cluster.entities import BY_KIND, KINDS
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.cluster.kind import Key, Kind, State
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records import BatchHeader, Record, decode_control_record, decode_metadata_record

CREATED: Final = "c"
UPDATED: Final = "u"
DELETED: Final = "d"
READ: Final = "r"
#: Sentences kept about records that were passed over.
NOTICES_MAX: Final = 20


class Source(NamedTuple):
    """The record of the metadata log that made a change, or the end of the snapshot that has the
    entity: then ``record_type`` is None, and ``offset`` the last one that the snapshot stands for.

    ``transaction_end`` is the offset of the record that ended the metadata transaction, if the
    record belongs to one.
    """

    offset: int
    epoch: int
    record_type: str | None
    record_version: int
    transaction_end: int | None


class Change(NamedTuple):
    """A change of one entity. ``timestamp`` is that of the log's record, ms."""

    offset: int
    timestamp: int
    epoch: int
    kind: Kind
    op: str
    before: State | None
    after: State | None
    source: Source


class Snapshot(NamedTuple):
    """The end of a snapshot that the log begins with: all its entities were told before, the first
    one at ``first_offset`` of the views. ``timestamp`` is that of the last record in it, ms.
    """

    end_offset: int
    epoch: int
    first_offset: int
    entities: int
    timestamp: int


class _Shaped(NamedTuple):
    """A topic whose partitions or configs the batch changed: as the last change left it, and the
    record that changed them last.
    """

    before: State | None
    source: Source


class ViewOverflow(Exception):
    """One record, transaction or snapshot has more changes than there are offsets for."""


class ViewFold:
    """Folds batches in offset order, from offset 0 or from the first batch of a snapshot on.

    ``in_snapshot`` is true between the header and the footer of a snapshot.
    """

    def __init__(self) -> None:
        self._loader = Loader()
        self._made: list[Change] = []
        self._origin: dict[int, tuple[int, int, str, int, Message]] = {}
        self._shaped: dict[Key, _Shaped] = {}
        # The record that makes the changes now, its timestamp and epoch, and the next number.
        self._at, self._timestamp, self._epoch, self._number = 0, -1, -1, 0
        self._began = False
        self.in_snapshot = False
        #: A sentence about each record that was passed over, up to ``NOTICES_MAX``.
        self.notices: list[str] = []
        self._snapshot_ms = -1

    @property
    def image(self) -> Image:
        """The state after the batches so far."""
        return self._loader.image

    def take(
        self, header: BatchHeader, slices: Iterable[Sequence[Record]]
    ) -> Iterator[Change | Snapshot | None]:
        """Fold the records of one batch, and yield the changes that they make, in offset order, and
        None after each slice; behind the entities of a snapshot a Snapshot.

        The caller takes all of them before the next call. Raises ViewOverflow, after which the fold
        cannot continue.
        """
        epoch, ended = header.partition_leader_epoch, False
        for records in slices:
            if header.is_control:
                ended = self._control(records) or ended
            else:
                for record in records:
                    self._record(record, epoch)
                    yield from self._made
                    self._made.clear()
            yield None
        yield from self._topics()
        self._began = True
        self._loader.skip_to(header.next_offset, epoch)
        if ended:
            yield from self._state(header.next_offset, epoch)

    def _record(self, record: Record, epoch: int) -> None:
        loader, offset = self._loader, record.offset
        self._at, self._timestamp, self._epoch = offset, record.timestamp, epoch
        self._number = offsets.at(offset)
        try:
            name, version, message = decode_metadata_record(record.value or b"")
        except DecodeError as error:
            self._pass_over(offset, str(error))
            return
        self._origin[id(message)] = offset, epoch, name, version, message
        loader.load(message, offset, epoch, refused=self._refused, change=self._change)
        if not loader.in_transaction:
            self._origin.clear()

    def _refused(self, error: FoldError) -> None:
        self._pass_over(self._at, str(error))

    def _pass_over(self, offset: int, text: str) -> None:
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(f"log, offset {offset}: {text}; passed over in the views")

    def _change(self, image: Image, record: Message) -> None:
        # The records of a snapshot are no changes: together they are the state at its end.
        if self.in_snapshot:
            apply(image, record)
            return
        places = _places(image, record)
        before = [kind.find(image, key) for kind, key in places]
        topic = _shaped_by(image, record)
        told = None if topic is None else self._told(topic)
        apply(image, record)
        if not places:
            return
        offset, epoch, name, version, _ = self._origin[id(record)]
        end = None if self._at == offset else self._at
        source = Source(offset, epoch, name, version, end)
        if topic is not None:
            self._shaped[topic] = _Shaped(told, source)
        for (kind, key), was in zip(places, before, strict=True):
            if kind is _TOPIC and key in self._shaped:
                was = self._shaped.pop(key).before  # it is deleted
            now = kind.find(image, key)
            if (was is None and now is None) or (kind is not _PARTITION and was == now):
                continue  # every change of a partition raises its epoch, so it is not compared
            op = DELETED if now is None else CREATED if was is None else UPDATED
            self._made.append(
                Change(self._next(), self._timestamp, self._epoch, kind, op, was, now, source)
            )

    def _told(self, topic: Key) -> State | None:
        """Return a topic as the last change left it."""
        shaped = self._shaped.get(topic)
        return _TOPIC.find(self.image, topic) if shaped is None else shaped.before

    def _topics(self) -> Iterator[Change | None]:
        """Yield the change of each topic whose partitions or configs the batch changed, behind the
        changes of its last record; None for one that is as before.
        """
        for key, (was, source) in self._shaped.items():
            now = _TOPIC.find(self.image, key)
            if was == now:
                yield None
                continue
            at, made = self._next(), self._timestamp  # the last record's: times rise with offsets
            yield Change(at, made, self._epoch, _TOPIC, UPDATED, was, now, source)
        self._shaped.clear()

    def _next(self) -> int:
        number = self._number
        if number - offsets.at(self._at) >= offsets.CHANGES_MAX:
            raise ViewOverflow(
                f"the record at offset {self._at} makes more than {offsets.CHANGES_MAX} changes"
            )
        self._number = number + 1
        return number

    # --- snapshots
    # ---------------------------------------------------------------------------------------------

    def _control(self, records: Sequence[Record]) -> bool:
        """Take a control batch; True if it ends the snapshot that the fold began with."""
        ended = False
        for record in records:
            try:
                control = decode_control_record(record)
            except DecodeError:
                continue
            if isinstance(control.message, SnapshotHeaderRecord) and not self._began:
                self.in_snapshot = True
                self._snapshot_ms = control.message.last_contained_log_timestamp
            elif control.name == "SNAPSHOT_FOOTER" and self.in_snapshot:
                self.in_snapshot, ended = False, True
        self._began = True
        return ended

    def _state(self, end_offset: int, epoch: int) -> Iterator[Change | Snapshot]:
        """Yield every entity of the snapshot that ends at ``end_offset``, and its end."""
        image, first = self.image, offsets.of_snapshot(end_offset)
        source = Source(end_offset - 1, epoch, None, 0, None)
        number, end = first, offsets.of_complete(end_offset)
        for kind in KINDS:
            for key in kind.keys(image):
                state = kind.find(image, key)
                if state is None:
                    continue
                if number >= end:
                    raise ViewOverflow(f"the snapshot at {end_offset} has too many entities")
                yield Change(number, self._snapshot_ms, epoch, kind, READ, None, state, source)
                number += 1
        yield Snapshot(end_offset, epoch, first, number - first, self._snapshot_ms)


_PARTITION: Final = BY_KIND["partition"]
_TOPIC: Final = BY_KIND["topic"]
#: Kinds whose entities have parts, which ``touched`` names: the length of the keys of the entities.
_KEY_LENGTH: Final = {
    kind.kind: len(kind.records[0].key) for kind in KINDS if kind.member is not None
}


def _places(image: Image, record: Message) -> list[tuple[Kind, Key]]:
    """Return the entities that ``record`` may change, each once."""
    places = {
        (kind, key[: _KEY_LENGTH[kind]] if kind in _KEY_LENGTH else key): None
        for kind, key in affected_entities(image, record)
    }
    return [(BY_KIND[kind], key) for kind, key in places]


def _shaped_by(image: Image, record: Any) -> Key | None:
    """Return the topic whose number of partitions, replication factor or configs ``record`` may
    change, besides one that it creates or deletes.
    """
    match record.NAME:
        case "PartitionChangeRecord":
            # Nearly every record of a busy log comes by here.
            changes = record.replicas is not None or record.adding_replicas is not None
            return (record.topic_id,) if changes else None
        case "PartitionRecord":
            return (record.topic_id,)
        case "ConfigRecord" if record.resource_type == TOPIC_RESOURCE:
            topic_id = image.topic_ids.get(record.resource_name)
            return None if topic_id is None else (topic_id,)
        case _:
            return None
