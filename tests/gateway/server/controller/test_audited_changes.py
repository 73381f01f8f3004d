"""Changes that the acting controller reports to the server's log and to the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.views.audit import Change
from kwire.messages.controller_registration_request import ControllerRegistrationRequest
from kwire.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.protocol import ErrorCode
from tests.gateway.server.controller.acting_stage import (
    ASKER,
    VERSION,
    Stage,
    Waiting,
    error_of,
)

pytestmark = pytest.mark.usefixtures("one_slice_for_each_decision")


def test_committed_change_is_logged_with_its_requester_and_offsets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = Stage()
    stage.lead()
    stage.ask("a", "b")
    end = stage._end
    stage.accept()
    assert "metadata changed" not in capsys.readouterr().err, "it is not committed"
    stage.acting.committed(stage._end)
    said = capsys.readouterr().err
    told = ("api=CreateTopics", "principal=User:alice", "host=10.0.0.7", "client_id=test")
    assert all(one in said for one in (*told, f"offset={end}", f"last_offset={stage._end - 1}")), (
        said
    )
    assert stage.reports.counts["metadata changed"] == 1


def test_kraft_version_upgrade_is_proposed_with_its_records(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = Stage()
    stage.lead()
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
    pending = Waiting()
    stage.driver.raft.refusal = "voter 2 is not known"
    stage.acting.submit(UpdateFeaturesRequest(feature_updates=[update]), 2, ASKER, pending)
    assert (
        pending.answer.error_code == ErrorCode.INVALID_UPDATE_VERSION and not stage.driver.proposed
    )
    stage.driver.raft.refusal, pending, end = None, Waiting(), stage._end
    stage.acting.submit(UpdateFeaturesRequest(feature_updates=[update]), 2, ASKER, pending)
    [proposed] = stage.driver.proposed
    assert (proposed.kraft_version, list(map(len, proposed.batches))) == (1, [1])
    stage.accept()
    assert pending.answer is None
    stage.acting.committed(end + 2)  # the control records are, the answer's own is not
    assert pending.answer is None
    stage.acting.committed(end + 3)
    answer: Any = pending.answer
    assert answer.error_code == 0
    assert f"offset={end}" in capsys.readouterr().err


def test_requests_without_records_and_records_without_a_request_are_not_logged() -> None:
    stage = Stage()
    stage.lead()
    stage.ask("a", validate_only=True)
    pending = Waiting()
    stage.acting.submit(ControllerRegistrationRequest(controller_id=1), 0, ASKER, pending)
    stage.commit()
    assert pending.done and not stage.reports.counts["metadata changed"]


class FakeAuditLog:
    """Takes changes; they are written when the test calls ``write``."""

    def __init__(self) -> None:
        self.recorded: list[list[Change]] = []
        self._then: list[Callable[[], None]] = []

    def record(self, changes: list[Change], then: Callable[[], None]) -> None:
        self.recorded.append(changes)
        self._then.append(then)

    def write(self) -> None:
        then, self._then = self._then, []
        for one in then:
            one()


def test_response_waits_until_the_audit_entry_is_written() -> None:
    audit = FakeAuditLog()
    stage = Stage(audit)
    stage.lead()
    first = stage._end
    pending, other = stage.ask("a", "b"), stage.ask("c")
    stage.commit()
    assert not pending.done and not other.done
    ((one, two),) = audit.recorded
    assert (one.api, one.version, one.requester, one.node_id, one.leader_epoch) == (
        "CreateTopics",
        VERSION,
        ASKER,
        1,
        1,
    )
    assert (one.offset, two.last_offset) == (
        first,
        stage._end - 1,
    ) and one.last_offset + 1 == two.offset
    assert stage.reports.counts["metadata changed"] == 2
    audit.write()
    assert (error_of(pending), error_of(other)) == (0, 0)


def test_deposed_leader_answers_changes_that_were_committed_before() -> None:
    audit = FakeAuditLog()
    stage = Stage(audit)
    stage.lead()
    pending = stage.ask("a")
    stage.commit()
    stage.acting.on_resigned(1)
    assert not pending.done
    audit.write()
    assert error_of(pending) == 0


def test_request_without_records_has_no_audit_entry() -> None:
    audit = FakeAuditLog()
    stage = Stage(audit)
    stage.lead()
    validated, registered = stage.ask("a", validate_only=True), Waiting()
    stage.acting.submit(ControllerRegistrationRequest(controller_id=1), 0, ASKER, registered)
    stage.commit()
    again = stage.ask("__cluster_metadata")
    stage.commit()
    assert validated.done and registered.done and again.done and audit.recorded == []


@pytest.mark.parametrize(
    ("epoch", "written"),
    [(1, True), (2, False)],
    ids=["committed by the next leader", "replaced by it"],
)
def test_change_committed_by_a_later_leader_has_an_audit_entry(epoch: int, written: bool) -> None:
    """The client got REQUEST_TIMED_OUT. Only this node knows the requester of the records."""
    audit = FakeAuditLog()
    stage = Stage(audit)
    stage.lead()
    pending, second = stage.ask("a"), stage.ask("b")
    first = stage._end
    stage.accept()
    stage.acting.on_resigned(1)
    stage.epochs = dict.fromkeys(range(first, stage._end), epoch)
    stage.acting.committed(first + 1)
    assert (
        error_of(pending) == error_of(second) == ErrorCode.REQUEST_TIMED_OUT
        and audit.recorded == []
    )
    stage.acting.committed(stage._end)
    stage.acting.committed(stage._end)
    told = [
        (one.leader_epoch, one.offset, one.time_ms > 0) for some in audit.recorded for one in some
    ]
    assert told == ([(1, first, True), (1, first + 2, True)] if written else [])
    assert stage.reports.counts["metadata changed"] == len(told)


def test_change_that_was_never_appended_has_no_audit_entry() -> None:
    audit = FakeAuditLog()
    stage = Stage(audit)
    stage.lead()
    stage.ask("a")
    stage.acting.on_resigned(1)
    stage.epochs = dict.fromkeys(range(100), 1)
    stage.acting.committed(100)
    assert audit.recorded == []
