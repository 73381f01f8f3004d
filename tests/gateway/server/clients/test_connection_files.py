"""Responses with ranges of files over a real connection: sent whole, and always released."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pytest

from gateway.handlers.context import Context
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import FileRange, FileRecords, Read
from kwire.messages.fetch_response import FetchResponse
from tests.gateway.server.clients.fetch_requests import (
    FETCH,
    fetch_handler,
    fetch_request,
    records_answer,
)
from tests.gateway.server.harness import (
    run,
    serving,
)
from tests.waiting import until_async


@pytest.mark.parametrize("sizes", [(10,), (100_000,), (3_000_000,), (20_000, 5, 40_000), (1, 2, 3)])
def test_ranges_of_files_arrive_whole_and_their_read_is_released(sizes: tuple[int, ...]) -> None:
    released: list[bool] = []
    content = os.urandom(sum(sizes) + 100)

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()
            chunks: list[Any] = []
            at = 50
            for size in sizes:
                chunks.append(FileRange(file.fileno(), at, size))
                at += size
            chunks.append(b"tail")

            def handle(asked: Any, context: Context) -> FetchResponse:
                return records_answer(
                    FileRecords(Read(chunks, sum(sizes) + 4, lambda: released.append(True)))
                )

            async with serving(fetch_handler(handle)) as server, await server.connect() as client:
                await client.send(fetch_request() * 2)
                for _ in range(2):
                    _, answer = await client.answer(FETCH, 12)
                    assert (
                        answer.responses[0].partitions[0].records
                        == content[50 : 50 + sum(sizes)] + b"tail"
                    )
                assert released == [True, True]

    run(main)


def test_file_truncated_under_a_response_closes_the_connection_and_releases_the_read() -> None:
    released: list[bool] = []

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 10_000)
            file.flush()
            for size in (12_000, 100_000):  # read, and sent from the file
                chunk = FileRange(file.fileno(), 0, size)

                def handle(asked: Any, context: Context, chunk: FileRange = chunk) -> FetchResponse:
                    return records_answer(
                        FileRecords(Read([chunk], chunk.length, lambda: released.append(True)))
                    )

                async with (
                    serving(fetch_handler(handle)) as server,
                    await server.connect() as client,
                ):
                    await client.send(fetch_request())
                    assert len(await client.closed()) < size
                    assert server.counts["response truncated"] == 1
            assert released == [True, True]

    run(main)


def test_read_is_released_when_the_client_disconnects() -> None:
    released: list[bool] = []

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            file.truncate(50_000_000)
            read = Read(
                [FileRange(file.fileno(), 0, 50_000_000)], 50_000_000, lambda: released.append(True)
            )
            async with serving(
                fetch_handler(lambda asked, context: records_answer(FileRecords(read)))
            ) as server:
                async with await server.connect() as client:
                    await client.send(fetch_request())
                    await client.exactly(1000)
                await until_async(lambda: not len(server.connections))
                assert released == [True]

    run(main)


def test_pending_response_with_a_truncated_file_closes_its_connection_only() -> None:
    waiting: list[PendingResponse] = []
    released: list[bool] = []

    def handle(asked: Any, context: Context) -> PendingResponse:
        waiting.append(PendingResponse())
        return waiting[-1]

    async def main() -> None:
        with tempfile.TemporaryFile() as file:
            for size in (100, 100_000):  # read, and sent from the file
                async with (
                    serving(fetch_handler(handle)) as server,
                    await server.connect() as client,
                ):
                    await client.send(fetch_request())
                    await until_async(lambda: server.server_context.purgatory.parked == 1)
                    read = Read(
                        [FileRange(file.fileno(), 0, size)], size, lambda: released.append(True)
                    )
                    waiting.pop().complete(records_answer(FileRecords(read)))
                    await client.closed()
                    assert server.counts["response truncated"] == 1
        assert released == [True, True]

    run(main)
