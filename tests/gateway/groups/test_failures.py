"""An exception in the coordinator costs one request, and at most the members of its group; all
other groups go on.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.groups import Answer, Failure
from gateway.groups.group import Group
from gateway.groups.joining import Joining
from gateway.groups.rebalance import Rebalance
from tests.gateway.groups.script import Script

STABLE = """
> join {name} v=3 group={group}
{name} <- id={name}-{number} gen=1 range leader={name}-{number} [{name}-{number}]
= {group} CompletingRebalance 1 ({name}-{number}*)
> sync {name} id={name}-{number} gen=1 group={group}
disk group {group}
{name} <- range ''
= {group} Stable 1 ({name}-{number}*)
"""


def broken(*_: object) -> None:
    raise AssertionError("this cannot be")


def test_failed_join_is_answered_and_only_its_group_has_to_join_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script()
    script.play(STABLE.format(name="a", group="g", number=1))
    script.play(STABLE.format(name="b", group="h", number=3))
    script.command("commit a id=a-1 gen=1 offset=5")
    with monkeypatch.context() as patched:
        patched.setattr(Rebalance, "prepare_or_complete", broken)
        effects = script.core.handle(script._join("c", {"v": "3"}), "c", script.moment())
    (failure,) = [effect for effect in effects if isinstance(effect, Failure)]
    assert (failure.what, failure.group_id, str(failure.error)) == (
        "JoinGroup",
        "g",
        "this cannot be",
    )
    assert [effect.asked.token for effect in effects if isinstance(effect, Answer)] == ["c"]
    script._effects(effects)
    script.play("""
    > heartbeat b id=b-3 gen=1 group=h
    b <- NONE
    > heartbeat a id=a-1 gen=1
    a <- UNKNOWN_MEMBER_ID
    > fetch a
    a <- g:NONE[t-0=5]
    > restart
    = g Empty 2 ()
    = h Stable 1 (b-3*)
    > join a v=3
    a <- id=a-9 gen=3 range leader=a-9 [a-9]
    = g CompletingRebalance 3 (a-9*)
    """)


def test_failed_timer_resets_its_group_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    script.play(STABLE.format(name="a", group="g", number=1))
    script.play(STABLE.format(name="b", group="h", number=3))
    prepare = Rebalance.prepare

    def fails_for_g(self: Rebalance, group: Group) -> None:
        if group.group_id == "g":
            broken()
        prepare(self, group)

    monkeypatch.setattr(Rebalance, "prepare", fails_for_g)
    script.ms += 10_000
    effects = script.core.on_timer(script.moment())
    assert [effect.what for effect in effects if isinstance(effect, Failure)] == ["heartbeat timer"]
    assert {group_id: group.state.value for group_id, group in script.core.groups.items()} == {
        "g": "Empty",
        "h": "Empty",
    }


def test_request_of_a_failing_event_is_answered_once_when_it_was_parked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script()
    add = Joining._add

    def fails_after(self: Joining, *args: Any) -> None:
        add(self, *args)
        broken()

    monkeypatch.setattr(Joining, "_add", fails_after)
    effects = script.core.handle(script._join("a", {"v": "3"}), "a", script.moment())
    assert [effect.asked.token for effect in effects if isinstance(effect, Answer)] == ["a"]
