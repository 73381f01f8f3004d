"""Serves several quorums of one node each in one process: ``python -m tools.own_clusters DIR...``.

Each directory is the data directory of a quorum of its own, formatted on the first start. When all
are ready, a line of JSON has the address of each for clients, in the order of the directories.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence

import trio

from gateway.app import serve
from gateway.config_loading import load_config
from gateway.server.logs import configure


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
