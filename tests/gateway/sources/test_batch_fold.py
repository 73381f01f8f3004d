"""A batch with runs of partitions is folded as one record after the other, whatever is in it."""

from __future__ import annotations

import pytest

from gateway.sources.batch_fold import BatchFold
from kwire.cluster import Image
from kwire.message import Message
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.records import Record, encode_batch, encode_metadata_record
from kwire.records.batch import decode_batch, decode_pieces
from kwire.records.runs import Run
from kwire.uuid import Uuid
from tests.reference_cycles import no_reference_cycles


def topic(number: int) -> TopicRecord:
    return TopicRecord(topic_id=Uuid(bytes([number]) * 16), name=f"t{number}")


def partitions(number: int, count: int) -> list[Message]:
    found: list[Message] = [
        PartitionRecord(
            partition_id=n,
            topic_id=Uuid(bytes([number]) * 16),
            replicas=[n % 3],
            isr=[n % 3],
            leader=n % 3,
            directories=[Uuid(bytes([9]) * 16)],
        )
        for n in range(count)
    ]
    return found


def folded(records: list[Message], version: int, *, runs: bool, damaged: bool) -> BatchFold:
    fold = BatchFold()
    values = []
    for one in records:
        at = 0
        if isinstance(one, PartitionRecord):
            at = version
            if not version:
                one = one.copy(directories=[])
        values.append(encode_metadata_record(one, at))
    if damaged:
        values[20] = values[20][:-1] + b"\1"  # a tagged field that is not there
    data = encode_batch([Record(offset=n, value=one) for n, one in enumerate(values)])
    header, found = decode_pieces(data)
    assert any(isinstance(one, Run) for one in found)
    fold.take_log(header, found if runs else decode_batch(data).records)
    return fold


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "records",
    [
        [topic(1), *partitions(1, 40), topic(2), *partitions(2, 30)],
        [topic(1), *partitions(1, 40), *partitions(2, 30), topic(2)],
        [topic(1), BeginTransactionRecord(), *partitions(1, 40), EndTransactionRecord()],
        [topic(1), BeginTransactionRecord(), *partitions(1, 40), AbortTransactionRecord()],
        [topic(1), *partitions(1, 40), BeginTransactionRecord(), *partitions(1, 40)],
    ],
    ids=["all", "one does not exist", "transaction", "aborted", "open"],
)
def test_runs_are_folded_as_single_records(
    records: list[Message], version: int, damaged: bool
) -> None:
    one, other = (folded(records, version, runs=runs, damaged=damaged) for runs in (True, False))
    assert one.image == other.image != Image()
    assert one.take_counts() == other.take_counts()
    assert (one.position, one.taken, one.last_control, one.in_transaction, one.aligned) == (
        other.position, other.taken, other.last_control, other.in_transaction, other.aligned
    )  # fmt: skip


def test_fold_that_is_dropped_releases_its_image() -> None:
    with no_reference_cycles(BatchFold, Image):
        folded([topic(1), *partitions(1, 40)], 1, runs=True, damaged=False)
