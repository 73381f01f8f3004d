"""Proposals: committed in order, counted until they are appended, and dropped with the
leadership.
"""

from __future__ import annotations

from gateway.server.controller.proposals import Proposals


def test_proposals_are_committed_in_order_and_only_once() -> None:
    proposals = Proposals()
    first, second, third = (proposals.add(number, 2, None) for number in (7, 8, 9))
    assert (proposals.queued, proposals.last) == (6, third)
    proposals.accepted(7, 12)
    proposals.accepted(8, 14)
    assert proposals.queued == 2
    assert list(proposals.committed(11)) == []
    assert list(proposals.committed(13)) == [first]
    assert list(proposals.committed(99)) == [second], "what is not appended is not committed"
    assert bool(proposals) and proposals.last is third


def test_proposal_added_by_a_callback_waits_for_its_own_commit() -> None:
    proposals = Proposals()
    proposals.add(1, 1, None)
    proposals.accepted(1, 5)
    told = []
    for one in proposals.committed(5):
        told.append(one)
        proposals.add(2, 1, None)
    assert len(told) == 1 and 2 in proposals


def test_forget_removes_all_proposals() -> None:
    proposals = Proposals()
    waiting, refused = proposals.add(1, 3, None), proposals.add(2, 1, None)
    assert proposals.take(2) is refused and 2 not in proposals
    assert proposals.forget() == [waiting]
    assert (bool(proposals), proposals.queued, proposals.last) == (False, 0, None)
    proposals.accepted(1, 5)
    assert proposals.queued == 0, "that was for an earlier leader"
