"""A node of its own quorum in this process with further workers, and requests to all of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import trio

from gateway.app.node import serve
from gateway.config.config import Config, Listener
from gateway.server.management.running_server import RunningServer
from kwire.message import Message
from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.uuid import METADATA_TOPIC_ID, Uuid
from tests.gateway.server.harness import Client, connect, request
from tests.waiting import until_async

FETCH, LIST_OFFSETS, CREATE_TOPICS = 1, 2, 19
#: With so many connections all are served by the same of two workers once in 10^5 runs.
CONNECTIONS = 18


class ServedWorkers:
    """A server whose processes share the port of its client listener."""

    def __init__(self, ready: RunningServer, stop: trio.Event) -> None:
        assert ready.workers is not None
        self.ready, self.stop, self.workers = ready, stop, ready.workers

    @property
    def port(self) -> int:
        return self.ready.bound_listeners[0].port

    async def connections(self, number: int = CONNECTIONS) -> list[Client]:
        """Connections to the shared port, some to each worker."""
        return [await connect(self.port) for _ in range(number)]

    async def page(self, path: str) -> str:
        """A page of the management port."""
        assert self.ready.management is not None
        stream = await trio.open_tcp_stream("127.0.0.1", self.ready.management.port)
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        text = b""
        while b"\r\n\r\n" not in text or len(text.split(b"\r\n\r\n", 1)[1]) < _length(text):
            text += await stream.receive_some()
        await trio.aclose_forcefully(stream)
        return text.split(b"\r\n\r\n", 1)[1].decode()

    async def status(self) -> Any:
        return json.loads(await self.page("/status"))

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = (await self.page("/metrics")).splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith((name + "{", name + " "))
        )

    def pid(self, worker: int = 2) -> int:
        """The process of a worker that is ready."""
        found = self.workers.all[worker - 1].pid
        assert found is not None
        return found

    async def replaced(self, pid: int, worker: int = 2) -> None:
        """Wait until another process than ``pid`` serves as this worker."""
        one = self.workers.all[worker - 1]
        await until_async(lambda: one.is_ready and one.pid not in (None, pid))


def _length(text: bytes) -> int:
    head = text.split(b"\r\n\r\n", 1)[0].decode().lower()
    return int(head.split("content-length:")[1].split()[0])


@contextlib.asynccontextmanager
async def served_workers(directory: Path, **more: Any) -> AsyncIterator[ServedWorkers]:
    """Serve with two workers over an own quorum in ``directory``."""
    config = Config(
        **{
            "workers": 2,
            "source": "controller",
            "data_dir": directory / "node",
            "listeners": (
                Listener("PLAINTEXT", "127.0.0.1", 0),
                Listener("CONTROLLER", "127.0.0.1", 0),
            ),
            "management_listener": "127.0.0.1:0",
            "metadata_log_fsync": False,
            "drain_timeout_ms": 2000,
            **more,
        }
    )
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        served = ServedWorkers(await nursery.start(serve, config, stop), stop)
        yield served
        stop.set()
        await served.ready.ended.wait()


async def ask(client: Client, message: Message, version: int) -> Any:
    """Send a request and return its response."""
    assert message.API_KEY is not None
    await client.send(request(message.API_KEY, version, message.encode(version)))
    return (await client.answer(message.API_KEY, version))[1]


async def create(client: Client, name: str, partitions: int = 1) -> int:
    """Create a topic; return the error code."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = await ask(client, CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7)
    return int(answer.topics[0].error_code)


async def latest(client: Client, name: str = CLUSTER_METADATA_TOPIC) -> int:
    """The offset behind the last record of partition 0."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name=name, partitions=[partition])
    answer = await ask(client, ListOffsetsRequest(topics=[topic]), 7)
    found = answer.topics[0].partitions[0]
    assert found.error_code == 0
    return int(found.offset)


async def fetch(client: Client, offset: int = 0, topic_id: Uuid = METADATA_TOPIC_ID) -> Any:
    """The response for partition 0 of a topic, at once."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000_000)
    topic = FetchTopic(topic_id=topic_id, partitions=[partition])
    asked = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=50_000_000, topics=[topic])
    return (await ask(client, asked, 13)).responses[0].partitions[0]


async def close(clients: Sequence[Client]) -> None:
    """Close all connections."""
    for client in clients:
        await trio.aclose_forcefully(client.stream)
