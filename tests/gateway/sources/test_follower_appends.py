"""The log of a partition that another broker leads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.replica.followed import Append, CutTo, Position, StartAt, Truncate
from gateway.ports.replicas import Appended
from gateway.ports.services import Isolation
from gateway.sources.data_partition import DataPartition
from gateway.sources.follower_appends import NotReplicated
from gateway.sources.leader_appends import SLOW_S
from kwire.records import Record, encode_batch
from tests.gateway.sources.data_partitions import (
    SETTINGS,
    Ticking,
    appended,
    batch_of,
    led,
    record,
    record_of_leader,
    settle,
)
from tests.gateway.sources.followings import (
    answer_of,
    carry_out,
    catch_up,
    files,
    followed,
    following,
    position,
    same,
)
from tests.gateway.sources.transactions import end, produce, stable

SMALL = replace(SETTINGS, segment_bytes=250)


def batch(base: int, *values: bytes, epoch: int = 1, **more: Any) -> bytes:
    """A batch of a leader."""
    records = [Record(offset=base + at, timestamp=5, value=one) for at, one in enumerate(values)]
    return encode_batch(records, base_offset=base, partition_leader_epoch=epoch, **more)


def leader_and_follower(directory: Path) -> tuple[Any, DataPartition]:
    """Two replicas of a partition in small segments, both empty and in epoch 1."""
    leader = led(directory / "a" / "t-0", SMALL)
    return leader, following(directory / "b" / "t-0", 1, SMALL)


def append(
    one: DataPartition, records: bytes | None, high_watermark: int = 0, log_start: int = 0
) -> Position | NotReplicated:
    return carry_out(one, Append(followed(one), records, high_watermark, log_start))


# --- appends
# -------------------------------------------------------------------------------------------------


def test_batches_are_kept_as_the_leader_wrote_them(tmp_path: Path) -> None:
    leader = led(tmp_path / "a" / "t-0", SMALL, epoch=3)
    one = following(tmp_path / "b" / "t-0", 3, SMALL)
    for number in range(10):
        appended(leader, batch_of(b"%d" % number, b"more"))
    catch_up(leader, one)
    suffixes = (".log", ".index", ".timeindex")
    assert files(one, *suffixes) == files(leader, *suffixes)
    assert len(files(one, ".log")) > 2
    checkpoints = [some.directory / "leader-epoch-checkpoint" for some in (leader, one)]
    assert checkpoints[0].read_bytes() == checkpoints[1].read_bytes()


def test_append_that_begins_no_segment_is_made_at_once(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    outcomes: list[object] = []
    one.follower.take(Append(followed(one), batch(0, b"a"), 0, 0), outcomes.append)
    assert outcomes == [Position(0, 1, 1)]
    assert not one.has_jobs


def test_append_while_the_disk_is_slow_is_a_job(tmp_path: Path) -> None:
    clock = Ticking()
    one = following(tmp_path / "t-0", clock=clock)
    clock.step = SLOW_S * 1.1
    append(one, batch(0, b"a"))
    outcomes: list[object] = []
    one.follower.take(Append(followed(one), batch(1, b"b"), 0, 0), outcomes.append)
    assert outcomes == [] and one.has_jobs
    settle(one)
    assert outcomes == [Position(0, 2, 1)]


def test_gaps_of_a_compacted_log_are_kept(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    assert append(one, batch(5, b"a") + batch(9, b"b")) == Position(0, 10, 1)


def test_unfinished_batch_at_the_end_of_an_answer_is_left_out(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    assert append(one, batch(0, b"a") + batch(1, b"b")[:-3]) == Position(0, 1, 1)


def test_batches_of_a_newer_epoch_than_the_leaders_are_left_out(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0", 2)
    data = batch(0, b"a", epoch=2) + batch(1, b"b", epoch=3)
    assert append(one, data) == Position(0, 1, 2)
    assert isinstance(append(one, batch(1, b"b", epoch=3)), NotReplicated)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(batch(0, b"x"), id="offset-that-is-there"),
        pytest.param(batch(1, b"x", epoch=0), id="older-epoch"),
        pytest.param(batch(1, b"x")[:-1] + b"\xff", id="wrong-crc"),
        pytest.param(batch(2**63 - 2, b"x", b"y"), id="largest-offset"),
        pytest.param(b"\x00" * 100, id="no-batch"),
        pytest.param(batch(1, b"x")[:40], id="no-whole-batch"),
        pytest.param(batch(1, b"x") + batch(1, b"y"), id="second-batch-out-of-place"),
    ],
)
def test_records_that_no_leader_sends_leave_the_log_as_it_was(data: bytes, tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    append(one, batch(0, b"a"))
    before = files(one, ".log")
    assert isinstance(append(one, data), NotReplicated)
    assert files(one, ".log") == before
    assert append(one, batch(1, b"b")) == Position(0, 2, 1)


def test_step_of_an_older_leader_epoch_is_not_carried_out(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0", 1)
    old = Append(followed(one), batch(0, b"a"), 0, 0)
    one.follow(record_of_leader(2))
    assert isinstance(carry_out(one, old), NotReplicated)
    assert position(one).end_offset == 0


def test_step_that_waited_is_not_carried_out_by_a_leader(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0", 1, SMALL)
    outcomes: list[object] = []
    one.follower.take(CutTo(followed(one), 0), outcomes.append)
    one.lead(record(2))
    settle(one)
    assert [type(outcome) for outcome in outcomes] == [NotReplicated]


# --- high watermark and log start
# -------------------------------------------------------------------------------------------------


def test_high_watermark_is_the_leaders_up_to_the_own_end(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    append(one, batch(0, b"a", b"b"), high_watermark=1)
    assert one.high_watermark == 1
    append(one, None, high_watermark=9)
    assert one.high_watermark == 2


def test_high_watermark_of_a_new_leader_does_not_take_back_what_is_committed(
    tmp_path: Path,
) -> None:
    one = following(tmp_path / "t-0")
    append(one, batch(0, b"a", b"b"), high_watermark=2)
    one.follow(record_of_leader(2))
    append(one, None, high_watermark=1)
    assert one.high_watermark == 2


def test_log_start_follows_the_leaders(tmp_path: Path) -> None:
    leader, one = leader_and_follower(tmp_path)
    for _ in range(10):
        appended(leader, batch_of(b"a" * 50))
    catch_up(leader, one)
    leader.delete_records(7, lambda outcome: None)
    settle(leader)
    catch_up(leader, one)
    assert position(one).start_offset == 7
    assert files(one, ".log").keys() == files(leader, ".log").keys()
    one.close()
    assert position(following(tmp_path / "b" / "t-0", 1, SMALL)).start_offset == 7


def test_log_start_does_not_pass_the_high_watermark(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    outcome = append(one, batch(0, b"a", b"b", b"c"), high_watermark=1, log_start=2)
    assert outcome == Position(1, 3, 1)


# --- producers
# -------------------------------------------------------------------------------------------------


def sequenced(number: int) -> Any:
    return batch_of(b"%d" % number, producer_id=7, producer_epoch=0, base_sequence=number)


def test_follower_that_becomes_the_leader_knows_the_producers_batches(tmp_path: Path) -> None:
    leader = led(tmp_path / "a" / "t-0")
    one = following(tmp_path / "b" / "t-0")
    first = [appended(leader, sequenced(number)) for number in range(3)]
    catch_up(leader, one)
    one.lead(record(2))
    settle(one)
    again = appended(one, sequenced(2))
    assert isinstance(again, Appended) and isinstance(first[2], Appended)
    assert again.base_offset == first[2].base_offset
    following_one = appended(one, sequenced(3))
    assert isinstance(following_one, Appended) and following_one.base_offset == 3


def test_transactions_of_the_leader_are_those_of_the_follower(tmp_path: Path) -> None:
    leader, one = leader_and_follower(tmp_path)
    for number in range(6):
        produce(leader, number % 2, number // 2, b"%d" % number)
        produce(leader, 9, number, b"open for long")
        end(leader, number % 2, commit=number % 3 == 0)
    catch_up(leader, one, most=1)
    assert same(leader, one)
    assert files(one, ".txnindex") == files(leader, ".txnindex")
    assert stable(one) == stable(leader) < one.high_watermark
    one.close()
    again = following(tmp_path / "b" / "t-0", 1, SMALL)
    assert same(leader, again)


def test_segments_begin_with_a_snapshot_of_the_producers(tmp_path: Path) -> None:
    leader, one = leader_and_follower(tmp_path)
    for number in range(10):
        appended(leader, sequenced(number))
    catch_up(leader, one)
    assert files(one, ".snapshot") == files(leader, ".snapshot") != {}


# --- truncation
# -------------------------------------------------------------------------------------------------


def test_other_history_is_cut_off_and_replaced(tmp_path: Path) -> None:
    leader, one = leader_and_follower(tmp_path)
    for number in range(4):
        appended(leader, sequenced(number))
    catch_up(leader, one)
    # This node leads without the other one, which is then elected although it has less.
    one.lead(record(2))
    for number in range(4, 12):
        appended(one, sequenced(number))
    leader.lead(record(3))
    settle(leader)
    appended(leader, batch_of(b"other"))
    one.follow(record_of_leader(3))
    steps = catch_up(leader, one)
    assert [type(step) for step in steps] == [Truncate, Append, Append]
    assert same(leader, one)
    assert one.high_watermark <= position(one).end_offset


def test_batch_that_was_cut_off_is_new_when_its_producer_sends_it_again(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0", SMALL)
    for number in range(8):
        appended(one, sequenced(number))
    one.follow(record_of_leader(2))
    assert isinstance(carry_out(one, CutTo(followed(one), 3)), Position)
    one.lead(record(3))
    settle(one)
    outcome = appended(one, sequenced(3))
    assert isinstance(outcome, Appended) and outcome.base_offset == 3


#: A producer's first batch, as the leader of epoch 1 wrote it.
FIRST = batch(0, b"0", producer_id=7, producer_epoch=0, base_sequence=0)


def test_batch_of_another_history_is_new_when_the_leader_has_deleted_what_tells(
    tmp_path: Path,
) -> None:
    one = following(tmp_path / "t-0", 1, SMALL)
    append(one, FIRST)
    one.follow(record_of_leader(3))
    # The leader of epoch 3 had another record there, committed and deleted.
    outcome = append(one, batch(1, b"a", epoch=3), high_watermark=1, log_start=1)
    assert outcome == Position(1, 2, 3)
    one.lead(record(4))
    settle(one)
    again = appended(one, sequenced(0))
    assert isinstance(again, Appended) and again.base_offset == 2


def test_producers_are_kept_when_the_leader_has_compared_the_logs_before_it_deleted_its_records(
    tmp_path: Path,
) -> None:
    one = following(tmp_path / "t-0", 1, SMALL)
    append(one, FIRST)
    one.follow(record_of_leader(3))
    step = Append(followed(one), None, 1, 1, is_compared=True)
    assert carry_out(one, step) == Position(1, 1, 1)
    one.lead(record(4))
    settle(one)
    again = appended(one, sequenced(0))
    assert isinstance(again, Appended) and again.base_offset == 0


def test_producers_of_a_follower_in_sync_outlive_the_deletion_of_their_records(
    tmp_path: Path,
) -> None:
    one = following(tmp_path / "t-0", 1, SMALL)
    append(one, FIRST, high_watermark=1)
    one.follow(record_of_leader(3))
    append(one, batch(1, b"a", epoch=3), high_watermark=1, log_start=1)
    one.lead(record(4))
    settle(one)
    again = appended(one, sequenced(0))
    assert isinstance(again, Appended) and again.base_offset == 0


def test_transaction_whose_marker_was_cut_off_is_open_again(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    produce(one, 1, 0, b"a")
    end(one, 1, commit=False)
    one.follow(record_of_leader(2))
    carry_out(one, CutTo(followed(one), 1))
    assert stable(one) == 0
    assert one.stored.producers.aborted(0, 9) == []


def test_epoch_that_was_begun_without_a_record_is_cut_off(tmp_path: Path) -> None:
    leader = led(tmp_path / "a" / "t-0")
    one = following(tmp_path / "b" / "t-0")
    appended(leader, batch_of(b"a"))
    catch_up(leader, one)
    one.lead(record(2))
    settle(one)
    leader.lead(record(3))
    settle(leader)
    appended(leader, batch_of(b"b"))
    one.follow(record_of_leader(3))
    assert position(one).epoch == 2
    assert [type(step) for step in catch_up(leader, one)] == [Truncate, Append, Append]
    assert same(leader, one)


def test_truncation_that_changes_nothing_is_a_fault(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    append(one, batch(0, b"a"))
    assert isinstance(carry_out(one, Truncate(followed(one), 1, 50)), NotReplicated)


@pytest.mark.parametrize(("offset", "end_offset"), [(9, 9), (7, 7), (6, 6), (11, 10), (40, 12)])
def test_cut_in_a_gap_of_a_compacted_log(offset: int, end_offset: int, tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    append(one, batch(0, b"a", b"b") + batch(5, b"c") + batch(10, b"d", b"e"))
    outcome = carry_out(one, CutTo(followed(one), offset))
    assert outcome == Position(0, end_offset, 1)
    one.close()
    assert position(following(tmp_path / "t-0")).end_offset <= end_offset


@pytest.mark.parametrize("offset", [0, 2, 3])
def test_cut_at_or_before_the_log_start_begins_the_log_anew(offset: int, tmp_path: Path) -> None:
    one = following(tmp_path / "t-0", 1, SMALL)
    append(one, b"".join(batch(at, b"a" * 60) for at in range(9)), high_watermark=9, log_start=3)
    assert position(one).start_offset == 3
    assert carry_out(one, CutTo(followed(one), offset)) == Position(offset, offset, -1)
    assert append(one, batch(offset, b"b")) == Position(offset, offset + 1, 1)
    one.close()
    again = following(tmp_path / "t-0", 1, SMALL)
    assert position(again) == Position(offset, offset + 1, 1)


def test_high_watermark_is_never_behind_the_end_of_a_log_that_was_cut(tmp_path: Path) -> None:
    one = following(tmp_path / "t-0")
    append(one, batch(0, b"a") + batch(1, b"b"), high_watermark=2)
    carry_out(one, CutTo(followed(one), 1))
    assert one.high_watermark == 1
    assert one.visible_end(Isolation.LOG_END) == 1


# --- a log outside of the leader's
# -------------------------------------------------------------------------------------------------


def test_log_before_the_leaders_begins_where_the_leaders_does(tmp_path: Path) -> None:
    leader, one = leader_and_follower(tmp_path)
    for number in range(3):
        appended(leader, sequenced(number))
    catch_up(leader, one)
    for number in range(3, 9):
        appended(leader, sequenced(number))
    leader.delete_records(7, lambda outcome: None)
    settle(leader)
    assert [type(step) for step in catch_up(leader, one)] == [StartAt, Append, Append]
    assert position(one) == Position(7, 9, 1)
    one.close()
    again = following(tmp_path / "b" / "t-0", 1, SMALL)
    assert position(again) == Position(7, 9, 1)
    assert isinstance(answer_of(leader, again), Append)


def test_log_that_begins_inside_of_a_batch_gets_the_whole_batch(tmp_path: Path) -> None:
    leader = led(tmp_path / "a" / "t-0")
    one = following(tmp_path / "b" / "t-0")
    appended(leader, batch_of(b"a", b"b", b"c", b"d"))
    leader.delete_records(2, lambda outcome: None)
    settle(leader)
    catch_up(leader, one)
    assert position(one) == Position(2, 4, 1)
    assert files(one, ".log") == files(leader, ".log")
