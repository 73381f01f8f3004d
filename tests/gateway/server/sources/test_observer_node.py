"""A whole server that observes a model quorum over real sockets, as its clients see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.ports.services import State
from gateway.server.quorum import observer_watch
from tests.gateway.quorum.observer.model import CLUSTER_ID
from tests.gateway.server.harness import run
from tests.gateway.server.loopback_quorum import (
    FETCH,
    FETCH_SNAPSHOT,
    answers_garbage,
    closes,
    hangs,
    loopback_quorum,
    once,
)
from tests.gateway.server.observed import Consumer, committed, config, gateway, remembering
from tests.gateway.server.upstream_peer import Asked, Node
from tests.gateway.sources.reading import batches_from
from tests.waiting import until_async


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


# --- following


def test_observer_serves_exactly_the_committed_bytes(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            async with gateway(config(data_dir, quorum)) as served:
                assert served.source.state is State.READY, (
                    "the ready line waits until the log is where the leader's is"
                )
                assert served.served() == committed(quorum)
                quorum.write(2, commit=False)
                await until_async(lambda: served.source.store.end_offset == quorum.leader.end)
                # Uncommitted records are written and synced, but not served.
                await until_async(lambda: served.source.store.flushed_offset == quorum.leader.end)
                await trio.sleep(0.1)
                assert served.served() == committed(quorum)
                quorum.replicate_all()
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)
                assert (served.observation.leader_id, served.observation.epoch) == (1, 1)
                assert served.source.cluster_id == CLUSTER_ID
                assert served.readiness().ready
                assert served.observation.fetched_records == quorum.leader.end

    run(main)


@pytest.mark.parametrize("newest", range(13, 19))
def test_observer_follows_leaders_of_every_fetch_version(data_dir: Path, newest: int) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            for voter in quorum.voters.values():
                voter.fetch_versions = range(4, newest + 1)
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                quorum.write(1)
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)
                assert {one.version for one in quorum.leader.asked if one.key == FETCH} == {newest}

    run(main)


def test_consumer_reads_each_record_once_across_elections(data_dir: Path) -> None:
    async def main() -> None:
        async with (
            loopback_quorum() as quorum,
            gateway(config(data_dir, quorum)) as served,
            trio.open_nursery() as clients,
        ):
            consumer = Consumer(quorum, served.port)
            clients.start_soon(consumer.run)
            for leader in (2, 3, 1, 2, 3):
                quorum.write(2)
                quorum.write(3, commit=False)  # only the old leader has it: it must never be served
                await until_async(lambda: served.source.store.end_offset == quorum.leader.end)
                old = quorum.leader.id
                quorum.lead(leader, [one for one in quorum.voters if one != old])
                quorum.write(1)
                await served.shows(quorum.committed_end)
                assert served.observation.leader_id == leader
            await until_async(lambda: consumer.offset == quorum.committed_end)
            assert consumer.read == committed(quorum) == served.served()
            assert served.events("log truncated") == 5
            assert served.source.leader_epoch == quorum.leader.epoch == 6
            clients.cancel_scope.cancel()

    run(main)


def test_resigned_leader_that_names_itself_is_fetched_from_with_backoff(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                quorum.resign(1)
                quorum.changed()
                await until_async(
                    lambda: served.observation.fetch_errors["NOT_LEADER_OR_FOLLOWER"] > 0
                )
                before = sum(voter.count(FETCH) for voter in quorum.voters.values())
                await trio.sleep(1)
                assert sum(voter.count(FETCH) for voter in quorum.voters.values()) - before < 30
                assert served.served() == committed(quorum)
                quorum.lead(2, [2, 3])
                quorum.write(1)
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)

    run(main)


@pytest.mark.parametrize(
    ("mood", "kind", "told"),
    [
        (hangs, "timeout", "no answer to Fetch"),
        (closes, "closed", "closed"),
        (answers_garbage, "undecodable", "cannot be read"),
    ],
)
def test_silent_leader_is_fetched_from_again(
    data_dir: Path, mood: Any, kind: str, told: str
) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                problems: list[str] = []
                for voter in quorum.voters.values():
                    voter.mood = remembering(
                        once(mood, times=2 if voter is quorum.leader else 0), problems, served
                    )
                quorum.write(1)
                await served.shows(quorum.committed_end)
                quorum.write(1)
                await served.shows(quorum.committed_end)
                await until_async(lambda: served.observation.fetch_errors[kind] >= 1)
                assert served.served() == committed(quorum)
                await until_async(lambda: served.observation.problem is None)
                assert any(told in problem for problem in problems), problems
                assert served.events("request failed") >= 1

    run(main)


@pytest.mark.parametrize("part", [1, 4, 5, 60])
def test_truncated_response_is_counted_and_fetched_again(data_dir: Path, part: int) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)

            async def cut(node: Node, asked: Asked) -> bool:
                whole = asked.answer(await quorum._answer(quorum.leader, asked))
                await node.send(whole[:part])
                raise trio.EndOfChannel

            quorum.leader.mood = once(cut, times=2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.observation.fetch_errors["closed"] >= 1
                assert served.served() == committed(quorum)

    run(main)


def test_batches_with_a_bad_crc_are_fetched_again(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            left = 2

            def spoil(asked: Asked, made: Any) -> None:
                nonlocal left
                if (
                    asked.key == FETCH
                    and made.responses
                    and made.responses[0].partitions[0].records
                    and left
                ):
                    left -= 1
                    records = bytes(made.responses[0].partitions[0].records)
                    made.responses[0].partitions[0].records = records[:-1] + bytes(
                        [records[-1] ^ 1]
                    )

            quorum.leader.twist = spoil
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.observation.fetch_errors["unusable"] == 2
                assert served.events("protocol violation") >= 1
                assert served.served() == committed(quorum)

    run(main)


def test_observer_loads_the_snapshot_at_the_start_of_the_log(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            for _ in range(10):
                quorum.write(2)
            id = quorum.take_snapshot(clean=True)
            quorum.write(2)
            settings = config(data_dir, quorum, controller_quorum_fetch_snapshot_max_bytes=50)
            async with gateway(settings) as served:
                await served.shows(quorum.committed_end)
                assert served.source.store.start_offset == id.end_offset
                assert served.source.log_start_offset == id.end_offset - 5
                after = [data for _, _, data in batches_from(served.source, id.end_offset)]
                assert after == [
                    batch.data for batch in quorum.committed if batch.base >= id.end_offset
                ]
                assert (
                    served.observation.snapshot_downloads,
                    served.observation.snapshot_loads,
                ) == (1, 1)
                assert quorum.leader.count(FETCH_SNAPSHOT) > 3
                assert served.observation.snapshot is None

    run(main)


def test_history_below_a_snapshot_is_copied(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum(dynamic=True) as quorum:
            for _ in range(10):
                quorum.write(2)
            quorum.take_snapshot(clean=False)
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)
                assert quorum.leader.count(FETCH_SNAPSHOT) == 0

    run(main)


def test_observer_is_stale_while_all_voters_are_down_and_recovers(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_watch, "LOST_AFTER_S", 0.7)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(3)
            async with gateway(config(data_dir, quorum)) as served, trio.open_nursery() as clients:
                await served.shows(quorum.committed_end)
                assert served.readiness() == (True, "ready", "", None)
                await quorum.down()
                await until_async(lambda: served.source.state is State.STALE)
                ready, state, reason, since = served.readiness()
                assert (ready, state) == (False, "stale") and since is not None
                assert "cannot connect" in reason and "127.0.0.1:" in reason
                consumer = Consumer(quorum, served.port)
                clients.start_soon(consumer.run)
                await until_async(lambda: consumer.offset == quorum.committed_end)
                await quorum.up()
                quorum.lead(2)
                quorum.write(1)
                await until_async(lambda: consumer.offset == quorum.committed_end)
                assert consumer.read == committed(quorum)
                assert served.source.state is State.READY
                assert served.readiness().ready
                assert served.observation.fetch_errors["unreachable"] > 0
                clients.cancel_scope.cancel()

    run(main)
