"""``python -m tools.fuzz_server --frames 1000000``: sends seeded frames of all APIs to live
servers.

Four settings share the frames: the listener for clients and that for controllers, each without
authentication and with SASL and an authorizer. The exit status is 1 when a server failed: a line of
its log that reports a bug, an election, too much memory, an answer that breaks the protocol, or a
normal client that is not served afterwards. The frames in flight are printed in hex; ``--setting
SETTING --replay HEX`` sends one again to a new server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tools.fuzz_server.run import TABLES, fuzz, replay
from tools.fuzz_server.servers import SETUPS, running

#: How the servers are set up, and the listener.
SETTINGS = tuple(f"{setup}-{listener}" for setup in SETUPS for listener in TABLES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the settings one after another. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz_server", description=str(__doc__).split("\n\n")[0]
    )
    parser.add_argument("--frames", type=int, default=20_000, help="of all settings together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first frame of each setting"
    )
    parser.add_argument(
        "--setting", action="append", choices=SETTINGS, help="only this one; may be repeated"
    )
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument(
        "--nodes", type=int, default=1, help="of each quorum; frames go to all of them"
    )
    parser.add_argument(
        "--replay", action="append", metavar="HEX", help="send this frame instead; may be repeated"
    )
    chosen = parser.parse_args(arguments)
    settings = chosen.setting or SETTINGS
    count, faults = chosen.frames // len(settings), 0
    for setup in SETUPS:
        listeners = [listener for listener in TABLES if f"{setup}-{listener}" in settings]
        if not listeners:
            continue
        with running(setup, chosen.nodes) as server:
            for listener in listeners:
                if chosen.replay:
                    result = replay(
                        server, listener, [bytes.fromhex(text) for text in chosen.replay]
                    )
                else:
                    result = fuzz(
                        server,
                        listener,
                        seed=chosen.seed,
                        first=chosen.first,
                        count=count,
                        connections=chosen.connections,
                    )
                print(f"{setup}-{listener}, seed {chosen.seed}: {result.summary()}", flush=True)
                faults += len(result.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
