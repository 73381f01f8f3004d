"""Starts the server under attack in this process, on port 0, and checks that it serves others."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import trio

from gateway.app.node import serve
from gateway.config.config import Config, Listener
from gateway.server.management.running_server import RunningServer
from kwire.messages.metadata_request import MetadataRequest
from tests.gateway.server.harness import Client, connect, request
from tests.hostile.counted_server import LongestPass
from tests.waiting import PATIENCE_S

METADATA = 3


class Target:
    """A running server; :meth:`assert_served` fails unless other clients are served."""

    def __init__(self, ready: RunningServer) -> None:
        self.ready = ready
        self.port = ready.bound_listeners[0].port
        self.counts = ready.reports.counts
        self.longest_pass: LongestPass | None = None  #: where the server counts its work

    async def connect(self, **options: Any) -> Client:
        return await connect(self.port, **options)

    async def assert_served(self, client: Client | None = None) -> None:
        """A client (a new one if none is given) asks for metadata and gets the topic."""
        with trio.fail_after(PATIENCE_S):
            if client is None:
                async with await self.connect() as client:
                    await self._metadata(client)
            else:
                await self._metadata(client)

    async def _metadata(self, client: Client) -> None:
        await client.send(
            request(METADATA, 12, MetadataRequest(topics=None).encode(12), correlation_id=99)
        )
        correlation_id, answer = await client.answer(METADATA, 12)
        assert correlation_id == 99
        assert [topic.name for topic in answer.topics] == ["__cluster_metadata"]


@contextlib.asynccontextmanager
async def attacked(state_dir: Path, **config: Any) -> AsyncIterator[Target]:
    """Serve the sample log; drain at the end."""
    settings = Config(
        listeners=(Listener("PLAINTEXT", "127.0.0.1", 0),),
        source="sample",
        state_dir=state_dir,
        **{"drain_timeout_ms": 500, "log_level": "error", **config},
    )
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        ready = await nursery.start(serve, settings, stop)
        yield Target(ready)
        stop.set()
