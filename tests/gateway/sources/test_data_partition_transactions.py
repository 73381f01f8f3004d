"""Transactions on a partition that holds data: what readers of committed records see, and that a
start makes of the files what was there before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.produce.producer_state import ProducerState
from gateway.broker.produce.refusal import BatchRefused
from gateway.log.files.disk import Disk, doing
from gateway.ports.replicas import Appended
from gateway.sources.data_partition import DataPartition
from kwire.protocol import ErrorCode
from tests.gateway.sources.data_partitions import (
    SETTINGS,
    appended,
    batch_of,
    kill,
    led,
    partition,
    record,
    settle,
)
from tests.gateway.sources.transactions import Model, committed, end, produce, stable

SMALL = replace(SETTINGS, segment_bytes=600)


def newest(states: Iterable[ProducerState]) -> list[Any]:
    """The facts that a snapshot has of producers."""
    return [
        (
            one.producer_id,
            one.epoch,
            one.coordinator_epoch,
            one.timestamp,
            one.txn_first_offset,
            list(one.batches)[-1:],
        )
        for one in states
    ]


def states(one: DataPartition) -> list[ProducerState]:
    return one.stored.producers.states.all()


def files(directory: Path, suffix: str) -> dict[str, bytes]:
    """The content of files; one that was only created counts as none."""
    found = {path.stem: path.read_bytes() for path in sorted(directory.glob(f"*{suffix}"))}
    return {stem: data for stem, data in found.items() if data}


def test_a_transaction_may_ask_the_coordinator_while_the_log_is_opened(tmp_path: Path) -> None:
    one = partition(tmp_path / "t-0")
    one.lead(record(1))
    batches = [
        batch_of(b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        batch_of(b"w", producer_id=7, producer_epoch=0, base_sequence=1, is_transactional=True),
    ]
    # The first asks before a thread opens the log, and hears the answer when it is open.
    asked = one.begin_verification(batches[0])
    settle(one)
    assert isinstance(appended(one, batches[0], asked), Appended)
    assert one.begin_verification(batches[1]) is None
    assert isinstance(appended(one, batches[1]), Appended)


def test_readers_of_committed_records_stop_at_the_first_open_transaction(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    appended(one, batch_of(b"a"))
    produce(one, 7, 0, b"b", b"c")
    appended(one, batch_of(b"d"))
    assert (stable(one), one.high_watermark) == (1, 4)
    assert committed(one) == [b"a"]
    end(one, 7, commit=True)
    assert (stable(one), one.high_watermark) == (5, 5)
    assert committed(one) == [b"a", b"b", b"c", b"d"]


def test_records_of_an_aborted_transaction_are_named(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    produce(one, 7, 0, b"a")
    produce(one, 8, 0, b"b")
    end(one, 7, commit=False)
    assert stable(one) == 1
    end(one, 8, commit=True)
    assert committed(one) == [b"b"]
    _, named = one.read_committed(0, 1 << 20)
    assert [tuple(each) for each in named] == [(7, 0)]
    assert one.read_committed(3, 1 << 20)[1] == []
    assert len(files(tmp_path / "t-0", ".txnindex")) == 1


def test_a_reader_between_the_two_ends_gets_nothing(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    produce(one, 7, 0, b"a")
    produce(one, 7, 1, b"b")
    for offset in (0, 1, 2):
        assert one.read_committed(offset, 100)[0].size == 0


def test_producers_tell_of_their_open_transaction(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    produce(one, 7, 0, b"a")
    (found,) = one.producers()
    assert (found.txn_start_offset, found.coordinator_epoch, found.last_sequence) == (0, -1, 0)
    end(one, 7, commit=True, coordinator=4)
    (found,) = one.producers()
    assert (found.txn_start_offset, found.coordinator_epoch) == (-1, 4)


def test_a_marker_of_an_older_coordinator_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    produce(one, 7, 0, b"a")
    end(one, 7, commit=True, coordinator=4)
    outcome = end(one, 7, commit=True, coordinator=3)
    assert isinstance(outcome, BatchRefused)
    assert outcome.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert one.high_watermark == 2


def test_a_batch_that_the_coordinator_did_not_agree_to_is_refused(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    batch = batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    outcome = appended(one, batch)
    assert isinstance(outcome, BatchRefused) and outcome.error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("seed", range(6))
def test_every_start_finds_the_producers_and_transactions_again(seed: int, tmp_path: Path) -> None:
    directory, model = tmp_path / "t-0", Model(seed)
    one = led(directory, SMALL)
    for round_ in range(4):
        for _ in range(25):
            model.step(one)
            model.check(one)
        before, indexes = newest(states(one)), files(directory, ".txnindex")
        if round_ % 2:
            one.close()
        else:
            kill(one)
        one = led(directory, SMALL, epoch=2 + round_)
        assert newest(states(one)) == before
        assert files(directory, ".txnindex") == indexes
        model.check(one)
    # The same without any file that follows from the batches.
    before, indexes = newest(states(one)), files(directory, ".txnindex")
    one.close()
    for path in [*directory.glob("*.snapshot"), *directory.glob("*.txnindex")]:
        path.unlink()
    one = led(directory, SMALL, epoch=9)
    assert newest(states(one)) == before
    assert files(directory, ".txnindex") == indexes
    model.check(one)
    one.close()


def test_the_five_newest_batches_are_recognized_after_a_clean_stop(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    for sequence in range(7):
        produce(one, 7, sequence, b"v", is_transactional=False)
    one.close()
    one = led(tmp_path / "t-0", epoch=2)
    for sequence in (2, 4, 6):
        outcome = produce(one, 7, sequence, b"v", is_transactional=False)
        assert isinstance(outcome, Appended) and outcome.base_offset == sequence
    assert one.high_watermark == 7


@pytest.mark.parametrize("suffix", [".snapshot", ".txnindex"])
def test_a_damaged_file_is_made_anew(suffix: str, tmp_path: Path) -> None:
    directory, model = tmp_path / "t-0", Model(3)
    one = led(directory, SMALL)
    for _ in range(60):
        model.step(one)
    one.close()
    indexes = files(directory, ".txnindex")
    for path in directory.glob(f"*{suffix}"):
        path.write_bytes(path.read_bytes()[:-1])
    one = led(directory, SMALL, epoch=2)
    model.check(one)
    assert files(directory, ".txnindex") == indexes


def test_a_start_reads_no_batch_below_the_newest_snapshot_for_producers(tmp_path: Path) -> None:
    directory, model = tmp_path / "t-0", Model(5)
    one = led(directory, SMALL)
    for _ in range(60):
        model.step(one)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    assert len(bases) > 3
    kill(one)
    one = led(directory, SMALL, epoch=2)
    assert one.stored.producers._folds_from == bases[-1]


def test_files_go_with_their_segments(tmp_path: Path) -> None:
    directory, model = tmp_path / "t-0", Model(4)
    one = led(directory, replace(SMALL, retention_bytes=0))
    for _ in range(60):
        model.step(one)
    # All batches are of the second 1: they are too old.
    one.clean(10**15)
    settle(one)
    bases = {path.stem for path in directory.glob("*.log")}
    for suffix in (".snapshot", ".txnindex"):
        assert {path.stem for path in directory.glob(f"*{suffix}")} <= bases
    assert stable(one) >= one.log_start_offset
    # Its transactions of before the roll are open still; a new one is in the new segment's index.
    produce(one, 50, 0, b"a")
    end(one, 50, commit=False)
    (name,) = files(directory, ".txnindex")
    assert name == max(path.stem for path in directory.glob("*.log"))


class FullDisk(Disk):
    """Has no space for the files of producers while ``is_full``."""

    is_full = False

    def open(self, path: Path) -> Any:
        if self.is_full and path.suffix in (".txnindex", ".tmp"):
            with doing("open", path):
                raise OSError(28, "No space left on device")
        return super().open(path)


def test_a_marker_whose_index_cannot_be_written_is_asked_for_again(tmp_path: Path) -> None:
    disk = FullDisk(fsync=False)
    one = led(tmp_path / "t-0", disk=disk)
    produce(one, 7, 0, b"a")
    disk.is_full = True
    outcome = end(one, 7, commit=False)
    assert isinstance(outcome, BatchRefused)
    assert outcome.error is ErrorCode.KAFKA_STORAGE_ERROR
    disk.is_full = False
    one.clean(0)
    settle(one)
    outcome = end(one, 7, commit=False)
    assert isinstance(outcome, Appended)
    assert committed(one) == []
    assert len(files(tmp_path / "t-0", ".txnindex")) == 1


def test_producers_that_were_silent_for_long_are_forgotten_but_for_open_transactions(
    tmp_path: Path,
) -> None:
    one = led(tmp_path / "t-0", replace(SETTINGS, retention_ms=-1, producer_id_expiration_ms=1000))
    produce(one, 7, 0, b"a")
    produce(one, 8, 0, b"b")
    end(one, 7, commit=True)
    last = max(state.timestamp for state in states(one))
    one.clean(last + 999)
    settle(one)
    assert {state.producer_id for state in states(one)} == {7, 8}
    one.clean(last + 1000)
    settle(one)
    assert [state.producer_id for state in states(one)] == [8]
