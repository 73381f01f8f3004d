"""A server that observes a quorum: failing disks, exceptions and errors of the quorum."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.log.files.errors import DiskFailed
from gateway.log.metadata.local_log import LocalLog
from gateway.ports.services import SourceStopped, State
from gateway.quorum.raft import Raft
from gateway.server.quorum import driver_policies, observer_watch
from gateway.server.sources import observer_node as observed_quorum
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.quorum.observer.model import CLUSTER_ID
from tests.gateway.server.harness import run
from tests.gateway.server.loopback_quorum import (
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    FETCH,
    loopback_quorum,
)
from tests.gateway.server.observed import Gateway, committed, config, gateway, stops_with
from tests.gateway.server.upstream_peer import Asked, Node
from tests.waiting import PATIENCE_S, until_async


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


# --- disks and bugs


def test_full_disk_pauses_following_until_there_is_space(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_policies, "_RESTART_DELAY_S", 0.05)
    disk = faulty(monkeypatch)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                disk.full = True
                quorum.lead(2)  # an epoch to be remembered, and a record
                quorum.write(1)
                await until_async(lambda: served.observation.fetch_errors["disk"] >= 2)
                assert "No space left on device" in str(served.observation.problem)
                shown = served.served()
                disk.full = False
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)
                assert served.served()[: len(shown)] == shown
                await until_async(lambda: served.observation.problem is None)
                assert (served.source.epoch, served.source.store.election.epoch) == (2, 2)

    run(main)


def test_cluster_id_that_could_not_be_written_is_written_later(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_policies, "_RESTART_DELAY_S", 0.05)
    disk = faulty(monkeypatch)
    disk.failing, disk.failing_name = "write", "meta.properties.tmp"

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.observation.fetch_errors["disk"] == 1
                assert served.source.cluster_id == served.source.store.cluster_id == CLUSTER_ID

    run(main)


def test_lost_quorum_is_noticed_while_the_disk_is_full(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_policies, "_RESTART_DELAY_S", 0.05)
    monkeypatch.setattr(observer_watch, "LOST_AFTER_S", 0.5)
    disk = faulty(monkeypatch)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                disk.full = True
                quorum.write(1)
                await until_async(lambda: served.source.state is State.STALE)
                assert "No space left on device" in served.readiness().reason
                disk.full = False
                await served.shows(quorum.committed_end)
                await until_async(lambda: served.readiness().ready)

    run(main)


def test_failed_sync_stops_the_server_with_advice(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty(monkeypatch)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)

            async def fail(served: Gateway) -> None:
                await served.shows(quorum.committed_end)
                disk.failing = "sync"
                quorum.write(1)

            told = await stops_with(
                config(data_dir, quorum, metadata_log_fsync=True), SourceStopped, fail
            )
            assert "cannot sync" in told and told.endswith(
                "restart the process: it checks the disk when it starts"
            )
            disk.fails_at = -1
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)

    run(main)


def test_failed_sync_before_ready_is_no_configuration_error(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = faulty(monkeypatch)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)

            async def from_now(node: Node, asked: Asked) -> bool:
                disk.failing = "sync"
                return False

            for voter in quorum.voters.values():
                voter.mood = from_now
            told = await stops_with(
                config(data_dir, quorum, metadata_log_fsync=True), SourceStopped
            )
            assert told.startswith("cannot sync") and told.endswith(
                "restart the process: it checks the disk when it starts"
            )

    run(main)


def test_exception_in_the_core_restarts_it_and_not_the_server(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_policies, "_RESTART_DELAY_S", 0.05)

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                step, left = Raft.step, 3

                def broken(self: Raft, *rest: Any) -> Any:
                    nonlocal left
                    left -= 1
                    if left >= 0:
                        raise KeyError("a bug")
                    return step(self, *rest)

                monkeypatch.setattr(Raft, "step", broken)
                quorum.write(1)
                await served.shows(quorum.committed_end)
                assert served.events("quorum core failed") == 3
                assert served.served() == committed(quorum)

    run(main)


def test_stop_during_a_write_closes_the_log_after_it(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on, order = threading.Event(), threading.Event(), list[str]()
    append, close = LocalLog.append, LocalLog.close

    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(2)
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)

                def slow(self: LocalLog, records: Any, **how: Any) -> int:
                    entered.set()
                    assert go_on.wait(PATIENCE_S)
                    end = append(self, records, **how)
                    order.append("appended")
                    return end

                def closing(self: LocalLog) -> None:
                    order.append("closed")
                    close(self)

                monkeypatch.setattr(LocalLog, "append", slow)
                monkeypatch.setattr(LocalLog, "close", closing)
                quorum.write(1)
                await until_async(entered.is_set)
                served.stop.set()
                await trio.sleep(0.2)
                assert order == []
                go_on.set()
                await served.ready.ended.wait()
            assert order == ["appended", "closed"]
            monkeypatch.undo()
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.served() == committed(quorum)

    run(main)


def faulty(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the disk under every local log."""

    class Disk(FaultyDisk):
        failing, failing_name = "", ".log"  #: what kind of operation on which file fails, once
        full = False

        def _step(self, what: str, path: Path, failure: type[DiskFailed] = DiskFailed) -> None:
            if what == self.failing and path.name.endswith(self.failing_name):
                self.failing, self.fails_at = "", self.count
            if self.full and what == "write":
                self.fails_at = self.count
            super()._step(what, path, failure)

    disk = Disk()
    monkeypatch.setattr("gateway.log.metadata.local_log.Disk", lambda *, fsync: disk)
    return disk


# --- what is told


@pytest.mark.parametrize(
    ("api_key", "code", "name"),
    [
        (FETCH, 31, "CLUSTER_AUTHORIZATION_FAILED"),
        (FETCH, 12_345, "OTHER"),
        (DESCRIBE_CLUSTER, 31, "CLUSTER_AUTHORIZATION_FAILED"),
    ],
)
def test_errors_are_counted_by_kafkas_names(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, api_key: int, code: int, name: str
) -> None:
    monkeypatch.setattr(observed_quorum, "LOADING_MAX_S", 0.2)

    async def main() -> None:
        async with loopback_quorum() as quorum:

            def refuse(asked: Asked, made: Any) -> None:
                if asked.key == api_key:
                    made.error_code = code

            for voter in quorum.voters.values():
                voter.twist = refuse
            async with gateway(config(data_dir, quorum)) as served:
                await until_async(lambda: served.observation.fetch_errors[name] > 0)
                if api_key == DESCRIBE_CLUSTER:  # done without
                    await until_async(lambda: served.source.state is State.READY)
                    return
                ready, state, reason, _ = served.readiness()
                assert (ready, state) == (False, "loading")
                assert ("kafka-acls" if code == 31 else "error code 12345") in reason

    run(main)


def test_invalid_responses_are_counted_and_reported(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum:
            quorum.write(1)
            left = 2

            def nonsense(asked: Asked, made: Any) -> None:
                nonlocal left
                if asked.key == FETCH and left and not made.responses[0].partitions[0].error_code:
                    left -= 1
                    made.responses = [*made.responses, *made.responses]

            quorum.leader.twist = nonsense
            async with gateway(config(data_dir, quorum)) as served:
                await served.shows(quorum.committed_end)
                assert served.observation.fetch_errors["unusable"] == 2
                assert served.events("protocol violation") >= 1
                assert served.served() == committed(quorum)

    run(main)


def test_describe_quorum_goes_to_the_leader(data_dir: Path) -> None:
    async def main() -> None:
        async with loopback_quorum() as quorum, gateway(config(data_dir, quorum)) as served:
            answers: list[Any] = []
            served.quorum.describe(answers.append)
            await until_async(lambda: len(answers) == 1)
            assert [
                one.replica_id for one in answers[0].topics[0].partitions[0].current_voters
            ] == [1, 2, 3]
            assert quorum.leader.count(DESCRIBE_QUORUM) == 1

    run(main)
