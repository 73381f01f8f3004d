"""Kafka's broker and kwire's give the same answers to the same requests of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.clients import need_java
from tests.interop.transaction_cases import CASES, Side
from tools.gateway_process import gateway
from tools.kafka import kafka
from tools.wire_client import WireClient

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kafka and kwire."""
    need_java()
    own: list[str] = ["--process-roles", "broker,controller", "--offsets-topic-num-partitions", "1"]
    own += ["--transaction-state-log-num-partitions", "1"]
    own += ["--data-dir", str(tmp_path_factory.mktemp("node") / "data")]
    with (
        kafka() as cluster,
        gateway(*own) as server,
        WireClient(cluster.nodes[0].broker_address) as one,
        WireClient(server.bootstrap) as other,
    ):
        found = Side(one), Side(other)
        for side in found:
            side.prepare()
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_requests_of_transactions_are_answered_as_by_kafka(
    sides: tuple[Side, Side], case: Callable[[Side], list[Any]]
) -> None:
    of_kafka, of_kwire = (case(side) for side in sides)
    assert of_kwire == of_kafka
