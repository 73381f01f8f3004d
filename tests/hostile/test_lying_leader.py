"""An observing server whose leader sends wrong responses shows its clients committed records only.

The leader of the model quorum changes its responses at random for a while. Two changes are left
out, because every replica must believe its leader there: a high watermark above the true one, and
records at their place in the leader's own epoch. Once the responses are right again, the observer
gets the committed log, byte for byte.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.messages import fetch_response, fetch_snapshot_response
from tests.gateway.quorum.batches import data_batch
from tests.gateway.server.harness import run
from tests.gateway.server.loopback_quorum import (
    FETCH,
    FETCH_SNAPSHOT,
    LoopbackQuorum,
    loopback_quorum,
)
from tests.gateway.server.observed import Consumer, committed, config, gateway
from tests.gateway.server.upstream_peer import Asked
from tools.process import memory_mib

#: The time of wrong responses in each round, s.
LIES_S, ROUNDS = 0.7, 3
CHUNK = 256 * 1024
MEMORY_MIB = 96.0


class Liar:
    """Changes the responses of the leader of ``quorum``; ``counts`` has each change by name."""

    def __init__(self, quorum: LoopbackQuorum, rand: random.Random) -> None:
        self._quorum, self._rand = quorum, rand
        self.counts: dict[str, int] = {}

    def twist(self, asked: Asked, made: Any) -> None:
        """Change the response ``made`` in place, in most cases."""
        if asked.key == FETCH and not made.error_code and made.responses:
            partition = made.responses[0].partitions[0]
            changes = (
                self._watermark,
                self._forge,
                self._garbage,
                self._diverge,
                self._point,
                self._epoch,
            )
            if not partition.error_code and self._rand.random() < 0.8:
                change = self._rand.choice(changes)
                self.counts[change.__name__] = self.counts.get(change.__name__, 0) + 1
                change(partition)
        elif asked.key == FETCH_SNAPSHOT:
            self._endless(asked, made)

    def _watermark(self, partition: Any) -> None:
        lower = max(0, partition.high_watermark)
        partition.high_watermark = self._rand.choice(
            (-1, -(2**63), 0, self._rand.randint(0, lower))
        )

    def _forge(self, partition: Any) -> None:
        end, epoch = self._quorum.leader.end, self._quorum.leader.last_epoch
        forged = self._rand.choice(
            (data_batch(end + 1, 2, epoch, 9), data_batch(end, 2, epoch + 1, 9))
        )
        partition.records = bytes(partition.records or b"") + forged.data

    def _garbage(self, partition: Any) -> None:
        forged = data_batch(self._quorum.leader.end, 1, 1, 998).data
        damaged = bytes([*forged[:-1], forged[-1] ^ 1])
        partition.records = self._rand.choice((b"\xff" * 100, b"\0" * 61, forged[:40], damaged))

    def _diverge(self, partition: Any) -> None:
        end = self._quorum.committed_end
        epoch = self._rand.choice((self._quorum.leader.last_epoch, 2**31 - 1))
        offset = end + self._rand.choice((0, 1, 2**40))
        partition.records = b""
        partition.diverging_epoch = fetch_response.EpochEndOffset(epoch=epoch, end_offset=offset)

    def _point(self, partition: Any) -> None:
        end = self._rand.choice((2**63 - 1, self._quorum.committed_end + 10))
        epoch = self._quorum.leader.last_epoch
        partition.records = b""
        partition.snapshot_id = fetch_response.SnapshotId(end_offset=end, epoch=epoch)

    def _epoch(self, partition: Any) -> None:
        partition.current_leader.leader_epoch -= self._rand.choice((0, 1, 5))
        partition.current_leader.leader_id = self._rand.choice((-1, 1, 99))

    def _endless(self, asked: Asked, made: Any) -> None:
        self.counts["_endless"] = self.counts.get("_endless", 0) + 1
        wanted = asked.message.topics[0].partitions[0]
        id, leader = wanted.snapshot_id, self._quorum.leader
        chunk = fetch_snapshot_response.PartitionSnapshot(
            snapshot_id=fetch_snapshot_response.SnapshotId(
                end_offset=id.end_offset, epoch=id.epoch
            ),
            current_leader=fetch_snapshot_response.LeaderIdAndEpoch(
                leader_id=leader.id, leader_epoch=leader.last_epoch
            ),
            size=2**62,
            position=wanted.position,
            unaligned_records=b"x" * CHUNK,
        )
        topic = fetch_snapshot_response.TopicSnapshot(name="__cluster_metadata", partitions=[chunk])
        made.error_code, made.topics = 0, [topic]


@pytest.mark.parametrize("seed", range(3))
def test_lying_leader_cannot_make_clients_see_uncommitted_records(
    tmp_path: Path, seed: int
) -> None:
    rand = random.Random(seed)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            liar = Liar(quorum, rand)
            async with gateway(config(tmp_path, quorum)) as served, trio.open_nursery() as nursery:
                await served.shows(quorum.committed_end)
                consumer, before = Consumer(quorum, served.port), memory_mib(os.getpid())
                nursery.start_soon(consumer.run)
                for _ in range(ROUNDS):
                    quorum.leader.twist = liar.twist
                    for _ in range(10):
                        quorum.write(rand.randint(1, 3))
                        await trio.sleep(LIES_S / 10)
                    quorum.leader.twist = None
                    quorum.write()
                    await served.shows(quorum.committed_end)
                    assert served.served() == committed(quorum)
                assert memory_mib(os.getpid()) < before + MEMORY_MIB
                assert served.events("internal error") == 0
                assert sum(liar.counts.values()) > 5, liar.counts
                nursery.cancel_scope.cancel()

    run(main)
