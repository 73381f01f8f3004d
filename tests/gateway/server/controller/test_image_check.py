"""A controller whose image is not the whole log decides on nothing, and the core is told."""

from __future__ import annotations

import pytest

from gateway.base.address import Address
from kwire.protocol import ErrorCode
from tests.gateway.server.controller.acting_stage import Stage, error_of, message_of

pytestmark = pytest.mark.usefixtures("one_slice_for_each_decision")


def test_controller_whose_image_lacks_a_record_is_not_active_and_refuses_what_waits() -> None:
    stage = Stage()
    stage.lead()
    stage.loader.lacks = "log, offset 7: no metadata record has number 70"
    stage.acting.image_advanced()
    assert (stage.acting.is_active, stage.driver.lacks) == (False, [stage.loader.lacks])
    refused = stage.ask("b")
    assert error_of(refused) == ErrorCode.NOT_CONTROLLER and "offset 7" in message_of(refused)
    stage.acting.on_elected(2, 0)
    assert not stage.acting.is_active, "elected before the core knew it"
    stage.acting.on_resigned(2)
    stage.loader.lacks = None
    stage.acting.image_advanced()
    assert stage.driver.lacks == ["log, offset 7: no metadata record has number 70", None]
    stage.lead(3)
    assert stage.acting.is_active


def test_request_waits_for_a_leader_elsewhere_where_the_image_lacks_a_record() -> None:
    stage = Stage()
    stage.loader.lacks = "log, offset 7: no metadata record has number 70"
    stage.acting.image_advanced()
    stage.driver.raft.leader_id, stage.address = 2, Address("127.0.0.1", 1)
    pending = stage.ask("a")
    assert pending.answer is None


def test_image_that_cannot_be_read_ends_the_leadership() -> None:
    stage = Stage()
    stage.lead()
    stage.loader.problem = "the log is damaged"
    stage.acting.image_advanced()
    assert (stage.acting.is_active, stage.driver.lacks) == (False, ["the log is damaged"])
