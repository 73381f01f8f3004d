"""Serves the handlers on a plain blocking socket, with a thread for each connection, to test stock
clients without the real server.

It splits frames, decodes headers, calls handlers and encodes responses.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kwire
from gateway.handlers.apis.api_versions import unsupported_version_response
from gateway.handlers.context import Context, Peer
from gateway.handlers.table import handlers
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Endpoint, FileRecords
from gateway.server.sources.served_partitions import served_partitions
from kwire.frame import FrameSplitter, frame
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kwire.protocol import ErrorCode
from kwire.records import iter_batches
from tests.gateway.handlers.world import Batch, MemoryPartition, World, content_of, encoded

#: There is no group coordinator here. A client that looks for one gets an error: if the connection
#: closed instead, responses to other requests would be lost with it.
GROUP_APIS = frozenset({8, 9, 11, 12, 13, 14, 15, 16, 42, 47})
FIND_COORDINATOR = 10
SAMPLE = (
    Path(__file__).resolve().parents[3]
    / "gateway"
    / "sample"
    / "__cluster_metadata-0"
    / f"{0:020d}.log"
)


@dataclass(frozen=True, slots=True)
class RealBatch(Batch):
    """A batch with the bytes of a real one."""

    content: bytes = b""

    @property
    def data(self) -> bytes:
        return self.content


def sample_partition(path: Path = SAMPLE) -> MemoryPartition:
    """The log in the package, which real Kafka wrote, in memory."""
    data = path.read_bytes()
    batches: list[Batch] = []
    for header in iter_batches(data):
        content = data[header.position : header.end]
        last, epoch = header.last_offset, header.partition_leader_epoch
        batches.append(
            RealBatch(header.base_offset, last, epoch, header.max_timestamp, len(content), content)
        )
    return MemoryPartition(batches)


class MiniServer(World):
    """A World that listens on ``port``; ``seen`` holds (api key, version) of every request."""

    port: int = 0
    seen: list[tuple[int, int]]

    def endpoint(self, listener: str) -> Endpoint:
        return Endpoint(listener, "127.0.0.1", self.port, "PLAINTEXT")

    def talk(self, connection: socket.socket) -> None:
        """Answer the requests of one connection until it ends."""
        splitter = FrameSplitter(1 << 24)
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                splitter.feed(data)
                while (request := splitter.next_frame()) is not None:
                    answer = self.answer(request)
                    if answer is None:
                        return
                    connection.sendall(answer)

    def answer(self, request: bytes) -> bytes | None:
        """The frame that answers a request, None to close the connection."""
        header, at = decode_request_header(request)
        key, version = header.request_api_key, header.request_api_version
        self.seen.append((key, version))
        handler = handlers().get(key)
        if handler is not None and version not in handler.versions:
            handler = None
        if key in GROUP_APIS or (handler is None and key != 18):
            return None
        head = encode_response_header(key, version if handler else 0, header.correlation_id)
        if handler is None:
            return frame(head, unsupported_version_response().encode(0))
        body: Any
        body, _ = kwire.request_type(key).decode_from(request, version, at)
        if key == FIND_COORDINATOR:
            return frame(head, no_coordinator(body, version).encode(version))
        peer = Peer("PLAINTEXT", "User:ANONYMOUS", "127.0.0.1", 1, 1)
        now, wall_ms = time.monotonic(), int(time.time() * 1000)
        self.partitions = served_partitions(self)  # a test may have given it others
        response: Any = handler.handle(
            body, Context(version, header.client_id, peer, self, now, wall_ms)
        )
        if isinstance(response, PendingResponse):
            response = self.wait(response)
        if response is None:
            return None
        parts: list[bytes] = []
        for part in encoded(response, version):
            parts += (
                [content_of(chunk) for chunk in part.read.chunks]
                if isinstance(part, FileRecords)
                else [bytes(part)]
            )
        return frame(head, *parts)

    def wait(self, pending: PendingResponse) -> object:
        """Look again and again until the answer is there or its time is over."""
        ready = pending.ready
        assert ready is not None and pending.deadline is not None and pending.expire is not None
        # tidy: clock: a server that waits as long as the request says
        while time.monotonic() < pending.deadline:  # tidy: poll: nothing tells that it is ready
            if (response := ready()) is not None:
                return response
            time.sleep(0.01)
        return pending.expire()


def no_coordinator(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
    """Return COORDINATOR_NOT_AVAILABLE, on which clients retry."""
    if version < 4:
        return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            for key in request.coordinator_keys
        ]
    )


@contextmanager
def serving(partition: MemoryPartition | None = None) -> Iterator[MiniServer]:
    """A server on 127.0.0.1 at a port of its own, as long as the block lasts."""
    handlers()  # imported before a client waits for the first answer
    server = MiniServer(partition or sample_partition())
    server.seen = []
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=server.talk, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
