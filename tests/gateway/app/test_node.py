"""The connected application: addresses for clients, directories for state, and faults that prevent
a start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.app.node import check, serve
from gateway.config.config import Config, ConfigError, Listener
from gateway.config.loading import load_config
from gateway.ports.services import State
from gateway.security.authorizer import AllowAll
from gateway.server.management.running_server import RunningServer
from gateway.server.sources.metadata_source import SAMPLE
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest
from tests.gateway.server.harness import connect, request, run
from tests.waiting import until_async

LOCAL = Listener("PLAINTEXT", "127.0.0.1", 0)


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield


def config(**more: Any) -> Config:
    source = "auto" if "log_dirs" in more else "sample"
    return Config(**{"listeners": (LOCAL,), "source": source, **more})


def served(look: Any, settings: Config) -> None:
    """Run the server and ``look(ready)``, then drain."""

    async def main() -> None:
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            ready = await nursery.start(serve, settings, stop)
            await look(ready)
            stop.set()
            await ready.ended.wait()

    run(main)


def refused(settings: Config) -> str:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, settings, trio.Event())

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(main)
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, ConfigError)
    return str(error)


def test_source_sample_serves_the_sample_log() -> None:
    async def look(ready: RunningServer) -> None:
        facts = ready.facts()
        assert facts["source"] == "sample"
        assert facts["listeners"] == {"PLAINTEXT": f"127.0.0.1:{ready.bound_listeners[0].port}"}
        assert (facts["log_start_offset"], facts["high_watermark"]) == (0, 1057)
        assert facts["cluster_id"] == "7QN8irUjSqO4QGNDS7ESyw"
        assert ready.services.partition.state is State.READY

    served(look, config())


def test_log_dirs_selects_the_log_source(tmp_path: Path) -> None:
    async def look(ready: RunningServer) -> None:
        assert ready.facts()["source"] == "log"
        assert ready.facts()["high_watermark"] == 1057

    served(look, config(log_dirs=(SAMPLE,)))
    served(look, config(log_dirs=(SAMPLE / "__cluster_metadata-0",), source="log"))


def batches(path: Path) -> list[bytes]:
    """The record batches of a segment."""
    data, found = path.read_bytes(), []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        found.append(data[:size])
        data = data[size:]
    return found


def test_waiting_fetch_is_completed_when_the_log_grows(tmp_path: Path) -> None:
    source = tmp_path / "log" / "__cluster_metadata-0"
    source.mkdir(parents=True)
    whole = batches(SAMPLE / "__cluster_metadata-0" / "00000000000000000000.log")
    segment = source / "00000000000000000000.log"
    segment.write_bytes(b"".join(whole[:-1]))

    async def look(ready: RunningServer) -> None:
        end = ready.services.partition.high_watermark
        assert end < 1057
        partition = FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1 << 20)
        asked = FetchRequest(
            max_wait_ms=600_000,
            min_bytes=1,
            topics=[FetchTopic(topic="__cluster_metadata", partitions=[partition])],
        )
        async with await connect(ready.bound_listeners[0].port) as client:
            await client.send(request(1, 12, asked.encode(12)))
            await until_async(lambda: ready.purgatory.parked == 1)
            await trio.sleep(0.2)
            assert ready.purgatory.parked == 1
            with segment.open("ab") as file:
                file.write(whole[-1])
            _, answer = await client.answer(1, 12)
            data = answer.responses[0].partitions[0]
            assert bytes(data.records) == whole[-1]
            assert data.high_watermark == 1057

    served(look, config(log_dirs=(tmp_path / "log",)))


def test_offsets_are_stored_by_cluster_unless_state_dir_is_set(tmp_path: Path) -> None:
    async def look(ready: RunningServer) -> None: ...

    served(look, config())
    assert os.listdir(tmp_path / "state" / "kwire") == ["cluster-7QN8irUjSqO4QGNDS7ESyw"]
    served(look, config(state_dir=tmp_path / "mine"))
    assert (tmp_path / "mine").is_dir()


def test_state_directory_in_use_is_refused(tmp_path: Path) -> None:
    async def look(ready: RunningServer) -> None:
        with pytest.raises(ConfigError, match=r"state\.dir"):
            await serve_alone(config(state_dir=tmp_path))

    served(look, config(state_dir=tmp_path))


async def serve_alone(settings: Config) -> None:
    try:
        await serve(settings, trio.Event())
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            (error,) = error.exceptions
        raise error from None


def test_metadata_has_the_advertised_address() -> None:
    advertised = (Listener("PLAINTEXT", "kafka.example", 0),)
    other = Listener("INSIDE", "127.0.0.1", 0)
    protocols = {"PLAINTEXT": "PLAINTEXT", "INSIDE": "PLAINTEXT"}

    async def look(ready: RunningServer) -> None:
        for bound_listener, host in zip(
            ready.bound_listeners, ("kafka.example", "127.0.0.1"), strict=True
        ):
            async with await connect(bound_listener.port) as client:
                await client.send(request(3, 12, MetadataRequest(topics=[]).encode(12)))
                _, answer = await client.answer(3, 12)
                assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
                    (4, host, bound_listener.port)
                ]

    served(
        look,
        config(
            node_id=4,
            listeners=(LOCAL, other),
            advertised_listeners=advertised,
            listener_security_protocol_map=protocols,
        ),
    )


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_missing_key_store_fails_the_start(protocol: str) -> None:
    settings = load_config(flags={"listeners": f"{protocol}://127.0.0.1:0"})
    assert protocol in refused(settings)
    with pytest.raises(ConfigError, match=protocol):
        check(settings)
    renamed = load_config(
        flags={
            "listeners": "CLIENTS://127.0.0.1:0",
            "listener.security.protocol.map": f"CLIENTS:{protocol}",
        }
    )
    assert "CLIENTS" in refused(renamed)


def test_address_in_use_is_named() -> None:
    async def look(ready: RunningServer) -> None:
        taken = Listener("PLAINTEXT", "127.0.0.1", ready.bound_listeners[0].port)
        with pytest.raises(
            ConfigError, match=rf"listeners: cannot listen at PLAINTEXT://127\.0\.0\.1:{taken.port}"
        ):
            await serve_alone(config(listeners=(taken,)))

    served(look, config())


def test_unreadable_source_is_named(tmp_path: Path) -> None:
    assert "log.dirs" in refused(config(log_dirs=(tmp_path / "nowhere",)))
    with pytest.raises(ConfigError, match=r"log\.dirs"):
        check(config(log_dirs=(tmp_path,)))


def test_state_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "state.dir" in refused(config(state_dir=tmp_path / "file" / "x"))


def test_check_opens_no_port_and_writes_nothing(tmp_path: Path) -> None:
    check(config(state_dir=tmp_path / "state"))
    assert not (tmp_path / "state").exists()


def test_every_principal_is_allowed_without_an_authorizer() -> None:
    assert AllowAll().allows("User:ANONYMOUS", "127.0.0.1", "READ", "TOPIC", "__cluster_metadata")
