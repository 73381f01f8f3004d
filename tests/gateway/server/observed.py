"""A server that observes a model quorum, and a client that reads continuously."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from gateway.app.node import serve
from gateway.config.config import Config, ConfigError, Listener
from gateway.ports.services import SourceStopped
from gateway.server.management.facts import Facts
from gateway.server.management.running_server import RunningServer
from gateway.server.quorum.quorum_status import QuorumStatus
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.records import iter_batches
from tests.gateway.server.harness import Client, connect, request
from tests.gateway.server.loopback_quorum import (
    LoopbackQuorum,
)
from tests.gateway.server.upstream_peer import Asked, Node
from tests.gateway.sources.reading import batches_from
from tests.waiting import PATIENCE_S, until_async

LOCAL = Listener("PLAINTEXT", "127.0.0.1", 0)


def config(data_dir: Path, quorum: LoopbackQuorum, **more: Any) -> Config:
    """Timeouts as short as a busy machine permits."""
    return Config(
        listeners=more.pop("listeners", (LOCAL,)),
        controller_quorum_bootstrap_servers=more.pop("bootstrap", quorum.bootstrap),
        data_dir=data_dir,
        drain_timeout_ms=2000,
        **{"controller_quorum_request_timeout_ms": 1000, "metadata_log_fsync": False, **more},
    )


@contextlib.asynccontextmanager
async def gateway(settings: Config) -> AsyncIterator[Gateway]:
    """Run the server; it drains at the end. Raises the exception that ends it, without groups."""
    stop = trio.Event()
    raised: list[BaseException] = []
    try:
        async with trio.open_nursery() as nursery:
            ready = await nursery.start(serve, settings, stop)
            yield Gateway(ready, stop)
            stop.set()
            await ready.ended.wait()
    except* (ConfigError, SourceStopped) as group:
        raised = [group]
    if raised:
        error = raised[0]
        while isinstance(error, BaseExceptionGroup):
            (error,) = error.exceptions
        raise error from None


class Gateway:
    """A running server and the parts of it that tests read."""

    def __init__(self, ready: RunningServer, stop: trio.Event) -> None:
        self.ready = ready
        self.stop = stop
        self.source: Any = ready.services.partition
        assert ready.services.quorum is not None
        self.quorum = ready.services.quorum
        self.port = ready.bound_listeners[0].port

    @property
    def observation(self) -> QuorumStatus:
        return self.quorum.status()

    async def shows(self, high_watermark: int) -> None:
        """Wait until clients can read up to this offset."""
        await until_async(lambda: bool(self.source.high_watermark >= high_watermark))

    def served(self) -> list[bytes]:
        return [data for _, _, data in batches_from(self.source, self.source.log_start_offset)]

    def readiness(self) -> Any:
        """The state that /readyz reports."""
        facts = Facts(
            version="",
            node_id=0,
            source="quorum",
            listeners={},
            partition=self.source,
            server_context=None,  # type: ignore[arg-type]
            quorum=self.quorum.status,
            stopping=self.stop.is_set,
        )
        return facts.readiness()

    def events(self, name: str) -> int:
        return self.ready.reports.counts[name]


def committed(quorum: LoopbackQuorum) -> list[bytes]:
    return [batch.data for batch in quorum.committed]


class Consumer:
    """A client that reads continuously: every record once, in order, and only committed ones."""

    def __init__(self, quorum: LoopbackQuorum, port: int, offset: int = 0) -> None:
        self.offset = offset
        self.read: list[bytes] = []
        self._quorum = quorum
        self._port = port

    async def run(self) -> None:
        async with await connect(self._port) as client:
            while True:
                await self._fetch(client)

    async def _fetch(self, client: Client) -> None:
        partition = FetchPartition(
            partition=0, fetch_offset=self.offset, partition_max_bytes=1 << 20
        )
        topic = FetchTopic(topic="__cluster_metadata", partitions=[partition])
        await client.send(
            request(1, 12, FetchRequest(max_wait_ms=100, min_bytes=1, topics=[topic]).encode(12))
        )
        _, answer = await client.answer(1, 12)
        data = answer.responses[0].partitions[0]
        assert data.error_code in (0, 5, 6), data.error_code
        known = {batch.base: batch.data for batch in self._quorum.committed}
        for batch in iter_batches(data.records or b"", check_crc=True):
            assert batch.base_offset == self.offset
            found = bytes(data.records[batch.position : batch.end])
            assert known[batch.base_offset] == found, "committed, byte for byte"
            self.read.append(found)
            self.offset = batch.next_offset
        if data.error_code:
            await trio.sleep(0.02)


def stops_with(
    settings: Config,
    kind: type[Exception],
    then: Callable[[Gateway], Awaitable[None]] | None = None,
) -> Any:
    """Run a server that stops by itself, and return its error text."""

    async def main() -> str:
        with pytest.raises(kind) as caught, trio.fail_after(PATIENCE_S):
            async with gateway(settings) as served:
                assert then is not None, "it must not become ready"
                await then(served)
                await served.stop.wait()
        return str(caught.value)

    return main()


def remembering(mood: Any, problems: list[str], served: Gateway) -> Any:
    """Apply ``mood``, and collect the server's problem at every request."""

    async def moody(node: Node, asked: Asked) -> bool:
        problems.append(str(served.observation.problem))
        return bool(await mood(node, asked))

    return moody
