"""A request about thousands of offsets or groups is interrupted after each few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.groups import Answer, EventTime, GroupCoordinator, Settings
from gateway.groups import events as e
from gateway.groups.consumer_protocol import ELEMENTS_MAX, subscribed_topics
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.gateway.steps import calls_per_step

COUNT = 4_000
#: Calls of functions in one step: copying or counting the elements makes up to two for each,
#: and work on an element makes three or more.
CALLS_MAX = 2_500 + 2 * COUNT
NUMBERS = range(COUNT)
MOMENT = EventTime(100.0, 1_700_000_000_000)
SETTINGS = Settings(
    groups_max=2 * COUNT, groups_max_per_principal=2 * COUNT, bytes_max_per_group=2**30
)


def commit(group: str = "g", count: int = COUNT, offset: int = 1) -> e.OffsetCommit:
    offsets = tuple(e.OffsetToCommit("t", number, offset, -1, "") for number in range(count))
    return e.OffsetCommit(
        group_id=group,
        member_id="",
        instance_id=None,
        generation=-1,
        retention_ms=-1,
        offsets=offsets,
        knows_group_id_not_found=True,
    )


def coordinator() -> GroupCoordinator:
    """A group with thousands of offsets, and thousands of groups with one."""
    made = GroupCoordinator(SETTINGS)
    made.handle(commit(), "", MOMENT)
    for number in NUMBERS:
        made.handle(commit(f"g{number}", 1), "", MOMENT)
    return made


GROUPS = tuple(f"g{number}" for number in NUMBERS)
PARTITIONS = tuple(("t", number) for number in NUMBERS)
EVENTS: dict[str, Callable[[], e.Event]] = {
    "OffsetCommit": lambda: commit(offset=2),
    "OffsetFetch of a group": lambda: e.OffsetFetch((("g", PARTITIONS),)),
    "OffsetFetch of all": lambda: e.OffsetFetch((("g", None),)),
    "OffsetFetch of groups": lambda: e.OffsetFetch(tuple((one, None) for one in GROUPS)),
    "OffsetDelete": lambda: e.OffsetDelete(group_id="g", partitions=PARTITIONS),
    "ListGroups": lambda: e.ListGroups(frozenset()),
    "DescribeGroups": lambda: e.DescribeGroups(GROUPS),
    "DeleteGroups": lambda: e.DeleteGroups(GROUPS),
    "DeleteGroups of a large one": lambda: e.DeleteGroups(("g",)),
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_request_about_many_yields_between_them(name: str) -> None:
    made, event = coordinator(), EVENTS[name]()
    effects, calls = calls_per_step(made.handle_in_slices(event, "x", MOMENT))
    assert calls <= CALLS_MAX
    (answer,) = (one for one in effects if isinstance(one, Answer))
    other = coordinator().handle(event, "x", MOMENT)
    assert [answer] == [one for one in other if isinstance(one, Answer)]


def test_thousands_of_members_that_are_overdue_at_once_yield_between_them() -> None:
    made = GroupCoordinator(Settings(initial_rebalance_delay_ms=0, groups_max=2 * COUNT))
    for number in NUMBERS:
        joining: dict[str, Any] = {"group_id": f"g{number}", "member_id": "", "instance_id": None}
        event = e.JoinGroup(
            **joining,
            client_id="c",
            client_host="/h",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(e.Protocol("range", b"?"),),
            member_id_required=False,
            can_skip_assignment=True,
        )
        made.handle(event, "x", EventTime(100.0, 1, number.to_bytes(16, "big")))
    _, calls = calls_per_step(made.on_timer_in_slices(EventTime(1000.0, 1)))
    # The removal of cancelled timers from the heap makes four calls for each of them.
    assert calls <= CALLS_MAX + 2 * COUNT
    assert not any(group.members for group in made.groups.values())


def test_subscriptions_of_a_group_are_read_up_to_a_number_of_topics_in_all() -> None:
    def subscription(first: int, count: int) -> bytes:
        topics = [f"t{number}" for number in range(first, first + count)]
        return b"\0\0" + ConsumerProtocolSubscription(topics=topics).encode(0)

    half = ELEMENTS_MAX // 2
    one, other = subscription(0, half), subscription(half, half)
    found = subscribed_topics([one, other] + [one] * 1000)
    assert found is not None and len(found) == ELEMENTS_MAX, "equal ones are read once"
    assert subscribed_topics([one, other, subscription(ELEMENTS_MAX, 1)]) is None
