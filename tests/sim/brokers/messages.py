"""Requests of simulated clients, and their answers. Brokers among each other and with controllers
use Kafka's messages.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.broker.produce.producer_state import CompletedTxn
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.sim.brokers.partition_log import Entry

Key = tuple[Uuid, int]


class Produce(NamedTuple):
    """Append a batch, which has no offset yet."""

    key: Key
    entry: Entry
    acks: int


class Produced(NamedTuple):
    """The answer: an error, or where the batch is."""

    error: ErrorCode
    offset: int = -1


class Consume(NamedTuple):
    """Read committed batches from an offset on. ``follower``: also of a replica that follows."""

    key: Key
    offset: int
    read_committed: bool
    follower: bool


class Consumed(NamedTuple):
    """The batches that were read. ``aborted``: the aborted transactions among them, if only
    committed ones are read.
    """

    error: ErrorCode
    entries: tuple[Entry, ...] = ()
    high_watermark: int = -1
    start_offset: int = -1
    aborted: tuple[CompletedTxn, ...] = ()


class DeleteRecords(NamedTuple):
    """Move the log start; -1: to the high watermark."""

    key: Key
    before: int


class FindOffsets(NamedTuple):
    """ListOffsets of a replica: where the leader's log begins and ends."""

    key: Key
    leader_epoch: int


class FoundOffsets(NamedTuple):
    """The answer to FindOffsets."""

    error: ErrorCode
    start: int = -1
    end: int = -1
