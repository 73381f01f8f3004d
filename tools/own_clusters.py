"""Serves several quorums of one node each in one process: ``python -m tools.own_clusters DIR...``.

Each directory is the data directory of a quorum of its own, formatted on the first start. When all
are ready, a line of JSON has the address of each for clients, in the order of the directories.
``own_clusters`` runs that process.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import trio

from gateway.app import serve
from gateway.config.loading import load_config
from gateway.server.logging.logs import configure
from tools.gateway_process import SERVE_ENV
from tools.process import Process


@contextlib.contextmanager
def own_clusters(into: Path, count: int) -> Iterator[list[str]]:
    """Yield the addresses of ``count`` quorums of one node in one process, which is killed at the
    end of the block; their directories are in ``into``. Raises ProcessError.
    """
    directories = [str(into / f"data-{n}") for n in range(count)]
    command = [sys.executable, "-m", "tools.own_clusters", *directories]
    host = Process("clusters", command, into / "output", SERVE_ENV)
    try:
        host.wait_until(lambda: host.log.read_text().startswith("["), 60)
        yield json.loads(host.log.read_text())
    finally:
        host.kill()


async def main(directories: Sequence[str]) -> None:
    """Serve until the process is ended."""
    with tempfile.TemporaryDirectory(prefix="kwire-clusters-") as scratch:
        async with trio.open_nursery() as nursery:
            addresses = []
            for n, directory in enumerate(directories):
                flags = {
                    "source": "controller",
                    "data.dir": directory,
                    "state.dir": f"{scratch}/{n}",
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                }
                config = load_config(flags=flags, environment={}, file=None)
                running = await nursery.start(serve, config, trio.Event())
                addresses.append(str(next(iter(running.listeners().values()))))
            print(json.dumps(addresses), flush=True)


if __name__ == "__main__":
    os.environ.pop("KWIRE_CONFIG", None)
    configure("error", "json")
    trio.run(main, sys.argv[1:])
