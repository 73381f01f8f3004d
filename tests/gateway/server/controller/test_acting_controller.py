"""The acting controller: when it becomes active, when it answers, and what happens to requests when
leadership is lost. Its core, driver and image are fakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from gateway.controller.settings import ControllerSettings
from gateway.server.controller import acting_controller, request_router
from kwire.cluster import Image
from kwire.messages.create_topics_response import CreateTopicsResponse
from kwire.protocol import ErrorCode
from kwire.records import decode_metadata_record
from tests.gateway.server.controller.acting_stage import (
    Stage,
    acting,
    error_of,
    message_of,
)
from tests.gateway.server.harness import run
from tests.waiting import until_async

pytestmark = pytest.mark.usefixtures("one_slice_for_each_decision")


# --- becoming active


def test_new_leader_decides_nothing_before_the_image_has_the_start_of_its_epoch() -> None:
    """KAFKA-15345, 16286, 17333."""
    stage = Stage()
    stage.driver.raft.leader_id = 1
    stage.acting.on_elected(3, 10)
    pending = stage.ask("a")
    for read in (0, 9, 10):
        stage.loader.read_offset = read
        stage.acting.image_advanced()
        assert (stage.acting.is_active, stage.driver.proposed) == (False, [])
    stage.loader.read_offset = 11
    stage.loader.loaded = False
    stage.acting.image_advanced()
    assert not stage.acting.is_active, "an image that is not whole counts for nothing"
    stage.loader.loaded = True
    stage.acting.image_advanced()
    assert stage.acting.is_active
    assert [event.epoch for event in stage.driver.proposed] == [3, 3]
    assert stage.proposed_topics() == ["a"]
    stage.commit()
    assert error_of(pending) == 0


def test_new_leader_whose_image_is_complete_is_active_at_once() -> None:
    stage = Stage()
    stage.loader.read_offset = 1
    stage.acting.on_elected(1, 0)
    assert (stage.acting.is_active, stage.acting.activations) == (True, 1)
    stage.acting.image_advanced()
    assert stage.acting.activations == 1


def test_controller_that_fails_to_become_active_resigns() -> None:
    stage = Stage()
    stage.acting._make = _broken
    stage.loader.read_offset = 1
    stage.acting.on_elected(4, 0)
    assert not stage.acting.is_active
    [(epoch, reason)] = stage.driver.resigned
    assert epoch == 4 and "a bug of this server" in reason
    assert stage.reports.counts["controller activation failed"] == 1


def _broken(serving: Sequence[int]) -> Any:
    raise ValueError("no such record")


# --- responses


def test_response_waits_until_its_records_are_committed() -> None:
    stage = Stage()
    stage.lead()
    pending = stage.ask("a")
    assert not pending.done
    stage.accept()
    assert not pending.done
    stage.acting.committed(stage._end - 1)
    assert not pending.done, "its last record is not committed"
    stage.acting.committed(stage._end)
    assert error_of(pending) == 0


def test_response_waits_until_the_image_has_the_topic() -> None:
    stage = Stage()
    stage.lead()
    stage.loader.next_offset = stage._end
    first = stage.ask("a")
    stage.commit()
    between = stage._end
    second = stage.ask("b")
    stage.commit()
    assert not first.done, "it is committed, and a list of topics does not have it yet"
    stage.loader.next_offset = between
    stage.acting.image_advanced()
    assert (first.done, second.done) == (True, False)
    stage.acting.on_resigned(1)
    assert not second.done, "it is committed, whichever node leads now"
    stage.loader.problem = "a record that nobody can read"
    stage.acting.image_advanced()
    assert (error_of(first), error_of(second)) == (0, 0)


def test_responses_are_sent_in_order_after_the_records_they_depend_on() -> None:
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("a")
    assert len(stage.driver.proposed) == 1, "the second is refused: the topic is about to exist"
    assert not second.done, "should the first not be committed, the topic does not exist"
    stage.commit()
    assert (error_of(first), error_of(second)) == (0, ErrorCode.TOPIC_ALREADY_EXISTS)
    assert error_of(stage.ask("a")) == ErrorCode.TOPIC_ALREADY_EXISTS, (
        "nothing is on its way: it is answered at once"
    )


def test_each_request_is_answered_when_its_own_records_are_committed() -> None:
    stage = Stage()
    stage.lead()
    first = stage.ask("a")
    stage.accept()
    end = stage._end
    second = stage.ask("b")
    stage.accept()
    stage.acting.committed(end)
    assert (first.done, second.done) == (True, False)
    stage.acting.committed(stage._end)
    assert second.done


def test_cancelled_request_is_not_answered_and_others_are() -> None:
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("b")
    first.cancel()
    stage.commit()
    assert (first.done, second.done) == (False, True)


# --- loss of leadership


def test_appended_change_of_a_deposed_leader_times_out_with_unknown_outcome() -> None:
    stage = Stage()
    stage.lead()
    pending = stage.ask("a")
    stage.accept()
    stage.acting.on_resigned(1)
    assert error_of(pending) == ErrorCode.REQUEST_TIMED_OUT
    assert "not known" in message_of(pending)
    assert not stage.acting.is_active


def test_change_that_was_not_appended_is_forwarded_to_the_next_leader() -> None:
    stage = Stage()
    stage.lead()
    pending = stage.ask("a")
    stage.acting.on_resigned(1)
    assert not pending.done
    stage.driver.proposed.clear()
    stage.lead(2)
    assert error_of(pending) == 0


def test_end_of_another_epoch_changes_nothing() -> None:
    stage = Stage()
    stage.lead(2)
    stage.acting.on_resigned(1)
    assert stage.acting.is_active


def test_leader_elected_again_decides_on_committed_state_only() -> None:
    stage = Stage()
    stage.lead()
    stage.ask("a")
    stage.accept()
    stage.acting.on_resigned(1)
    stage.loader.image = Image(features={"metadata.version": 30})
    stage.lead(2)
    pending = stage.ask("a")
    assert stage.proposed_topics() == ["a"], "the first was never committed"
    stage.commit()
    assert error_of(pending) == 0


def test_proposal_refused_for_lost_leadership_is_decided_by_the_next_leader() -> None:
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("b")
    stage.acting.refused(stage.driver.proposed[0].number, True, "node 2 leads epoch 2")
    stage.acting.refused(stage.driver.proposed[1].number, True, "node 2 leads epoch 2")
    assert not stage.acting.is_active
    assert (first.done, second.done, stage.driver.resigned) == (False, False, [])


def test_unwritable_proposal_is_refused_once_and_the_leader_resigns() -> None:
    """KAFKA-14996: if it were decided again, each next leader would fail with it."""
    stage = Stage()
    stage.lead()
    first, second = stage.ask("a"), stage.ask("b")
    stage.acting.refused(stage.driver.proposed[0].number, False, "a batch of 9000000 bytes")
    assert error_of(first) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a batch of 9000000 bytes" in message_of(first)
    assert stage.driver.resigned == [(1, "a batch of 9000000 bytes")]
    assert not second.done
    stage.driver.proposed.clear()
    stage.lead(2)
    assert error_of(second) == 0


def test_exception_in_a_decision_fails_the_request_and_the_leader_resigns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    stage.lead()
    waiting = stage.ask("a")
    monkeypatch.setattr(stage.made[0], "decide", _fails)
    pending = stage.ask("b")
    assert error_of(pending) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not stage.acting.is_active
    [(epoch, reason)] = stage.driver.resigned
    assert epoch == 1 and "half of it" in reason
    assert stage.reports.counts["controller request failed"] == 1
    assert not waiting.done, "not appended: the next leader decides"


def _fails(*what: Any, **how: Any) -> Any:
    raise KeyError("half of it")


# --- no leader


def test_request_without_a_leader_waits() -> None:
    stage = Stage()
    laters = [stage.ask(name) for name in "abc"]
    laters[1].cancel()
    assert not any(pending.done for pending in laters)
    stage.lead()
    stage.commit()
    assert [error_of(laters[0]), error_of(laters[2])] == [0, 0]
    assert not laters[1].done
    image = stage.made[0].image
    assert image is not None and "b" not in image.topic_ids


def test_cancelled_requests_do_not_count_against_the_limit_of_waiting_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_router, "_WAITING_MAX", 3)
    stage = Stage()
    laters = [stage.ask(name) for name in "abc"]
    refused = stage.ask("d")
    assert error_of(refused) == ErrorCode.NOT_CONTROLLER
    laters[0].cancel()
    laters[1].complete(CreateTopicsResponse())  # its time was up
    assert not stage.ask("e").done
    assert not stage.ask("f").done
    assert stage.ask("g").done


# --- confirmation of leadership


def test_response_without_records_waits_for_a_confirmation_of_leadership() -> None:
    stage = Stage()
    stage.driver.raft.leads_until = 1.0
    stage.lead()
    pending = stage.ask("a", validate_only=True)
    assert not pending.done
    [confirming] = stage.driver.proposed
    assert [
        decode_metadata_record(value)[2].NAME for batch in confirming.batches for value in batch
    ] == ["NoOpRecord"]
    other = stage.ask("b", validate_only=True)
    assert len(stage.driver.proposed) == 1, (
        "one proof is enough for all that were asked before it was appended"
    )
    stage.accept()
    late = stage.ask("c", validate_only=True)
    assert len(stage.driver.proposed) == 1, "what was appended before it was asked proves nothing"
    stage.acting.committed(stage._end)
    assert (error_of(pending), error_of(other), late.done) == (0, 0, False)
    stage.commit()
    assert error_of(late) == 0


def test_leadership_is_confirmed_when_a_later_record_is_committed() -> None:
    stage, known = Stage(), []
    stage.acting.confirm(lambda: known.append("nobody leads here"))
    assert known.pop()
    stage.driver.raft.leads_until = 1.0
    stage.acting.on_elected(1, 0)
    stage.acting.confirm(lambda: known.append("asked before the controller was active"))
    stage.loader.read_offset = 1
    stage.acting.image_advanced()
    stage.acting.confirm(lambda: known.append("asked when it was"))
    stage.accept()
    stage.acting.confirm(lambda: known.append("asked later"))
    assert known == []
    stage.acting.committed(stage._end)
    assert known == ["asked before the controller was active", "asked when it was"]
    stage.commit()
    assert known.pop() == "asked later"


@pytest.mark.parametrize("appended", [False, True])
def test_confirmation_ends_when_leadership_is_lost(appended: bool) -> None:
    stage, known = Stage(), []
    stage.driver.raft.leads_until = 1.0
    stage.lead()
    stage.acting.confirm(lambda: known.append(stage.acting.is_active))
    if appended:
        stage.accept()
    stage.acting.on_resigned(1)
    assert known == [False]
    stage.acting.on_elected(2, 5)
    stage.acting.confirm(lambda: known.append(stage.acting.is_active))
    stage.acting.on_resigned(2)
    assert known == [False, False]


def test_quorum_of_one_needs_no_confirmation() -> None:
    stage, known = Stage(), []
    stage.lead()
    stage.ask("a")
    stage.acting.confirm(lambda: known.append(True))
    assert known == [True]


# --- an idle log


def test_idle_leader_writes_one_no_op_record_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting_controller, "_CHECK_S", 0.001)

    async def main() -> None:
        stage = Stage()
        stage.lead()
        settings = ControllerSettings(1, (1,), max_idle_interval_ms=1)
        stage.made[0].settings = settings
        async with acting(stage):
            await until_async(lambda: len(stage.driver.proposed) == 1)
            await trio.sleep(0.05)
            assert len(stage.driver.proposed) == 1, "the one before is not committed yet"
            stage.commit()
            await until_async(lambda: len(stage.driver.proposed) == 1)
            stage.acting.on_resigned(1)
            stage.driver.proposed.clear()
            await trio.sleep(0.05)
            assert stage.driver.proposed == []

    run(main)
