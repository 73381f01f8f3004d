"""Epochs and snapshots that a peer names falsely: an observer gives them up."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.base.address import Address
from gateway.quorum.effects import FailureKind, Report, Send, SnapshotChunk
from gateway.quorum.events import NotInstalled
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import ErrorCode
from tests.gateway.quorum.batches import data_batch
from tests.gateway.quorum.observer.driven import Driven
from tests.gateway.quorum.observer.process import ModelLog, observer_settings
from tests.gateway.quorum.observer.test_hostile import (
    Answer,
    Hostile,
    chunk,
    fetched,
    run,
    with_snapshot,
)

# --- epochs that a peer names and no leader has answered in

LAST_EPOCH = (1 << 31) - 1


@pytest.mark.parametrize("epoch", [3, 9_000, 1 << 22, LAST_EPOCH])
def test_epoch_that_one_peer_names_falsely_is_given_up_and_never_stored(epoch: int) -> None:
    """The leader of epoch 2 refuses a Fetch of a later epoch."""
    lies = iter([fetched(epoch, leader=2, nodes=(2,), error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)])

    def answer(ask: Send) -> Answer:
        request = ask.request(18)
        if not isinstance(request, FetchRequest):
            return FailureKind.CLOSED
        lie = next(lies, None)
        if lie is not None:
            return lie
        named = request.topics[0].partitions[0].current_leader_epoch
        error = ErrorCode.UNKNOWN_LEADER_EPOCH if named > 2 else 0
        return fetched(2, leader=1, nodes=(1,), error_code=error, high_watermark=10)

    hostile = Hostile()
    hostile.run(answer, until=hostile.now + 30.0)
    raft = hostile.raft
    assert (raft.epoch, raft.leader_id, raft.high_watermark) == (2, 1, 10)
    assert hostile.epoch == 2, "the epoch on disk"


def test_observer_begins_in_the_epoch_of_its_log_if_the_stored_one_is_out_of_reach() -> None:
    log = ModelLog()
    log.append(data_batch(0, 2, 2, 0).data)
    driven = Driven(
        observer_settings((Address("a", 1),), cluster_id="x"),
        log,
        epoch=LAST_EPOCH,
        high_watermark=1,
    )
    assert driven.raft.epoch == 2


def test_observer_that_begins_in_a_stored_epoch_that_is_false_gives_it_up() -> None:
    log = ModelLog()
    log.append(data_batch(0, 2, 2, 0).data)
    driven = Driven(
        observer_settings((Address("a", 1),), cluster_id="x"), log, epoch=500, high_watermark=1
    )

    def answer(ask: Send) -> Answer:
        request = ask.request(18)
        if not isinstance(request, FetchRequest):
            return FailureKind.CLOSED
        named = request.topics[0].partitions[0].current_leader_epoch
        error = ErrorCode.UNKNOWN_LEADER_EPOCH if named > 2 else 0
        return fetched(2, leader=1, nodes=(1,), error_code=error, high_watermark=2)

    run(driven, answer, driven.now + 30.0)
    assert (driven.raft.epoch, driven.raft.leader_id) == (2, 1)


# --- snapshots


def test_chunk_is_asked_for_when_the_one_before_the_last_is_written() -> None:
    """Otherwise a fast leader and a slow disk fill the memory."""
    hostile = Hostile()
    tokens: list[int] = []
    asked: list[tuple[int, int]] = []

    def note(effect: Any) -> None:
        if isinstance(effect, SnapshotChunk):
            tokens.append(effect.token)
        elif isinstance(effect, Send) and effect.api_key == FetchSnapshotRequest.API_KEY:
            asked.append((len(tokens), effect.after))

    hostile.spy = note

    def answer(ask: Send) -> Answer:
        if ask.api_key != FetchSnapshotRequest.API_KEY:
            return with_snapshot(100)
        return chunk(ask, unaligned_records=b"x")

    hostile.run(answer, until=hostile.now + 2.0)
    assert len(tokens) >= 9 and tokens == sorted(tokens)
    assert all(after >= tokens[count - 2] for count, after in asked[:9] if count >= 2)


def test_snapshot_that_the_disk_cannot_hold_is_given_up() -> None:
    hostile = Hostile()
    told: list[str] = []
    hostile.spy = lambda effect: (
        told.append(str(effect.fields)) if isinstance(effect, Report) else None
    )
    answers = [with_snapshot(100)]

    def answer(ask: Send) -> Answer:
        if ask.api_key == FetchSnapshotRequest.API_KEY:
            return chunk(ask, size=1 << 50, unaligned_records=b"x")
        return answers[0]

    while not any(one.api_key == FetchSnapshotRequest.API_KEY for one in hostile.open):
        run(hostile, answer, hostile.now + 0.001)
    hostile.step(NotInstalled(SnapshotId(100, 2), "it does not fit"))
    assert any("it does not fit" in one for one in told)
    # Again, as for the chunks that were under way: it is no fault.
    hostile.step(NotInstalled(SnapshotId(100, 2), "it does not fit"))
    assert not hostile.stopped
