"""The work of a request grows with its elements and with those of a value, and not with their
product.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.controller.config_changes import appended, subtracted
from gateway.groups import EventTime, GroupCoordinator, Settings
from gateway.groups import events as e
from gateway.handlers.apis import describe_configs
from tests.gateway.controller.broker_cluster import BrokerCluster
from tests.gateway.controller.cluster import Cluster, made
from tests.gateway.controller.test_acls import LITERAL, MATCH, acl, create, wanted
from tests.gateway.handlers.apis.test_describe_configs import BROKER
from tests.gateway.handlers.world import World
from tests.gateway.steps import Compared, comparisons_max, lines_run

NOW = EventTime(100.0, 1_700_000_000_000)


def strings(prefix: str, count: int) -> list[str]:
    return [Compared(f"{prefix}{number}") for number in range(count)]


@pytest.mark.parametrize("change", [appended, subtracted])
def test_list_key_is_changed_with_comparisons_of_the_sum_of_both_lists(
    change: Callable[..., list[str]],
) -> None:
    parts, values = strings("a", 8191), strings("b", 16383)
    with comparisons_max(len(parts) + len(values)):
        made = change(parts, values)
    assert made == (parts + values if change is appended else parts)
    with comparisons_max(4 * len(parts)):
        assert change(parts, reversed(parts)) == (parts if change is appended else [])


def test_subtract_removes_the_first_of_equal_elements_for_each_value() -> None:
    assert subtracted(["a", "b", "a", "c", "a"], ["a", "c", "a", "d"]) == ["b", "a"]
    assert appended(["a", "a"], ["b", "a", "b"]) == ["a", "a", "b"]


def test_described_keys_are_looked_up_and_not_compared_with_each_other() -> None:
    keys = strings("key", 2_000)
    resource = {**BROKER, "configuration_keys": keys}
    request, world = made("DescribeConfigsRequest", resources=[resource]), World()
    with comparisons_max(2 * len(keys)):
        describe_configs.handle(request, world.context(4))


def test_feature_that_no_node_knows_costs_no_look_at_each_node() -> None:
    def lines(features: int, brokers: int) -> int:
        it = BrokerCluster(range(1, brokers + 1))
        updates = [
            {"feature": f"f{number}", "max_version_level": 0, "upgrade_type": 2}
            for number in range(features)
        ]
        request = made("UpdateFeaturesRequest", feature_updates=updates)
        return lines_run(lambda: it.ask(request, 2))

    of_few, of_many = (lines(60, brokers) - lines(10, brokers) for brokers in (2, 20))
    assert of_many < 1.5 * of_few


def test_members_that_leave_cost_as_much_as_their_own_protocols() -> None:
    def lines(count: int) -> int:
        groups = GroupCoordinator(Settings())
        for number in range(count):
            names = ("common", *(f"p{number}-{other}" for other in range(20)))
            join = e.JoinGroup(
                group_id="g", member_id="", instance_id=f"i{number}", client_id="", client_host="",
                session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
                protocols=tuple(e.Protocol(name, b"") for name in names),
                member_id_required=False, can_skip_assignment=False, owner="",
            )  # fmt: skip
            groups.handle(join, number, NOW)
        leaving = tuple(e.Leaver("", f"i{number}") for number in range(count))
        return lines_run(
            lambda: groups.handle(e.LeaveGroup(group_id="g", leavers=leaving), "x", NOW)
        )

    assert lines(80) < 3 * lines(40)


def test_filter_with_a_long_name_is_searched_under_the_lengths_of_names_that_exist() -> None:
    cluster = Cluster()
    create(cluster, acl(resource_name="o"), acl(resource_name="x" * 20_000))
    name = "o" + "y" * 30_000
    request = made(
        "DeleteAclsRequest",
        filters=[wanted(resource_name_filter=name, pattern_type_filter=MATCH)],
    )
    assert lines_run(lambda: cluster.ask(request)) < 5_000
    assert LITERAL in {one.pattern_type for one in cluster.image.acls.values()}
