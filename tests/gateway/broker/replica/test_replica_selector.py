"""The follower that a consumer is to fetch from, and those that the leader offers (KIP-392)."""

from __future__ import annotations

from gateway.broker.replica.follower_state import Contact
from gateway.broker.replica.replica_selector import ReadReplica, most_caught_up
from tests.gateway.broker.replica.leaders import World


def test_replica_with_the_longest_log_is_selected() -> None:
    assert most_caught_up([ReadReplica(2, 11, 1.0), ReadReplica(3, 10, 5.0)]) == 2


def test_of_equal_logs_the_one_that_had_everything_last_is_selected() -> None:
    assert most_caught_up([ReadReplica(2, 10, 5.0), ReadReplica(3, 10, 1.0)]) == 2


def test_of_replicas_that_do_not_differ_the_largest_id_is_selected() -> None:
    assert most_caught_up([ReadReplica(3, 10, 1.0), ReadReplica(2, 10, 1.0)]) == 3


def test_nothing_is_selected_without_replicas() -> None:
    assert most_caught_up([]) is None


def offered(world: World, offset: int) -> list[int]:
    return [one.broker_id for one in world.leader.read_replicas(offset)]


def test_leader_offers_followers_in_sync_that_hold_the_offset() -> None:
    world = World()
    world.fetch(2, 10, start=3)
    world.fetch(3, 7)
    assert offered(world, 2) == [3]
    assert offered(world, 3) == [2, 3]
    assert offered(world, 7) == [2, 3]  # where its log ends
    assert offered(world, 8) == [2]


def test_leader_offers_no_follower_outside_of_the_isr() -> None:
    world = World((1, 2))
    world.fetch(2, 10)
    world.fetch(3, 10)  # is about to join
    assert offered(world, 5) == [2]


def test_leader_offers_no_follower_that_has_not_fetched() -> None:
    assert offered(World(), 0) == []


def test_requests_of_a_session_that_leave_the_partition_out_count() -> None:
    world, contact = World(), Contact(1000.0)
    world.fetch(2, 10, contact=contact)
    contact.at = 1007.0
    assert [one.caught_up_at for one in world.leader.read_replicas(10)] == [1007.0]
