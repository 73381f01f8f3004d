"""``python -m tools.refused_requests --count 100000``: shows that refused requests take no memory.

For each API of a listener it finds random requests (``tools.fuzz_server``) that a server answers
with an error, or with a closed connection. It sends them in turn to a running server, and compares
resident memory after a first round of a tenth and after all of them. The exit status is 1 if an API
adds more than 5 MiB. ``tests/hostile/test_refused_requests.py`` looks for what is kept in a process
of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import trio

from gateway.handlers.context import Handler
from gateway.ports.answer_errors import errors_of
from kwire.errors import DecodeError, UnsupportedVersion
from kwire.header import decode_response_header
from kwire.registry import response_type
from tools.fuzz_server.connections import PATIENCE_S, FrameStream
from tools.fuzz_server.frames import Frame, FrameSource, versions_of
from tools.fuzz_server.run import TABLES
from tools.fuzz_server.servers import running
from tools.fuzz_server.values import Known
from tools.process import memory_mib

#: Frames that are made for each version, of which those are sent that are refused.
_VARIANTS: Final = 6
#: Requests on their way at once.
_PIPELINED: Final = 64
_GROWTH_MIB: Final = 5.0


async def refused(
    port: int, source: FrameSource, handler: Handler, variants: int = _VARIANTS
) -> list[Frame]:
    """Return requests of the API, of each version that has any, that the server refuses.

    Where it refuses none, those that it answers: ApiVersions and others refuse nothing.
    """
    found: list[Frame] = []
    answered: list[Frame] = []
    for version in versions_of(handler):
        for number in range(variants):
            frame = source.valid(handler, version, number)
            await _fate(port, frame)  # what it may change it has changed before it is looked at
            if (fate := await _fate(port, frame)) is not None:
                (found if fate else answered).append(frame)
    return found or answered


async def repeat(port: int, frames: Sequence[Frame], count: int) -> None:
    """Send ``count`` requests, ``frames`` in turn, and wait for the responses."""
    left = list(itertools.islice(itertools.cycle(frames), count))
    while left:
        stream = FrameStream(await trio.open_tcp_stream("127.0.0.1", port))
        try:
            while left and await _exchanged(stream, left):
                pass
        finally:
            await trio.aclose_forcefully(stream.stream)


async def _exchanged(stream: FrameStream, left: list[Frame]) -> bool:
    """Send some of the requests; False if the connection ends. Removes those with an answer, and
    the one that the server closed the connection for.
    """
    batch = left[:_PIPELINED]
    with contextlib.suppress(trio.BrokenResourceError):  # answers to earlier ones may be there
        await stream.stream.send_all(b"".join(frame.data for frame in batch))
    for number in range(len(batch)):
        if await stream.frame() is None:
            del left[: number + 1]
            return False
    del left[: len(batch)]
    return True


async def _fate(port: int, frame: Frame) -> bool | None:
    """True for a request that the server refuses, None for one that waits, or is not answered."""
    stream = FrameStream(await trio.open_tcp_stream("127.0.0.1", port))
    try:
        with trio.move_on_after(PATIENCE_S):
            with contextlib.suppress(trio.BrokenResourceError):
                await stream.stream.send_all(frame.data)
            return _is_refusal(frame, await stream.frame())
    finally:
        await trio.aclose_forcefully(stream.stream)
    return None


def _is_refusal(frame: Frame, answer: bytes | None) -> bool:
    if answer is None:
        return True
    try:
        _, at = decode_response_header(frame.api_key, frame.version, answer)
        return bool(errors_of(response_type(frame.api_key).decode(answer[at:], frame.version)))
    except (DecodeError, UnsupportedVersion):
        return True  # of a version with a class of its own


async def _measure(
    port: int, source: FrameSource, handler: Handler, count: int, pid: int
) -> tuple[int, float, float]:
    frames = await refused(port, source, handler)
    if not frames:
        return 0, 0.0, 0.0
    await repeat(port, frames, count // 10)
    before = memory_mib(pid)
    await repeat(port, frames, count)
    return len(frames), before, memory_mib(pid)


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the requests to a server of its own. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.refused_requests", description=str(__doc__).split("\n\n")[0]
    )
    parser.add_argument("--count", type=int, default=100_000, help="requests of each API")
    parser.add_argument("--listener", action="append", choices=TABLES)
    parser.add_argument("--api", action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    with running("plain") as server:
        known = Known(server.cluster.cluster_id, server.epoch)
        grown = 0
        for listener in chosen.listener or TABLES:
            table = TABLES[listener]()
            source = FrameSource(chosen.seed, listener, table, known)
            port = server.port(listener.upper())
            for handler in _chosen(table.values(), chosen.api):
                kinds, before, after = trio.run(
                    _measure, port, source, handler, chosen.count, server.node.pid
                )
                grown += after - before > _GROWTH_MIB
                print(
                    f"{listener} {handler.name}: {kinds} requests, {before:.1f} MiB after"
                    f" {chosen.count // 10:,}, {after - before:+.1f} after {chosen.count:,} more",
                    flush=True,
                )
    return 1 if grown else 0


def _chosen(handlers: Iterable[Handler], names: Sequence[str] | None) -> list[Handler]:
    return [one for one in handlers if not names or one.name in names]


if __name__ == "__main__":
    sys.exit(main())
