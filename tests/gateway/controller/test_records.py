"""Operations: record versions, batches, and limits."""

from __future__ import annotations

import pytest

from gateway.controller import records
from gateway.controller.errors import ApiError
from gateway.controller.records import OPERATION_RECORDS_MAX, operation, record_version
from kwire.messages.config_record import ConfigRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.protocol import ErrorCode
from kwire.records.metadata import decode_metadata_record


@pytest.mark.parametrize(
    ("level", "version"), [(7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (30, 2)]
)
def test_partition_record_has_the_version_of_its_level(level: int, version: int) -> None:
    assert record_version(PartitionRecord(), level) == version


def test_records_that_fit_are_one_batch() -> None:
    made = operation("x", [NoOpRecord()] * OPERATION_RECORDS_MAX, 30)
    assert [len(batch) for batch in made.batches] == [OPERATION_RECORDS_MAX]


def test_too_many_records_are_refused() -> None:
    with pytest.raises(ApiError) as refusal:
        operation("x", [NoOpRecord()] * (OPERATION_RECORDS_MAX + 1), 30)
    assert refusal.value.error is ErrorCode.POLICY_VIOLATION


def test_records_beyond_one_batch_are_a_transaction() -> None:
    messages = [
        ConfigRecord(resource_name=str(number), name="n", value="v" * 30_000)
        for number in range(600)
    ]
    made = operation("x", messages, 30)
    names = [decode_metadata_record(value)[2].NAME for batch in made.batches for value in batch]
    assert names == ["BeginTransactionRecord", *["ConfigRecord"] * 600, "EndTransactionRecord"]
    for batch in made.batches:
        assert sum(len(value) for value in batch) < records.BATCH_BYTES_MAX
    with pytest.raises(ApiError) as refusal:
        operation("x", messages, 12)
    assert refusal.value.error is ErrorCode.POLICY_VIOLATION and "transactions" in str(
        refusal.value.message
    )


def test_record_larger_than_a_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BATCH_BYTES_MAX", 1000)
    with pytest.raises(ApiError) as refusal:
        operation("x", [ConfigRecord(value="v" * 1000)], 30)
    assert refusal.value.error is ErrorCode.POLICY_VIOLATION


def test_record_that_the_format_cannot_hold_is_refused() -> None:
    with pytest.raises(ApiError) as refusal:
        operation("x", [ConfigRecord(value="v" * 40_000)], 30)
    assert refusal.value.error is ErrorCode.INVALID_REQUEST


def test_records_that_are_not_atomic_are_appended_in_parts() -> None:
    """In the order of the records, and none of them in a transaction."""
    count = 2 * OPERATION_RECORDS_MAX + 1
    changes = [ConfigRecord(resource_type=2, resource_name="t", name=f"k{n}") for n in range(count)]
    made = operation("fence", changes, 25, atomic=False)
    parts = list(made.parts)
    assert made.offsets == sum(part.offsets for part in parts) == count
    assert all(len(part.batches) == 1 and part.offsets <= 2_000 for part in parts)
    values = [value for part in parts for batch in part.batches for value in batch]
    names = [getattr(decode_metadata_record(value)[2], "name", None) for value in values]
    assert names == [change.name for change in changes]


def test_atomic_operation_is_one_part() -> None:
    made = operation("test", [NoOpRecord()], 25)
    assert list(made.parts) == [made]
