"""Holds the state of a scripted cluster: nodes, one topic of one partition, a group, producers.

Rules change it while a program runs; ``lock`` guards every access. It answers nothing by itself.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field
from typing import Final

from kwire.records import Compression, Record, encode_batch
from kwire.uuid import Uuid

#: Timestamp of the first known record, ms; each further one is a second later.
_FIRST_MS: Final = 1_700_000_000_000
#: Bytes of records that a program may write in one check.
_WRITTEN_MAX: Final = 64 * 1024 * 1024
_BATCHES: Final = 6
_RECORDS_A_BATCH: Final = 5


@dataclass(frozen=True)
class Batch:
    """A batch of the log. ``values`` are those that a consumer gets, in order."""

    base: int
    last: int
    data: bytes
    values: tuple[bytes, ...] = ()


@dataclass
class Log:
    """The partition's log."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.batches[-1].last + 1 if self.batches else self.start

    def at(self, offset: int) -> Batch | None:
        """The batch that has the first record at ``offset`` or behind it."""
        return next((batch for batch in self.batches if batch.last >= offset), None)

    def values(self) -> list[bytes]:
        """Every value that a consumer gets who reads from the beginning."""
        return [value for batch in self.batches for value in batch.values]


@dataclass
class Group:
    """The only group, which has one member at most."""

    coordinator: int = 1
    member: str = ""
    #: The id that was given with MEMBER_ID_REQUIRED.
    promised: str = ""
    generation: int = 0
    protocol: str = ""
    metadata: bytes = b""
    assignment: bytes = b""
    committed: int = -1


@dataclass
class Producer:
    """An idempotent producer: its last batches as (first sequence, records, base offset)."""

    epoch: int = 0
    batches: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def next_sequence(self) -> int:
        """The sequence number that has to come next."""
        return self.batches[-1][0] + self.batches[-1][1] if self.batches else 0


@dataclass
class State:
    """Everything that the nodes share. Nodes have the numbers 1 to n."""

    topic: str
    topic_id: Uuid = field(default_factory=lambda: Uuid(secrets.token_bytes(16)))
    leader: int = 1
    epoch: int = 5
    #: (epoch, first offset), ascending.
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(5, 0)])
    log: Log = field(default_factory=Log)
    group: Group = field(default_factory=Group)
    producers: dict[int, Producer] = field(default_factory=dict)
    #: Node -> (host, port) in Metadata.
    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    controller: int = 1
    #: How long a SASL session lasts, ms; 0: for ever.
    session_ms: int = 0
    #: Versions that ApiVersions names, where they are not those of the codec.
    offered: dict[int, tuple[int, int]] = field(default_factory=dict)
    #: Values that a producer wrote, in order of the log, and the bytes that further ones may take.
    written: list[bytes] = field(default_factory=list)
    room: int = _WRITTEN_MAX
    lock: threading.RLock = field(default_factory=threading.RLock)

    def move_leader(self, to: int) -> None:
        """Elect another leader, with the next epoch."""
        with self.lock:
            self.leader, self.epoch = to, self.epoch + 1
            self.epochs.append((self.epoch, self.log.end))


def new_token() -> str:
    """Return a random text that marks the values of one run."""
    return secrets.token_hex(3)


def fill(
    log: Log, token: str, *, batches: int = _BATCHES, compression: Compression = Compression.NONE
) -> None:
    """Append batches of known records."""
    for _ in range(batches):
        log.batches.append(known_batch(log.end, token, compression=compression))


def value_of(token: str, offset: int) -> bytes:
    """The value of the known record at an offset."""
    return f"kwire-{token}-{offset:05}".encode()


def known_batch(
    base: int,
    token: str,
    *,
    records: int = _RECORDS_A_BATCH,
    compression: Compression = Compression.NONE,
    epoch: int = 5,
) -> Batch:
    """A batch of known records, which begins at offset ``base``."""
    values = tuple(value_of(token, base + number) for number in range(records))
    listed = [
        Record(offset=base + number, timestamp=_FIRST_MS + 1000 * (base + number), value=value)
        for number, value in enumerate(values)
    ]
    data = encode_batch(listed, partition_leader_epoch=epoch, compression=compression)
    return Batch(base, base + records - 1, data, values)
