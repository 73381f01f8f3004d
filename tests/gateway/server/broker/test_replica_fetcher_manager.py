"""The fetchers of a broker: how far it lags behind the leaders of its partitions."""

from __future__ import annotations

from pathlib import Path

import trio

from gateway.server.broker.replica_fetcher_manager import ReplicaFetcherManager
from kwire.cluster import Image
from kwire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.gateway.server.broker.test_replica_fetcher import Leader, context, news, perform, run
from tests.gateway.server.upstream_peer import listening
from tests.gateway.sources.data_partitions import LEADER, record_of_leader
from tests.gateway.sources.followings import following
from tests.gateway.sources.test_follower_appends import batch
from tests.waiting import until_async


def test_lag_is_that_of_the_partition_farthest_behind_its_leader(tmp_path: Path) -> None:
    async def main() -> None:
        one = following(tmp_path / "t-0")
        leader = Leader([news(records=batch(0, b"a", b"b"), high_watermark=9)])
        manager, image = ReplicaFetcherManager(context()), Image()
        async with listening(leader.serve) as peer, trio.open_nursery() as nursery:
            at = BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=peer.port)
            image.brokers[LEADER] = RegisterBrokerRecord(broker_id=LEADER, end_points=[at])
            manager.on_image(image)
            nursery.start_soon(perform, one)
            nursery.start_soon(manager.run)
            manager.follow(one, record_of_leader(1))
            await until_async(lambda: len(leader.asked) == 2, "the second request")
            await manager.look_at_lag()
            assert manager.max_lag == 7
            manager.unfollow(one)
            await manager.look_at_lag()
            assert manager.max_lag == 0
            nursery.cancel_scope.cancel()

    run(main)
