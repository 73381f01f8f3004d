"""Reads from a real ``kwire serve`` without Spark: lost offsets, a restart, and no server."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.source.fetch import read_range
from kwire.spark.source.offsets import DataLossError
from kwire.spark.source.options import Place, Settings, settings_of
from kwire.spark.source.server import ServerError, ServerLog
from tests.shared import needs_shared
from tools.gateway_process import gateway

pytestmark = needs_shared


@pytest.fixture
def directory(logs: Any, tmp_path: Path) -> Path:
    """A log that starts at 985, behind a snapshot."""
    return Path(shutil.copytree(logs("p-one-segments") / "nodes" / "7", tmp_path / "data"))


@pytest.fixture
def bootstrap(directory: Path) -> Iterator[str]:
    with gateway("--source", "log", "--log-dir", str(directory), "--no-snapshot-prefix") as server:
        yield server.bootstrap


def settings(bootstrap: str, **options: str) -> Settings:
    return settings_of(
        {
            "bootstrap.servers": bootstrap,
            "pollTimeoutMs": "700",
            "kafka.bootstrap_timeout_ms": "1000",
            **options,
        }
    )


def offsets(settings: Settings, start: int, end: int) -> list[int]:
    return [
        offset
        for records in read_range(settings, start, end)
        for offset in records.offsets.tolist()
    ]


def test_a_range_and_its_parts(bootstrap: str) -> None:
    log = ServerLog(settings(bootstrap))
    state = log.state()
    assert (state.start, state.end) == (985, 1148)
    position = log.position(state.end, state)
    assert (position.epoch, log.end_of_epoch(position.epoch)) == (
        state.leader_epoch,
        (state.leader_epoch, state.end),
    )
    assert log.offset_of(Place(timestamp_ms=0), state) >= state.start
    assert log.offset_of(Place(timestamp_ms=1 << 50), state) == state.end
    log.close()
    every = offsets(settings(bootstrap), state.start, state.end)
    assert every == sorted(set(every)) and every[0] >= 985
    for middle in (986, 1000, 1100):
        found = offsets(settings(bootstrap), 985, middle) + offsets(
            settings(bootstrap), middle, 1148
        )
        assert found == every
    # An answer need not hold more than one batch.
    assert (
        offsets(settings(bootstrap, **{"kafka.max_partition_fetch_bytes": "1"}), 985, 1148) == every
    )


def test_offsets_that_are_gone(bootstrap: str) -> None:
    every = offsets(settings(bootstrap), 985, 1148)
    for start, end in ((900, 1148), (1200, 1300)):
        with pytest.raises(DataLossError, match=f"offset {start} .* goes from 985 to 1148"):
            offsets(settings(bootstrap), start, end)
    assert offsets(settings(bootstrap, failOnDataLoss="false"), 900, 1148) == every
    assert offsets(settings(bootstrap, failOnDataLoss="false"), 1200, 1300) == []


def test_offsets_that_do_not_come(bootstrap: str) -> None:
    with pytest.raises(ServerError, match=f"{bootstrap} gave nothing at offset 1148 for 700 ms"):
        offsets(settings(bootstrap), 1148, 1150)


def test_unreachable_server_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            ServerError, match=f"cannot read __cluster_metadata from {nowhere}: .*bootstrap"
        ):
            ServerLog(settings(nowhere))


def test_a_server_that_restarts_ends_no_query(directory: Path) -> None:
    arguments = ("--source", "log", "--log-dir", str(directory))
    with gateway(*arguments) as server:
        address, log = server.bootstrap, ServerLog(settings(server.bootstrap))
        before = log.state()
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(log.state()))
    asking.start()
    with gateway(*arguments, "--listeners", f"PLAINTEXT://{address}"):
        asking.join(30)
        assert answers == [before]
        log.close()
