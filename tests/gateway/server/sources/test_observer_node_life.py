"""A server that observes a quorum: start, stop and restart, and errors that only an operator can
resolve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.ports.services import SourceStopped, State
from gateway.server.sources import observer_node as observed_quorum
from kwire.messages.fetch_response import EpochEndOffset
from tests.gateway.quorum.observer.model import CLUSTER_ID
from tests.gateway.server.harness import run
from tests.gateway.server.loopback_quorum import FETCH, FETCH_SNAPSHOT, hangs, loopback_quorum, once
from tests.gateway.server.observed import Consumer, Gateway, committed, config, gateway, stops_with
from tests.gateway.server.upstream_peer import Asked, Node
from tests.waiting import PATIENCE_S, until_async


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


# --- starting and stopping


def test_restarted_observer_continues_at_its_log_end(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
            fetched = quorum.leader.count(FETCH)
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)
                assert served.observation.fetched_records == 2
                first = next(one for one in quorum.leader.asked[fetched:] if one.key == FETCH)
                assert first.message.cluster_id == CLUSTER_ID

    run(main)


def test_restarted_observer_without_a_quorum_serves_its_committed_log(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_quorum, "LOADING_MAX_S", 0.3)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            settings = config(data_dir, quorum)
            async with gateway(settings) as served:
                await served.shows(quorum.committed_end)
            await quorum.down()
            async with gateway(settings) as served:
                assert served.ready.facts()["high_watermark"] == quorum.committed_end
                assert (served.source.state, served.served()) == (State.STALE, committed(quorum))
                assert not served.readiness().ready

    run(main)


def test_empty_observer_without_a_quorum_is_loading(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_quorum, "LOADING_MAX_S", 0.3)

    async def main() -> None:
        async with (
            loopback_quorum(leader=None) as quorum,
            gateway(config(data_dir, quorum)) as served,
        ):
            assert served.ready.facts()["state"] == "loading"
            ready, state, reason, _ = served.readiness()
            assert (ready, state) == (False, "loading")
            assert "No high watermark of the quorum is known yet. 127.0.0.1:" in reason
            consumer = Consumer(quorum, served.port)
            with trio.move_on_after(0.2):
                await consumer.run()
            assert consumer.read == []
            quorum.lead(3)
            quorum.write(1)
            await served.shows(quorum.committed_end)
            await until_async(lambda: served.source.state is State.READY)

    run(main)


def test_snapshot_download_is_reported_and_continues_after_a_pause(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_quorum, "LOADING_MAX_S", 0.3)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            for _ in range(10):
                quorum.write(2)
            id = quorum.take_snapshot(clean=True)
            size = len(quorum.leader.snapshots[id])
            asked = 0

            async def stalls(node: Node, one: Asked) -> bool:
                nonlocal asked
                asked += 1
                return asked == 2 and await hangs(node, one)

            quorum.leader.mood = once(stalls, FETCH_SNAPSHOT, times=2)
            settings = config(data_dir, quorum, controller_quorum_fetch_snapshot_max_bytes=100)
            async with gateway(settings) as served:
                await until_async(lambda: "is being fetched: 100 of" in served.readiness().reason)
                assert (
                    f"{id}.checkpoint is being fetched: 100 of {size} bytes"
                    in served.readiness().reason
                )
                assert served.ready.facts()["state"] == "loading"
                await served.shows(id.end_offset)
                await until_async(lambda: served.readiness().ready)
                positions = [
                    one.message.topics[0].partitions[0].position
                    for one in quorum.leader.asked
                    if one.key == FETCH_SNAPSHOT
                ]
                assert positions == sorted(positions), "what was here is not fetched twice"
                assert sorted(set(positions)) == list(range(0, size, 100))
                served.stop.set()
                assert served.readiness().state == "stopping"

    run(main)


def test_stopped_observer_leaves_no_descriptors_and_connections(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            # The first server finds no log to open, and its imports stay.
            for _ in range(3):
                before = descriptors()
                async with gateway(config(data_dir, quorum)) as served:
                    await served.shows(quorum.committed_end)
                await until_async(
                    lambda: not any(voter.connections for voter in quorum.voters.values())
                )
            # A thread may close its file behind the end of the server.
            await until_async(lambda: descriptors() <= before)

    run(main)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("moment", ["connecting", "asking"])
def test_stop_does_not_wait_for_the_quorum(
    data_dir: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_quorum, "LOADING_MAX_S", 0.2)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            for voter in quorum.voters.values():
                voter.mood = hangs if moment == "asking" else None
            if moment == "connecting":
                await quorum.down()
            settings = config(data_dir, quorum, controller_quorum_request_timeout_ms=600_000)
            async with gateway(settings) as served:
                await trio.sleep(0.1)
                served.stop.set()
                with trio.fail_after(PATIENCE_S):
                    await served.ready.ended.wait()

    run(main)


# --- where only a person can go on


def test_log_of_another_cluster_is_refused_before_it_is_served(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            settings = config(data_dir, quorum, cluster_id="another-cluster-1234567")
            told = await stops_with(settings, SourceStopped)
            assert "another-cluster-1234567" in told
            assert "use another data.dir" in told

    run(main)


def test_replica_id_of_a_voter_is_refused_before_a_fetch(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            told = await stops_with(config(data_dir, quorum, replica_id=2), SourceStopped)
            assert "replica.id 2 is a voter of the quorum (voters: 1, 2, 3)" in told
            fetches = [
                one for voter in quorum.voters.values() for one in voter.asked if one.key == FETCH
            ]
            assert {one.message.replica_state.replica_id for one in fetches} <= {-1}

    run(main)


def test_replica_id_that_becomes_a_voters_stops_the_server(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:

            async def promote(served: Gateway) -> None:
                await until_async(
                    lambda: quorum.leader.asked[-1].message.replica_state.replica_id == 9
                )
                quorum.voters[9] = type(quorum.voters[1])(9)
                quorum.lead(2)
                quorum.changed()

            told = await stops_with(config(data_dir, quorum, replica_id=9), SourceStopped, promote)
            assert "replica.id 9 is a voter of the quorum" in told
            del quorum.voters[9]

    run(main)


def test_leader_without_committed_records_stops_the_server(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)

            async def lose(served: Gateway) -> None:
                await served.shows(quorum.committed_end)

                def diverge(asked: Asked, made: Any) -> None:
                    if asked.key == FETCH:
                        data = made.responses[0].partitions[0]
                        data.records, data.diverging_epoch = (
                            b"",
                            EpochEndOffset(epoch=1, end_offset=1),
                        )

                quorum.leader.twist = diverge

            told = await stops_with(config(data_dir, quorum), SourceStopped, lose)
            assert told.startswith("Committed records would be lost: leader 1 (127.0.0.1:")

    run(main)
