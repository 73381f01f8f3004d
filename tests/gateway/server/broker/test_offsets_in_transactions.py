"""Offsets that a whole node commits in transactions count when the transaction coordinator has
written the marker, also if the process was killed in between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.transactions.transaction import Producer
from gateway.groups.events import OffsetToCommit, TxnOffsetCommit
from kwire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from tests.gateway.server.broker.test_broker_node import broker
from tests.gateway.server.broker.test_partitioned_groups import coordinated, fetch_through
from tests.gateway.server.broker.test_transaction_driver import (
    end,
    init,
    settled,
    until_async_state,
)
from tests.gateway.server.groups.group_driving import commit, submit
from tests.gateway.server.harness import run
from tests.gateway.server.own_nodes import OwnNode


async def commit_in_transaction(node: OwnNode, producer: Producer, offset: int) -> None:
    added = AddOffsetsToTxnRequest(
        transactional_id="t",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    assert (await settled(node, added, 3)).error_code == 0
    event = TxnOffsetCommit(
        group_id="g",
        member_id="",
        instance_id=None,
        generation=-1,
        offsets=(OffsetToCommit("t", 0, offset, -1, ""),),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )
    driver: Any = node.ready.services.groups
    assert (await submit(driver, event).result()).errors == [0]


@pytest.mark.parametrize("commits", [True, False])
def test_end_of_the_transaction_decides_about_its_offsets(tmp_path: Path, commits: bool) -> None:
    found = [[5 if commits else 1]]

    async def main() -> None:
        async with broker(tmp_path, offsets_topic_num_partitions=2) as node:
            await coordinated(node, "g")
            driver: Any = node.ready.services.groups
            await submit(driver, commit(1)).result()
            producer = await init(node)
            await commit_in_transaction(node, producer, 5)
            assert await fetch_through(node, "g", require_stable=True) == [[-1]]
            ended = await end(node, producer, commits=commits)
            assert ended.error_code == 0
            await until_async_state(node, "CompleteCommit" if commits else "CompleteAbort")
            assert await fetch_through(node, "g", require_stable=True) == found
            await commit_in_transaction(node, Producer(ended.producer_id, ended.producer_epoch), 9)
            await node.cut_off()
        async with broker(tmp_path) as node:
            await coordinated(node, "g")
            assert await fetch_through(node, "g") == found
            assert await fetch_through(node, "g", require_stable=True) == [[-1]]
            await init(node)  # the next producer has the open transaction aborted
            await until_async_state(node, "Empty")
            assert await fetch_through(node, "g", require_stable=True) == found

    run(main)
