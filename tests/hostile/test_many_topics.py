"""The many topics of a cluster are described again and again, on several connections and nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.gateway.controller.cluster import create, made
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum
from tests.waiting import PATIENCE_S
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

#: A request creates at most 10,000 records: one for each topic and one for its partition.
#: A server that cuts nothing into slices does more than UNITS_MAX in a pass with so many of each.
TOPICS, TOPICS_PER_REQUEST = 18_000, 4_500
RESOURCES_PER_REQUEST, TOPIC = 500, 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum() as cluster:
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as admin:
            for first in range(0, TOPICS, TOPICS_PER_REQUEST):
                names = [f"t{number}" for number in range(first, first + TOPICS_PER_REQUEST)]
                topics = [
                    {"name": name, "num_partitions": 1, "replication_factor": 1} for name in names
                ]
                answer = admin.call(create(*topics, timeout_ms=60_000), 7)
                assert {topic.error_code for topic in answer.topics} == {0}
        yield cluster


def describe_configs(client: WireClient, first: int) -> int:
    """Describe some topics' configs, with synonyms; the number of those in the response."""
    resources = [
        {"resource_type": TOPIC, "resource_name": f"t{number}", "configuration_keys": None}
        for number in range(first, first + RESOURCES_PER_REQUEST)
    ]
    request = made("DescribeConfigsRequest", resources=resources, include_synonyms=True)
    return sum(result.error_code == 0 for result in client.call(request, 4).results)


def metadata(client: WireClient, first: int) -> int:
    return len(client.call(made("MetadataRequest", topics=None), 12).topics)


def describe_topic_partitions(client: WireClient, first: int) -> int:
    """Describe all topics, page by page; the number of them."""
    found, cursor = 0, None
    while True:
        request = made(
            "DescribeTopicPartitionsRequest",
            topics=[],
            response_partition_limit=2_000,
            cursor=cursor,
        )
        answer = client.call(request, 0)
        found += len(answer.topics)
        if answer.next_cursor is None:
            return found
        cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": 0}


@pytest.mark.parametrize(
    ("describe", "least"),
    [(describe_configs, 1), (metadata, TOPICS), (describe_topic_partitions, TOPICS)],
)
def test_description_of_many_topics_disturbs_no_other_client(
    cluster: OwnCluster, describe: Callable[[WireClient, int], int], least: int
) -> None:
    def ask(number: int, found: list[int]) -> None:
        address = cluster.nodes[number % len(cluster.nodes)].broker_address
        with WireClient(address, timeout_s=4 * PATIENCE_S) as client:
            found.append(describe(client, number % 3 * RESOURCES_PER_REQUEST))

    def attack() -> None:
        found: list[int] = []
        threads = [threading.Thread(target=ask, args=(number, found)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == len(threads) and min(found) >= least

    assert_others_undisturbed(cluster, attack, memory_mib=128)
