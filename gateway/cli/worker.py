"""Runs a worker as a process: ``python -m gateway.cli.worker FD``, which the node starts.

It is no command for users. ``FD`` is the end of a socket pair that this process has inherited.
"""

from __future__ import annotations

import signal
import socket
import sys


def main() -> None:
    """Run the worker to its end."""
    # The terminal sends Ctrl-C to every process; the node stops its workers in order. Set before
    # the imports, which take most of the start.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from gateway.app.worker import run

    run(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
