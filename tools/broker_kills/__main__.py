"""Kills a broker of one node again and again under load: ``python -m tools.broker_kills``.

``kwire serve`` is killed with SIGKILL and started again, and some processes are killed during their
start, while an idempotent producer, a transactional one, a copier of its records, and writers to a
compacted topic and to one with a short retention go on. Afterwards

* every acknowledged record has to be there once, at the offset that was acknowledged, and in the
  order of its producer;
* a transaction whose end was acknowledged has to be there whole or not at all;
* each committed record has to be copied once;
* the newest value of each key has to be there, and deleted records must not come back.

A writer that ends before the run is a violation, too. The result is a line of JSON, and the exit
status is 1 for a violation.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from tools.broker_kills.copier import Copier
from tools.broker_kills.deleted import Expiring, Keyed
from tools.broker_kills.server import SEGMENT_BYTES, Server
from tools.broker_kills.writers import TRANSACTION_S, Idempotent, Transactional, Writer

_RETENTION_BYTES: Final = 2 * SEGMENT_BYTES
#: The share of starts before which another process is killed while it starts.
_KILLED_STARTS: Final = 0.25
_TOPICS: Final = {
    "idempotent": {},
    "transactional": {},
    "copies": {},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "2000",
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": "1000",
    },
    "expiring": {"retention.bytes": str(_RETENTION_BYTES)},
}


@click.command(epilog="Example: python -m tools.broker_kills --rounds 300")
@click.option("--rounds", default=60, show_default=True, help="Kills of a broker that is ready.")
@click.option("--seed", default=1, show_default=True, help="When it is killed.")
@click.option("--pause", default=0.001, show_default=True, help="Between idempotent records, s.")
def main(rounds: int, seed: int, pause: float) -> None:
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kwire-kills-") as directory:
        server = Server(Path(directory))
        try:
            server.start()
            server.create(_TOPICS)
            writers = _writers(server, pause)
            for writer in writers:
                writer.start()
            starts = _kill(server, rounds, choose)
            time.sleep(1)
            copier = writers[-1]
            for writer in writers[:-1]:
                writer.end()
            time.sleep(TRANSACTION_S + 2)
            copier.end()
            found = [one for writer in writers for one in writer.violations()]
        finally:
            server.stop()
    counts = {name: value for writer in writers for name, value in writer.counts().items()}
    violations = list(dict.fromkeys(found))
    report = {"rounds": rounds, "killed_starts": starts, **counts, "violations": violations}
    print(json.dumps(report))
    sys.exit(bool(violations))


def _writers(server: Server, pause_s: float) -> Sequence[Writer]:
    bootstrap, directory = server.bootstrap, partial(server.log_directory, "idempotent")
    return (
        Idempotent(bootstrap, "idempotent", pause_s, directory),
        Transactional(bootstrap, "transactional"),
        Keyed(bootstrap, "compacted", pause_s),
        Expiring(bootstrap, "expiring", pause_s, _RETENTION_BYTES),
        Copier(bootstrap, "copies", "transactional"),
    )


def _kill(server: Server, rounds: int, choose: random.Random) -> int:
    """Kill the server so often; return how many more processes were killed in their start."""
    starts = 0
    for number in range(1, rounds + 1):
        time.sleep(choose.uniform(0.2, 1.5))
        server.kill()
        while choose.random() < _KILLED_STARTS:
            server.start_and_kill(choose.uniform(0.05, 1.0))
            starts += 1
        server.start()
        print(f"round {number} of {rounds}", file=sys.stderr)
    return starts


if __name__ == "__main__":
    main()
