"""Serves many logs from one process: ``python -m tools.log_servers DIR...`` runs a server of its
own, with listeners, views and cluster id, over each directory, and prints their addresses as a
JSON list. It ends with SIGTERM.

For tests of what reads many clusters: twenty processes of ``kwire serve`` would take longer to
start than all that is done with them.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import trio

from gateway.app.node import serve
from gateway.config.loading import load_config
from tools.process import PATIENCE_S, Process


@contextlib.contextmanager
def log_servers(*directories: Path, timeout_s: float = PATIENCE_S) -> Iterator[list[str]]:
    """The addresses of the servers of ``directories``, in that order. Raises ProcessError."""
    with tempfile.TemporaryDirectory(prefix="kwire-servers-") as scratch:
        command = [sys.executable, "-m", "tools.log_servers", *map(str, directories)]
        process = Process("tools.log_servers", command, Path(scratch) / "output")

        def addresses() -> list[str]:
            lines = process.log.read_text(errors="replace").splitlines()
            return next((list(json.loads(one)) for one in lines if one.startswith('["')), [])

        try:
            process.wait_until(lambda: bool(addresses()), timeout_s)
            yield addresses()
        finally:
            process.stop()


async def _main(directories: Sequence[str], scratch: str) -> None:
    stop = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            found = []
            for number, directory in enumerate(directories):
                flags = {
                    "source": "log",
                    "log.dirs": directory,
                    "state.dir": f"{scratch}/{number}",
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                }
                config = load_config(flags=flags, environment={}, file=None)
                ready = await nursery.start(serve, config, stop)
                await ready.loaded()
                found.append(str(next(iter(ready.listeners().values()))))
            print(json.dumps(found), flush=True)
            async for _ in signals:
                stop.set()
                break


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kwire-state-") as temporary:
        trio.run(_main, sys.argv[1:], temporary)
