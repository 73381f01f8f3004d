"""Committed proposals that are reported as changes, also when another leader has committed them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Requester
from gateway.server.controller import changes
from gateway.server.controller.changes import Changes
from gateway.server.controller.proposals import Proposal, QueuedRequest
from gateway.server.logging.logs import Reports
from gateway.views.audit import Change
from kwire.message import Message
from kwire.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

ALICE = Requester("User:alice", "10.0.0.7", "test")
TOPIC = CreateTopicsRequest(topics=[CreatableTopic(name="a")])


class Stage:
    """``epochs``: epochs of committed records, by offset. ``recorded``: audit entries. ``told``:
    the order of calls.
    """

    def __init__(self, kept: bool = True) -> None:
        self.epochs: dict[int, int] = {}
        self.recorded: list[Change] = []
        self.told: list[str] = []
        self.reports = Reports()
        self.changes = Changes(
            3,
            self.reports,
            self if kept else None,  # type: ignore[arg-type]
            lambda at: self.epochs.get(at, -1),
        )

    def record(self, changes: list[Change], then: Callable[[], None]) -> None:
        self.recorded += changes
        self.told.append("recorded")
        then()

    def committed(self, *proposals: Proposal, epoch: int = 5, below: int = 0) -> None:
        self.changes.committed(proposals, epoch, below, 1000, lambda: self.told.append("answered"))

    @property
    def lines(self) -> int:
        return self.reports.counts["metadata changed"]


def proposal(end_offset: int | None, records: int = 2, request: Message | None = TOPIC) -> Proposal:
    made = Proposal(
        records, None if request is None else QueuedRequest(request, 7, ALICE, PendingResponse())
    )
    made.end_offset = end_offset
    return made


def where(found: list[Change]) -> list[tuple[int, int, int, int]]:
    return [(one.leader_epoch, one.offset, one.last_offset, one.time_ms) for one in found]


def test_change_is_logged_and_recorded_before_the_answer() -> None:
    stage = Stage()
    stage.committed(proposal(12), proposal(15, 3))
    assert where(stage.recorded) == [(5, 10, 11, 1000), (5, 12, 14, 1000)]
    assert stage.recorded[0].node_id == 3 and stage.recorded[0].requester is ALICE
    assert (stage.told, stage.lines) == (["recorded", "answered"], 2)


def test_change_is_logged_where_there_is_no_audit_log() -> None:
    stage = Stage(kept=False)
    stage.committed(proposal(12))
    assert (stage.told, stage.lines, stage.recorded) == (["answered"], 1, [])


@pytest.mark.parametrize(
    "request_", [None, AllocateProducerIdsRequest()], ids=["the controller's own", "a broker's"]
)
def test_proposal_without_an_audited_request_is_no_change(request_: Message | None) -> None:
    stage = Stage()
    stage.committed(proposal(12, request=request_))
    stage.changes.on_leadership_lost([proposal(14, request=request_)], 5)
    stage.epochs = {13: 5}
    stage.committed(below=20)
    assert (stage.told, stage.lines) == (["answered", "answered"], 0)


@pytest.mark.parametrize(
    ("epoch_there", "made"),
    [(5, True), (6, False), (-1, False)],
    ids=["committed", "replaced", "unknown"],
)
def test_deposed_leader_reports_its_changes_that_a_later_leader_commits(
    epoch_there: int, made: bool
) -> None:
    stage = Stage()
    stage.changes.on_leadership_lost([proposal(12), proposal(None)], 5)
    stage.epochs = dict.fromkeys(range(20), epoch_there)
    stage.committed(below=11)
    assert stage.recorded == [], "its last record is not committed"
    stage.committed(below=12)
    stage.committed(below=13)
    assert where(stage.recorded) == ([(5, 10, 11, 1000)] if made else [])


def test_changes_of_several_epochs_are_decided_in_any_order_of_offsets() -> None:
    stage = Stage()
    stage.changes.on_leadership_lost([proposal(30)], 5)
    stage.changes.on_leadership_lost([proposal(20)], 7)
    stage.epochs = dict.fromkeys(range(40), 7)
    stage.committed(below=20)
    assert where(stage.recorded) == [(7, 18, 19, 1000)]
    stage.committed(below=40)
    assert len(stage.recorded) == 1, "those of epoch 5 were replaced"


def test_number_of_undecided_changes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_UNDECIDED_MAX", 3)
    stage = Stage()
    stage.changes.on_leadership_lost([proposal(2 * number) for number in range(1, 6)], 5)
    stage.epochs = dict.fromkeys(range(40), 5)
    stage.committed(below=40)
    assert [one.offset for one in stage.recorded] == [4, 6, 8]
