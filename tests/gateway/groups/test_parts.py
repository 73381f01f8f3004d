"""Timers, subscriptions, error codes: the small parts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.consumer_protocol import subscribed_topics
from gateway.groups.timers import Timer, Timers
from kwire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kwire.protocol import ErrorCode
from tests.gateway.groups.script import Script

NAMES = [Timer("heartbeat", "g", str(i)) for i in range(5)]


def test_errors_are_kafkas() -> None:
    assert {error.name: int(error) for error in ErrorCode}.items() <= {
        error.name: int(error) for error in ErrorCode
    }.items()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "cancel", "pop"]), st.sampled_from(NAMES), st.integers(0, 20)
        )
    )
)
def test_timers_are_a_sorted_dict(steps: list[tuple[str, Timer, int]]) -> None:
    timers = Timers()
    model: dict[Timer, float] = {}
    for what, name, when in steps:
        if what == "set":
            timers.schedule(name, when)
            model[name] = when
        elif what == "cancel":
            timers.cancel(name)
            model.pop(name, None)
        else:
            due = timers.pop_due(when)
            assert (due is None) == all(deadline > when for deadline in model.values())
            if due is not None:
                earliest = min(model.values())
                assert model.pop(due) == earliest
        assert len(timers) == len(model)
        assert timers.next_deadline() == min(model.values(), default=None)


def test_a_deadline_put_off_a_million_times_costs_nothing() -> None:
    timers = Timers()
    for i in range(10_000):
        timers.schedule(NAMES[0], i)
        timers.schedule(NAMES[1], 10_000 - i)  # ever earlier: the heap must not keep them all
    assert len(timers._heap) < 100
    assert timers.next_deadline() == 1


def subscribe(version: int, *topics: str) -> bytes:
    message = ConsumerProtocolSubscription(topics=list(topics), user_data=b"u")
    if version >= 1:
        message.owned_partitions = [TopicPartition(topic="t", partitions=[0])]
    return version.to_bytes(2, "big") + message.encode(version)


def test_subscriptions_of_every_version_are_read() -> None:
    for version in ConsumerProtocolSubscription.VERSIONS:
        assert subscribed_topics([subscribe(version, "t", "u"), subscribe(0, "v")]) == frozenset(
            {"t", "u", "v"}
        )


def test_subscriptions_that_cannot_be_read_are_unknown() -> None:
    assert subscribed_topics([]) == frozenset()
    for junk in (
        b"",
        b"\0\0",
        b"\0\0\0\0\0\1",
        b"?",
        b"\0\0" + b"\xff" * 20,
        subscribe(0, "t")[:-2],
    ):
        assert subscribed_topics([subscribe(0, "t"), junk]) is None, junk


def test_every_event_has_a_failed_result() -> None:
    script = Script()
    lines = {
        "join a": 0,
        "sync a id=x-1 gen=1": 0,
        "heartbeat a id=x-1 gen=1": 0,
        "leave a id=x-1": 0,
        "commit a offset=1": 1,
        "fetch a group=g,h": 2,
        "forget a topic=t": 0,
        "list a": 0,
        "describe a group=g,h": 2,
        "delete a group=g,h": 2,
    }
    for line, count in lines.items():
        verb, _, rest = line.partition(" ")
        who, *words = rest.split()
        event = getattr(script, f"_{verb}")(who, dict(word.split("=") for word in words))
        result = event.failed(ErrorCode.NOT_COORDINATOR)
        if hasattr(result, "error"):
            errors = [result.error]
        elif hasattr(result, "errors"):
            errors = list(result.errors)
        else:
            errors = [group.error for group in result.groups]
        assert errors == [ErrorCode.NOT_COORDINATOR] * max(count, 1), line
    assert (
        script._heartbeat("a", {"id": "x", "gen": "1"})
        .failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        .error
        is ErrorCode.NONE
    )


def test_timers_of_groups_that_are_gone_do_nothing() -> None:
    script = Script(retention_check_interval_ms=1000)
    script.command("join a v=3")
    script.command("leave a id=a-1")
    for kind in ("join", "sync", "heartbeat"):
        script.core._state.timers.schedule(Timer(kind, "g", "a"), 1000.5)
        script.core._state.timers.schedule(Timer(kind, "nobody", "a"), 1000.5)
    assert script.command("wait 600") == []
    assert script.command("wait 600") == ["1000: disk delete group g", "1000: = g gone"]
