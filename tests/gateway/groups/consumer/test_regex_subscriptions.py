"""Members subscribe with regular expressions, which the coordinator compares with the topics."""

from __future__ import annotations

from kwire.protocol import ErrorCode
from tests.gateway.groups.consumer.world import FakeTopics, World, named


def test_topics_of_an_expression_are_assigned_when_it_is_resolved() -> None:
    world = World(FakeTopics(**{"orders-1": 1, "orders-2": 2, "other": 1}))
    assert named(world.join("a", topic_regex="orders-.*").assignment) == {}
    world.resolve()
    assert named(world.next("a").assignment) == {"orders-1": [0], "orders-2": [0, 1]}


def test_topic_that_is_created_later_is_found_at_the_next_comparison() -> None:
    world = World(FakeTopics(a1=1))
    world.join("a", topic_regex="a.")
    world.resolve()
    world.next("a")
    world.topics.create("a2", 1)
    world.wait(9_000)
    world.next("a")
    world.resolve()
    assert named(world.next("a").assignment) is None
    world.wait(2_000)
    world.next("a")
    world.resolve()
    assert named(world.next("a").assignment) == {"a1": [0], "a2": [0]}


def test_topics_that_the_client_may_not_describe_do_not_match() -> None:
    world = World(FakeTopics(a1=1, a2=1))
    world.join("a", topic_regex="a.", may_describe=lambda name: name == "a2")
    world.resolve()
    assert named(world.next("a").assignment) == {"a2": [0]}


def test_names_and_an_expression_are_a_subscription_together() -> None:
    world = World(FakeTopics(t=1, u=1))
    world.join("a", "t", topic_regex="u.*")
    world.resolve()
    assert named(world.next("a").assignment) == {"t": [0], "u": [0]}


def test_expression_that_nobody_has_any_more_is_forgotten() -> None:
    world = World(FakeTopics(t=1, u=1))
    world.join("a", topic_regex="t")
    world.resolve()
    world.next("a")
    world.next("a", topic_regex="")
    assert not world.group().resolved
    assert not world.group().topics
    world.next("a", topic_regex="u")
    world.wait(11_000)
    world.next("a")
    world.resolve()
    world.beat("a", -1)
    assert not world.group().resolved


def test_invalid_expression_is_refused() -> None:
    result = World().join("a", topic_regex="(")
    assert result.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert result.message == (
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing ): `(`."
    )


def test_members_with_one_expression_share_its_topics() -> None:
    world = World(FakeTopics(t1=2, t2=2))
    world.join("a", topic_regex="t.")
    world.resolve()
    world.join("b", topic_regex="t.")
    sizes = [sum(len(some) for some in target.values()) for target in world.group().target.values()]
    assert sizes == [2, 2]
