"""The image of Kafka's own logs, transactions, and records that cannot be read."""

from __future__ import annotations

import gc
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.sources.gc_tuning import LOOSE_OBJECTS_MAX
from gateway.sources.metadata_batch_loader import (
    DAMAGED,
    DOES_NOT_FIT,
    UNKNOWN_TYPE,
    UNKNOWN_VERSION,
)
from gateway.sources.metadata_loader import MetadataLoader
from kwire.messages.abort_transaction_record import AbortTransactionRecord
from kwire.messages.begin_transaction_record import BeginTransactionRecord
from kwire.messages.end_transaction_record import EndTransactionRecord
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.records import encode_metadata_record
from kwire.uuid import Uuid
from tests.gateway.sources.loading import (
    follow,
    topics,
)
from tests.gateway.sources.metadata_files import (
    batch,
    control,
    topic,
    values_batch,
    write_segment,
)
from tests.kwire.cluster.kafka_state import state_of, truth
from tests.shared import LOG_NAMES, needs_shared

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


# --- real logs
# -------------------------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_the_image_is_kafkas_at_the_end(name: str, logs: Any) -> None:
    root: Path = logs(name)
    for node in sorted(path.name for path in (root / "nodes").iterdir()):
        end, expected = truth(root / "truth" / node / "state-END.jsonl")
        keeper = MetadataLoader(root / "nodes" / node / "__cluster_metadata-0")
        assert follow(keeper, end) == 1, "the first image is shown when it is whole"
        assert (keeper.loaded, keeper.next_offset, keeper.behind, keeper.problem) == (
            True,
            end,
            0,
            None,
        )
        assert state_of(keeper.image) == expected, node
        assert not keeper.skipped and not keeper.take_notices()


@needs_shared
@pytest.mark.parametrize(
    ("name", "node"), [("p-quorum", "2"), ("p-quorum-short", "101"), ("p-upgrade", "1")]
)
def test_the_image_is_kafkas_at_every_snapshot_on_the_way(
    name: str, node: str, logs: Any, tmp_path: Path
) -> None:
    """Without snapshots to begin with, in steps of any size; the high watermark stands at random
    batch ends in between.
    """
    root: Path = logs(name)
    shutil.copytree(root / "nodes" / node / "__cluster_metadata-0", tmp_path / "log")
    states = dict(truth(path) for path in (root / "truth" / node).glob("state-*.jsonl"))
    first = min(int(path.name[:20]) for path in (tmp_path / "log").glob("*.log"))
    keep = min(
        (
            int(p.name[:20])
            for p in (tmp_path / "log").glob("*.checkpoint")
            if int(p.name[:20]) >= first
        ),
        default=0,
    )
    for path in (tmp_path / "log").glob("*.checkpoint"):
        if int(path.name[:20]) != keep or first == 0:
            path.unlink()
    rng = random.Random(3)
    keeper, checked = MetadataLoader(tmp_path / "log"), 0
    for end in sorted(end for end in states if end >= keep):
        for _ in range(rng.randrange(4)):
            follow(keeper, rng.randrange(max(keeper.next_offset, keep), end + 1))
        follow(keeper, end)
        assert keeper.next_offset == end
        assert state_of(keeper.image) == states[end]
        checked += 1
    assert checked > 1 or name == "p-upgrade"
    assert sum(keeper.records.values()) == max(states) - keep


@needs_shared
def test_records_are_counted_by_type(logs: Any) -> None:
    root: Path = logs("p-one-basic")
    end, _ = truth(root / "truth" / "1" / "state-END.jsonl")
    keeper = MetadataLoader(root / "nodes" / "1" / "__cluster_metadata-0")
    follow(keeper, end)
    assert keeper.records["PARTITION_CHANGE_RECORD"] == 524
    assert keeper.records["LEADER_CHANGE"] == 3
    assert sum(keeper.records.values()) == end
    segment = root / "nodes" / "1" / "__cluster_metadata-0" / "00000000000000000000.log"
    assert keeper.log_bytes == segment.stat().st_size


@needs_shared
def test_a_large_log_in_bounded_steps(logs: Any) -> None:
    """A step on the loop only adopts the thread's work, and no more of the image is left to the
    garbage collector than one collection may visit.
    """
    keeper = MetadataLoader(logs("p-large") / "nodes" / "1" / "__cluster_metadata-0")
    steps = 1
    while keeper.decode_step(136_119):
        assert not keeper.loaded
        keeper.apply_step()
        steps += 1
    keeper.apply_step()
    assert keeper.loaded and steps > 10
    records = [one for some in keeper.image.partitions.values() for one in some.values()]
    collected = set(map(id, gc.get_objects()))  # without those that are frozen
    loose = collected.intersection(map(id, records))
    assert len(records) > 2 * LOOSE_OBJECTS_MAX >= 2 * len(loose) and gc.isenabled()


# --- transactions
# -------------------------------------------------------------------------------------------------


def test_a_transaction_shows_at_its_end_and_never_if_it_is_aborted(tmp_path: Path) -> None:
    write_segment(
        tmp_path,
        0,
        batch(0, topic(1)),
        batch(1, BEGIN, topic(2)),
        batch(3, topic(3)),
        batch(4, END),
        batch(5, BEGIN, topic(4)),
        batch(7, ABORT),
        batch(8, topic(5)),
    )
    keeper = MetadataLoader(tmp_path)
    seen = []
    for high_watermark in (1, 3, 4, 5, 7, 8, 9):
        follow(keeper, high_watermark)
        seen.append((topics(keeper), keeper.next_offset, keeper.behind))
    assert seen == [
        (["t1"], 1, 0),
        (["t1"], 1, 2),
        (["t1"], 1, 3),
        (["t1", "t2", "t3"], 5, 0),
        (["t1", "t2", "t3"], 5, 2),
        (["t1", "t2", "t3"], 8, 0),
        (["t1", "t2", "t3", "t5"], 9, 0),
    ]


def test_readers_never_see_half_a_batch_or_half_a_transaction(tmp_path: Path) -> None:
    """Between decode_step and apply_step nothing shows, and then all of it."""
    write_segment(
        tmp_path,
        0,
        batch(0, topic(1)),
        batch(1, BEGIN),
        batch(2, *map(topic, range(2, 500))),
        batch(500, END),
    )
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1)
    assert keeper.decode_step(501) is False
    assert keeper.decode_step(501) is True, "what is prepared has to be applied first"
    assert (topics(keeper), keeper.next_offset) == (["t1"], 1)
    assert keeper.apply_step() is True
    assert (keeper.next_offset, len(keeper.image.topics)) == (501, 499)
    assert keeper.apply_step() is False


# --- what cannot be read
# -------------------------------------------------------------------------------------------------


def test_records_that_cannot_be_folded_are_counted_reported_and_skipped(tmp_path: Path) -> None:
    good = encode_metadata_record(topic(1), 0)
    newer = b"\x01\x02\x63" + good[3:]
    unknown = b"\x01\xff\x7f\x00" + good[3:]
    write_segment(
        tmp_path,
        0,
        control(0, "LEADER_CHANGE", LeaderChangeMessage()),
        values_batch(1, good, newer, unknown, good[:-1], good + b"!", b""),
        batch(7, RemoveTopicRecord(topic_id=Uuid(b"?" * 16)), END, topic(2)),
    )
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 10)
    assert topics(keeper) == ["t1", "t2"] and keeper.next_offset == 10
    assert keeper.skipped == {UNKNOWN_TYPE: 1, UNKNOWN_VERSION: 1, DAMAGED: 3, DOES_NOT_FIT: 2}
    notices = keeper.take_notices()
    assert len(notices) == 7 and keeper.take_notices() == []
    assert (
        notices[0]
        == "log, offset 2: TOPIC_RECORD of version 99, 0 is the newest known (at byte 0); "
        "passed over"
    )
    assert "offset 7: RemoveTopicRecord for topic" in notices[5]


def test_notices_are_bounded(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, values_batch(0, *[b"?"] * 1000))
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1000)
    assert keeper.skipped[DAMAGED] == 1000 and len(keeper.take_notices()) == 20


def test_a_damaged_batch_stops_the_image_there_and_it_goes_on_when_that_is_mended(
    tmp_path: Path,
) -> None:
    broken = bytearray(batch(1, topic(2)))
    broken[-1] ^= 1
    path = write_segment(tmp_path, 0, batch(0, topic(1)), bytes(broken), batch(2, topic(3)))
    keeper = MetadataLoader(tmp_path)
    follow(keeper, 1)
    assert follow(keeper, 3) == 0
    assert (
        keeper.problem
        and keeper.problem.file == str(path)
        and keeper.problem.position == len(batch(0, topic(1)))
    )
    assert "CRC" in keeper.problem.reason and (topics(keeper), keeper.behind) == (["t1"], 2)
    write_segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(2)), batch(2, topic(3)))
    assert follow(keeper, 3) == 1
    assert topics(keeper) == ["t1", "t2", "t3"] and not keeper.problem


def test_records_above_the_high_watermark_are_never_read(tmp_path: Path) -> None:
    """It may be half written, be truncated, and be written anew in another epoch."""
    path = write_segment(tmp_path, 0, batch(0, topic(1)), batch(1, topic(2))[:-7])
    keeper = MetadataLoader(tmp_path)
    assert follow(keeper, 1) == 1 and keeper.problem is None
    for other in (3, 4):
        path.write_bytes(
            batch(0, topic(1)) + batch(1, topic(other), topic(other + 10), epoch=other)
        )
        assert follow(keeper, 1) == 0
    path.write_bytes(batch(0, topic(1)) + batch(1, topic(9), epoch=5))
    assert follow(keeper, 2) == 1
    assert (topics(keeper), keeper.image.epoch) == (["t1", "t9"], 5)
