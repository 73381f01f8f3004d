"""Thousands of random changes of brokers and partitions get the same responses from Kafka's
controller and kwire's, and lead to the same state.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.gateway.controller.broker_cluster import CLUSTER_ID
from tests.gateway.controller.cluster import Cluster
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.images import image_of, told
from tests.interop.partition_life import Life, Side
from tools.kafka import AT_ONCE, kafka
from tools.wire_client import WireClient

#: Requests to each of the two; more for a longer run.
STEPS: Final = int(os.environ.get("KWIRE_PARTITION_STEPS", "3000"))
#: Nothing happens of itself meanwhile.
_BY_REQUEST_ONLY: Final = {
    "broker.session.timeout.ms": "3600000",
    "leader.imbalance.check.interval.seconds": "3600",
    "unclean.leader.election.interval.ms": "3600000",
    **AT_ONCE,
}


def test_random_partition_changes_get_the_responses_of_kafka() -> None:
    need_java()
    with (
        kafka(
            brokers=0,
            controllers=1,
            properties=_BY_REQUEST_ONLY,
        ) as cluster,
        WireClient(cluster.controllers) as real,
    ):
        life = Life(
            Cluster(cluster_id=CLUSTER_ID),
            Side(real.call, cluster.cluster_id),
            seed=int(os.environ.get("KWIRE_SEED", "1")),
        )
        life.run(STEPS)
        assert not life.differences, "\n".join(life.differences[:20])
        expected, kwires = (
            told(image_of(Path(cluster.nodes[0].metadata_log_dir))),
            told(life.cluster.image),
        )
    assert kwires == expected
    FIGURES.append(
        f"partitions: {life.asked} requests of {len(expected)} brokers and partitions, the same "
        "answers and the same end"
    )
