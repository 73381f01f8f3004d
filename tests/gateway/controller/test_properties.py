"""Random requests to a controller: none raises, and its state equals the image of its log,
committed or reverted.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.controller.records import OPERATION_RECORDS_MAX
from kwire.message import Message
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import Cluster, made, replayed, same
from tests.kwire.values import random_message

REQUESTS = (
    "CreateTopicsRequest",
    "DeleteTopicsRequest",
    "CreatePartitionsRequest",
    "IncrementalAlterConfigsRequest",
    "AlterConfigsRequest",
    "ControllerRegistrationRequest",
)
NAMES = ("a", "b.c", "b_c", "d-e", "x" * 249, "", "..", "no good", "__cluster_metadata")
CONFIGS = (
    ("retention.ms", "5"),
    ("retention.ms", "x"),
    ("retention.ms", None),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", ""),
    ("min.insync.replicas", "2"),
    ("num.io.threads", "3"),
    ("node.id", "1"),
    ("interval.ms", "1000"),
    ("metrics", "a,b"),
    ("consumer.session.timeout.ms", "50000"),
    ("unknown", "1"),
    ("remote.storage.enable", "true"),
)

GOOD = (
    (2, "retention.ms", "5"),
    (2, "cleanup.policy", "compact"),
    (2, "min.insync.replicas", "2"),
    (4, "num.io.threads", "3"),
    (4, "min.insync.replicas", "2"),
    (16, "metrics", "a"),
    (32, "consumer.session.timeout.ms", "50000"),
)


def likely(name: str, rng: random.Random, cluster: Cluster) -> Message:
    """A request that often succeeds: names, ids and configurations that are there, or nearly."""
    pick = rng.choice
    topics = [pick(NAMES) for _ in range(rng.randrange(1, 4))]
    match name:
        case "CreateTopicsRequest":
            return made(
                name,
                topics=[_new_topic(one, rng) for one in topics],
                validate_only=rng.random() < 0.1,
            )
        case "DeleteTopicsRequest":
            ids = list(cluster.image.topics) or [Uuid(rng.randbytes(16))]
            return made(
                name,
                topics=[
                    {"name": one} if rng.random() < 0.7 else {"name": None, "topic_id": pick(ids)}
                    for one in topics
                ],
            )
        case "CreatePartitionsRequest":
            grown = [
                {
                    "name": one,
                    "count": pick((-1, 0, 1, 3, 5, 8)),
                    "assignments": pick((None, [{"broker_ids": [1, 2]}])),
                }
                for one in topics
            ]
            return made(name, topics=grown, validate_only=rng.random() < 0.1)
        case "ControllerRegistrationRequest":
            return made(
                name,
                controller_id=rng.randrange(3),
                listeners=[{"name": "L", "host": "h", "port": 1}],
            )
        case _:
            return made(name, resources=[_resource(name, rng) for _ in range(2)])


def _new_topic(name: str, rng: random.Random) -> dict[str, Any]:
    topic: dict[str, Any] = {
        "name": name,
        "num_partitions": rng.choice((-1, 1, 3)),
        "replication_factor": rng.choice((-1, 1, 2)),
    }
    if rng.random() < 0.4:
        topic["configs"] = [
            {"name": key, "value": value} for key, value in rng.sample(CONFIGS, rng.choice((1, 2)))
        ]
    if rng.random() < 0.2:
        topic |= {
            "num_partitions": rng.choice((-2, 0)),
            "replication_factor": rng.choice((-2, 0, 4)),
        }
    if rng.random() < 0.3:
        topic["assignments"] = [
            {"partition_index": index, "broker_ids": rng.choice(([1, 2], [3], [], [7]))}
            for index in range(2)
        ]
        topic |= {"num_partitions": -1, "replication_factor": -1}
    return topic


def _resource(name: str, rng: random.Random) -> dict[str, Any]:
    kind, key, value = rng.choice(GOOD)
    configs: list[dict[str, Any]] = [{"name": key, "value": value}]
    if rng.random() < 0.3:
        configs = [{"name": key, "value": value} for key, value in rng.sample(CONFIGS, 2)]
        kind = rng.choice((2, 4, 8, 16, 32, 99))
    if name == "IncrementalAlterConfigsRequest":
        configs = [
            {**one, "config_operation": rng.choice((0, 0, 0, 1, 2, 3, 9))} for one in configs
        ]
    return {
        "resource_type": kind,
        "resource_name": rng.choice(("", "1", "2") if kind == 4 else NAMES),
        "configs": configs,
    }


@pytest.mark.parametrize("level", range(7, 31))
def test_state_equals_the_image_of_the_log_at_every_level(level: int) -> None:
    rng = random.Random(level)
    cluster = Cluster(level=level, nodes=(1, 2, 3), seed=level)
    written = 0
    for _ in range(150):
        name = rng.choice(REQUESTS)
        before = len(cluster.log)
        cluster.ask(likely(name, rng, cluster))
        written += len(cluster.log) - before
    assert written > 30, "too few of the requests did anything"


@pytest.mark.parametrize("seed", range(20))
def test_uncommitted_proposals_leave_no_trace(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(nodes=(1, 2, 3), seed=seed)
    for _ in range(8):
        for _ in range(rng.randrange(4)):
            cluster.ask(likely(rng.choice(REQUESTS), rng, cluster))
        for _ in range(rng.randrange(6)):  # decided and never committed
            request = likely(rng.choice(REQUESTS), rng, cluster)
            cluster.decide(request, type(request).VERSIONS[-1])
        cluster.controller.deactivate()
        cluster.elect()
        assert cluster.controller.image is not None
        assert same(cluster.controller.image, replayed(cluster.log))


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("seed", range(15))
def test_random_request_never_raises(name: str, seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(nodes=(1, 2), seed=seed)
    request_type = type(made(name))
    for version in request_type.VERSIONS:
        for _ in range(8):
            cluster.ask(random_message(request_type, version, rng, tags=False), version)
    assert len(cluster.log) < 100 * OPERATION_RECORDS_MAX
